//! Copies, with their mechanisms, fills and atomic updates.

use super::args::Args;
use super::value::Value;
use super::{Evaluator, instruction, integer};
use crate::atoms;
use crate::number::Number;
use crate::problem::Problem;
use crate::thread::Change;
use crate::tile::How;
use crate::typing::Type;
use crate::view::View;

impl Evaluator {
    /// `copy(from, to)`
    pub(super) fn copy_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let to = args.view(1)?;
        let from = match args.get(0) {
            Some(value) if value.as_number().is_some() => {
                args.part(1)?;
                let number = args.number(0)?;
                let elem = match number.ty {
                    // An integer of the kernel is an `i32`, and is converted as elements are.
                    Some(Type::Elem(own)) if !matches!(value, Value::Number(_)) => own,
                    _ => self.builder.elem(&to),
                };
                let one = self.room_for(args.name_or("number"), elem, std::slice::from_ref(&to))?;
                self.builder.fill(&one, number.expr).map_err(|problem| problem.arg(0))?;
                one
            }
            _ => args.view(0)?,
        };
        let from = if integer::is_one(&to) { self.fitting(from, &to) } else { from };
        if from.rank() == to.rank() {
            if let Some(Value::View(_)) = args.get(0) {
                args.part(0)?;
            }
            args.part(1)?;
        }
        let (mut how, mut fill, mut clamps, mut update) = (How::Derive, None, false, None);
        let change = |text: &str| {
            let name = text.strip_prefix("atomic_")?;
            Change::ALL.iter().find(|row| row.0 == name).map(|row| row.1)
        };
        for (name, value, span) in &args.named {
            match (name.text.as_str(), value) {
                ("how", Value::Text(text)) if text == "plain" => how = How::Plain,
                ("how", Value::Text(text)) if text == "staged" => how = How::Staged,
                ("clamp", Value::Bool(yes)) => clamps = *yes,
                ("how", Value::Text(text)) if change(text).is_some() => update = change(text),
                ("how", Value::Text(text)) if atoms::find(text).is_some() => {
                    let row = match instruction::copy_row(text) {
                        Ok(row) => row,
                        Err(problem) => return Ok(self.complain(*span, problem)),
                    };
                    return self.copy_by(row, &from, &to).map(|()| Value::Unit);
                }
                ("fill", Value::Float(x)) => fill = Some((Number::from(*x), *span)),
                ("fill", Value::Int(n)) => fill = Some((Number::from(*n), *span)),
                (name, other) => {
                    let problem = Problem::new(format!("`{name}` cannot be {}", other.kind()));
                    return Ok(self.complain(*span, problem.help(usage(name))));
                }
            }
        }
        if clamps && fill.is_some() {
            let problem = Problem::new("a copy repeats the edge or fills what lies beyond it, not both");
            return Err(problem.help("leave out `clamp` or `fill`"));
        }
        let modes = if clamps { 0..from.base.len() } else { 0..0 };
        let from = modes.fold(from, View::nearest);
        if let (Some(update), None) = (update, &fill) {
            self.builder.atomic(&from, &to, update)?;
            return Ok(Value::Unit);
        }
        match (how, fill) {
            _ if update.is_some() => {
                let problem = Problem::new("an atomic copy skips what lies outside, and has no fill");
                return Err(problem.help("leave out `fill`"));
            }
            (How::Derive, Some((fill, span))) => match self.builder.copy_filled(&from, &to, fill) {
                Err(problem) if problem.arg == Some(2) => return Ok(self.complain(span, problem)),
                done => done?,
            },
            (_, Some(_)) => {
                let problem = Problem::new("a copy has a mechanism or a fill of its own, not both");
                return Err(problem.help("leave out `how` or `fill`"));
            }
            (how, None) => self.builder.copy_how(&from, &to, how, None)?,
        }
        Ok(Value::Unit)
    }
}

/// What an argument of a copy can be.
fn usage(name: &str) -> String {
    if name != "how" {
        return "write fill = 0.0, or clamp = true".into();
    }
    let mut all = vec!["plain".to_owned(), "staged".to_owned()];
    all.extend(Change::ALL.iter().map(|(name, _)| format!("atomic_{name}")));
    let all: Vec<String> = all.iter().map(|name| format!("\"{name}\"")).collect();
    format!("`how` is one of {}, or the name of an instruction that copies", all.join(", "))
}
