//! Copies, with their mechanisms, fills and atomic updates.

use super::args::Args;
use super::value::Value;
use super::{Evaluator, advice, instruction, integer};
use crate::isa;
use crate::source::ast::Span;
use crate::source::problem::Problem;
use crate::source::spelling::did_you_mean;
use crate::thread::{Change, MemoryOrder};
use crate::tile::view::View;
use crate::tile::{How, Space, Update};
use crate::values::elem::Elem;
use crate::values::expr::Expr;
use crate::values::typing::Type;

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
        let [held, wanted] = [&from, &to].map(|view| self.builder.elem(view));
        if (held == Elem::Bool) != (wanted == Elem::Bool) {
            return Err(if held == Elem::Bool {
                Problem::new("`copy` converts numbers, and this is a condition")
                    .help("convert it: (x > 0.0) as f32 is 1 where it is true and 0 elsewhere, and as i32 counts")
                    .arg(0)
            } else {
                Problem::new(format!("`{}` is a tile of bool, and these are elements of {held}", to.name))
                    .help(format!(
                        "compare them: copy({} != {}, …)",
                        from.name,
                        if held.is_float() { "0.0" } else { "0" }
                    ))
                    .arg(0)
            });
        }
        let from = if integer::is_one(&to) { self.fitting(from, &to) } else { from };
        if from.rank() == to.rank() {
            if let Some(Value::View(_)) = args.get(0) {
                args.part(0)?;
            }
            args.part(1)?;
        }
        let (mut how, mut fill, mut update, mut order) = (How::Derive, None, None, None);
        let (mut clamps, mut checked) = (false, None);
        for (name, value, span) in &args.named {
            match (name.text.as_str(), value) {
                ("how", Value::Text(text)) if text == "plain" => how = How::Plain,
                ("how", Value::Text(text)) if text == "staged" => how = How::Staged,
                ("how", Value::Text(text)) if text == "realigned" => {
                    let space = |view| self.builder.space(view);
                    if !matches!((space(&from), space(&to)), (Space::Global { .. }, Space::Registers { .. }))
                    {
                        let message = format!(
                            "how = \"realigned\" loads a thread's elements of a tensor into registers, and here `{}` is copied to `{}`",
                            from.name, to.name
                        );
                        let help = "leave out `how`, or copy to registers_like(…)";
                        return Ok(self.complain(*span, Problem::new(message).help(help)));
                    }
                    how = How::Realigned;
                }
                ("clamp", Value::Bool(yes)) => clamps = *yes,
                ("boundary_check", modes) if modes_of(modes, &from).is_some() => {
                    checked = modes_of(modes, &from);
                }
                ("how", Value::Text(text)) if change(text).is_some() => update = change(text),
                ("order", _) => match memory_order(value, *span) {
                    Ok(known) => order = Some(known),
                    Err(problem) => return Ok(self.complain(*span, problem)),
                },
                ("how", Value::Text(text)) if isa::find(text).is_some() => {
                    let row = match instruction::copy_row(text) {
                        Ok(row) => row,
                        Err(problem) => return Ok(self.complain(*span, problem)),
                    };
                    return self.copy_by(row, &from, &to).map(|()| Value::Unit);
                }
                ("expected", _) => {}
                ("fill", value) if value.literal().is_some() => fill = value.literal().zip(Some(*span)),
                (name, other) => {
                    let problem = Problem::new(format!("`{name}` cannot be {}", other.kind()));
                    return Ok(self.complain(*span, problem.help(usage(name, value))));
                }
            }
        }
        if clamps && fill.is_some() {
            let problem = Problem::new("a copy takes `clamp` or `fill`, not both");
            return Err(problem.help("leave out `clamp` or `fill`"));
        }
        if clamps && checked.is_some() {
            let problem = Problem::new("a copy takes `clamp` or `boundary_check`, not both");
            return Err(problem.help("leave out `clamp` or `boundary_check`"));
        }
        let modes = 0..from.base.len();
        let from = match (clamps, checked) {
            (true, _) => modes.fold(from, View::nearest),
            (false, Some(checked)) => {
                // If all blocks at an edge copied its last row, they would wait for one slice of the L2 cache.
                let any = if from.of_thread || from.per_thread() { View::clamped } else { View::wrapped };
                modes.filter(|mode| !checked.contains(mode)).fold(from, any)
            }
            (false, None) => from,
        };
        if let (None, Some((_, span))) = (update, order) {
            let problem = Problem::new("only atomic updates have the argument `order`");
            return Ok(self.complain(span, problem.help("add how = \"atomic_add\" or another atomic update")));
        }
        if update.is_none() {
            nothing_expected(args)?;
        }
        if let (Some(change), None) = (update, &fill) {
            let update = self.update(change, order.map(|(order, _)| order), &to, args)?;
            let old = update.old.clone();
            self.builder.atomic(&from, &to, update)?;
            return Ok(old.map_or(Value::Unit, Value::View));
        }
        match (how, fill) {
            _ if update.is_some() => {
                let problem =
                    Problem::new("an atomic copy skips out-of-bounds elements, so it has no `fill`");
                return Err(problem.help("leave out `fill`"));
            }
            (How::Derive, Some((fill, span))) => match self.builder.copy_filled(&from, &to, fill) {
                Err(problem) if problem.arg == Some(2) => return Ok(self.complain(span, problem)),
                done => done?,
            },
            (_, Some(_)) => {
                let problem = Problem::new("a copy takes `how` or `fill`, not both");
                return Err(problem.help("leave out `how` or `fill`"));
            }
            (how, None) => self.builder.copy_how(&from, &to, how, None)?,
        }
        Ok(Value::Unit)
    }
}

