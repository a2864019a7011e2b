//! `schedule = (values = (4, 4), vec = 4)`: keys that record how a kernel was tuned, grouped inside one key. Readers of keys
//! get one list of all keys.

use super::keys;
use crate::source::ast::make::named;
use crate::source::ast::{Arg, Expr, ExprKind, Name, Span};
use crate::source::diagnostic::Diagnostic;

/// The key that contains the others.
pub(super) const KEY: &str = "schedule";

/// All keys in one list, a schedule's keys among the others; and the errors of keys in the wrong list.
pub(super) fn flat(args: &[Arg]) -> (Vec<Arg>, Vec<Diagnostic>) {
    let (mut all, mut wrong, mut outside) = (Vec::new(), Vec::new(), Vec::new());
    for arg in args {
        if arg.is(KEY) {
            inside(&arg.value, &mut all, &mut wrong);
            continue;
        }
        all.push(arg.clone());
        outside.extend(
            arg.name.as_ref().filter(|name| keys::is_of_schedule(&name.text)).map(|name| (name, arg)),
        );
    }
    let shown: Vec<String> = outside.iter().map(|(_, arg)| shown(arg)).collect();
    wrong.extend(outside.iter().map(|(name, _)| {
        let help = format!("write {KEY} = ({})", shown.join(", "));
        Diagnostic::error(name.span, format!("`{}` is a key of `{KEY}`", name.text)).help(help)
    }));
    (all, wrong)
}

/// The keys of one schedule.
fn inside(value: &Expr, all: &mut Vec<Arg>, wrong: &mut Vec<Diagnostic>) {
    const FORM: &str = "write schedule = (values = (4, 4), vec = 4)";
    let args = match &value.kind {
        ExprKind::Call { function, args, .. } if function.text == KEY => args,
        _ => {
            return wrong
                .push(Diagnostic::error(value.span, "`schedule` has keys in parentheses").help(FORM));
        }
    };
    for arg in args {
        let Some(name) = &arg.name else {
            wrong.push(Diagnostic::error(arg.value.span, "every value needs its key").help(FORM));
            continue;
        };
        if keys::key(&name.text).is_some() && !keys::is_of_schedule(&name.text) {
            let help = format!("write it beside the schedule: {}", shown(arg));
            let what = format!("`{}` is no key of `{KEY}`", name.text);
            wrong.push(Diagnostic::error(name.span, what).help(help));
        }
        all.push(arg.clone());
    }
}

/// A key as it is written, where its value is short.
fn shown(arg: &Arg) -> String {
    let Arg { name: Some(name), value } = arg else { return arg.to_string() };
    let is_short =
        matches!(value.kind, ExprKind::Int(_) | ExprKind::Bool(_) | ExprKind::Name(_) | ExprKind::Tuple(_));
    if is_short { arg.to_string() } else { format!("{} = …", name.text) }
}

/// Sets a key, inside of the schedule if it belongs there.
pub fn set(args: &mut Vec<Arg>, name: Name, value: Expr) {
    let text = name.text.clone();
    let arg = Arg { name: Some(name), value };
    if !keys::is_of_schedule(&text) {
        args.retain(|old| !old.is(&text));
        args.push(arg);
        return;
    }
    for schedule in args.iter_mut().filter(|old| old.is(KEY)) {
        if let ExprKind::Call { args, .. } = &mut schedule.value.kind {
            args.retain(|old| !old.is(&text));
        }
    }
    let kind = ExprKind::Call { function: named(KEY), types: Vec::new(), args: vec![arg] };
    args.push(Arg { name: Some(named(KEY)), value: Expr { kind, span: Span::default() } });
}
