//! `schedule = (values = (4, 4), vec = 4)`: keys that record how a kernel was tuned, grouped inside one key. Readers of keys
//! get one list of all keys.

use super::keys;
use crate::source::ast::{Arg, Expr, ExprKind, Name, Span};
use crate::source::diagnostic::Diagnostic;

/// The key that contains the others.
pub(super) const KEY: &str = "schedule";

/// All keys in one list, a schedule's keys among the others; and the errors of keys in the wrong list.
pub(super) fn flat(args: &[Arg]) -> (Vec<Arg>, Vec<Diagnostic>) {
    let (mut all, mut wrong, mut outside) = (Vec::new(), Vec::new(), Vec::new());
    for arg in args {
        match &arg.name {
            Some(name) if name.text == KEY => inside(&arg.value, &mut all, &mut wrong),
            Some(name) if keys::is_of_schedule(&name.text) => {
                outside.push((name, &arg.value));
                all.push(arg.clone());
            }
            _ => all.push(arg.clone()),
        }
    }
    let shown: Vec<String> =
        outside.iter().map(|(name, value)| format!("{} = {}", name.text, shown(value))).collect();
    wrong.extend(outside.iter().map(|(name, _)| {
        let help = format!("write {KEY} = ({})", shown.join(", "));
        Diagnostic::error(name.span, format!("`{}` is a key of `{KEY}`", name.text)).help(help)
    }));
    (all, wrong)
}

/// The keys of one schedule.
fn inside(value: &Expr, all: &mut Vec<Arg>, wrong: &mut Vec<Diagnostic>) {
    const FORM: &str = "write schedule = (values = (4, 4), vec = 4)";
    let ExprKind::Call { function, args, .. } = &value.kind else {
        wrong.push(Diagnostic::error(value.span, "`schedule` has keys in parentheses").help(FORM));
        return;
    };
    if function.text != KEY {
        wrong.push(Diagnostic::error(value.span, "`schedule` has keys in parentheses").help(FORM));
        return;
    }
    for arg in args {
        match &arg.name {
            None => wrong.push(Diagnostic::error(arg.value.span, "every value needs its key").help(FORM)),
            Some(name) if keys::key(&name.text).is_some() && !keys::is_of_schedule(&name.text) => {
                let help = format!("write it beside the schedule: {} = {}", name.text, shown(&arg.value));
                let what = format!("`{}` is no key of `{KEY}`", name.text);
                wrong.push(Diagnostic::error(name.span, what).help(help));
                all.push(arg.clone());
            }
            Some(_) => all.push(arg.clone()),
        }
    }
}

/// A value as it is written, where it is short.
fn shown(value: &Expr) -> String {
    match &value.kind {
        ExprKind::Int(n) => n.to_string(),
        ExprKind::Bool(flag) => flag.to_string(),
        ExprKind::Name(name) => name.clone(),
        ExprKind::Tuple(items) => {
            let comma = if items.len() == 1 { "," } else { "" };
            format!("({}{comma})", items.iter().map(shown).collect::<Vec<_>>().join(", "))
        }
        _ => "…".to_owned(),
    }
}

/// Sets a key, inside of the schedule if it belongs there.
pub fn set(args: &mut Vec<Arg>, name: Name, value: Expr) {
    let is = |arg: &Arg, text: &str| arg.name.as_ref().is_some_and(|name| name.text == text);
    let arg = Arg { name: Some(name.clone()), value };
    if !keys::is_of_schedule(&name.text) {
        args.retain(|old| !is(old, &name.text));
        args.push(arg);
        return;
    }
    for schedule in args.iter_mut().filter(|old| is(old, KEY)) {
        if let ExprKind::Call { args, .. } = &mut schedule.value.kind {
            args.retain(|old| !is(old, &name.text));
        }
    }
    args.push(of(vec![arg]));
}

/// A schedule of these keys.
fn of(args: Vec<Arg>) -> Arg {
    let name = Name { text: KEY.to_owned(), span: Span::default() };
    let kind = ExprKind::Call { function: name.clone(), types: Vec::new(), args };
    Arg { name: Some(name), value: Expr { kind, span: Span::default() } }
}