impl Evaluator {
    /// An atomic update. If its value has a name, this is the old value, and the update orders the statements around
    /// it, unless the author sets another order.
    pub(super) fn update(
        &mut self,
        with: Change,
        order: Option<MemoryOrder>,
        like: &View,
        args: &Args,
    ) -> Result<Update, Problem> {
        let old = match &args.naming[..] {
            [] => None,
            [name, ..] => {
                let elem = self.builder.elem(like);
                let old = self.room_for(name, elem, std::slice::from_ref(like))?.with_name(name);
                // Elements that are not updated have the old value 0; of whole tiles a pass sets it.
                if !self.is_whole(&old) {
                    self.builder.fill(&old, Expr::lit(0i64).cast(elem))?;
                }
                Some(old)
            }
        };
        let usual = if old.is_some() { MemoryOrder::Both } else { MemoryOrder::Relaxed };
        let expected = self.expected(like, args)?;
        Ok(Update { order: order.unwrap_or(usual), old, expected, ..with.into() })
    }

    /// `expected = 0`, or a tile with the expected value of each element.
    fn expected(&mut self, like: &View, args: &Args) -> Result<Option<View>, Problem> {
        let Some((_, value, _)) = args.named.iter().find(|(name, ..)| name.text == "expected") else {
            return Ok(None);
        };
        let elem = self.builder.elem(like);
        match value {
            Value::View(view) if !integer::is_one(view) || integer::is_one(like) => {
                Ok(Some(if self.is_whole(view) { self.loaded(view)? } else { self.loaded_part(view)? }))
            }
            value => {
                let number = value.as_number().ok_or_else(|| {
                    Problem::new(format!(
                        "`expected` is the value that elements are compared with, and this is {}",
                        value.kind()
                    ))
                    .help("write a number, or a tile with one for each element: expected = 0")
                })?;
                let tile = self.room_for("expected", elem, std::slice::from_ref(like))?;
                self.builder.fill(&tile, number.into_elem(elem)?)?;
                Ok(Some(tile))
            }
        }
    }
}

/// Refuses `expected` in a statement that is no atomic update.
pub(super) fn nothing_expected(args: &Args) -> Result<(), Problem> {
    match args.named.iter().any(|(name, ..)| name.text == "expected") {
        false => Ok(()),
        true => Err(Problem::new("only an atomic compare_exchange has the argument `expected`")
            .help("add how = \"atomic_compare_exchange\"")),
    }
}

/// `atomic_add` and its like.
pub(super) fn change(text: &str) -> Option<Change> {
    let name = text.strip_prefix("atomic_")?;
    Change::ALL.iter().find(|row| row.0 == name).map(|row| row.1)
}

/// `order = "release"`
pub(super) fn memory_order(value: &Value, span: Span) -> Result<(MemoryOrder, Span), Problem> {
    let known = match value {
        Value::Text(text) => MemoryOrder::ALL.iter().find(|(name, _)| name == text),
        _ => None,
    };
    known.map(|(_, order)| (*order, span)).ok_or_else(|| {
        let all: Vec<String> = MemoryOrder::ALL.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        Problem::new(format!("`order` cannot be {}", value.kind()))
            .help(format!("it is one of {}", all.join(", ")))
    })
}

/// One mode of a view's tensor, or a tuple of them.
fn modes_of(modes: &Value, view: &View) -> Option<Vec<usize>> {
    let one = |mode: i64| usize::try_from(mode).ok().filter(|mode| *mode < view.base.len());
    match modes {
        Value::Int(mode) => Some(vec![one(*mode)?]),
        modes => modes.tuple()?.ints()?.into_iter().map(one).collect(),
    }
}

/// The kinds of a copy's arguments.
fn usage(name: &str, given: &Value) -> String {
    match name {
        "how" => {}
        "boundary_check" => {
            return "list modes of the tensor, counted from 0: boundary_check = 1, or (0, 1)".into();
        }
        _ => return "write fill = 0.0, or clamp = true".into(),
    }
    let mut all = ["plain", "staged", "realigned"].map(str::to_owned).to_vec();
    all.extend(Change::ALL.iter().map(|(name, _)| format!("atomic_{name}")));
    if let Value::Text(text) = given {
        let near = did_you_mean(text, all.iter().map(String::as_str));
        if let Some(instead) = advice::elsewhere(text).or(near) {
            return instead;
        }
    }
    let all: Vec<String> = all.iter().map(|name| format!("\"{name}\"")).collect();
    format!("`how` is one of {}, or the name of an instruction that copies", all.join(", "))
}
