//! Copies, with their mechanisms, fills and atomic updates.

use super::args::Args;
use super::value::Value;
use super::{Evaluator, advice, instruction, integer};
use crate::isa;
use crate::isa::atom::Atom;
use crate::source::ast::Span;
use crate::source::problem::Problem;
use crate::source::spelling::did_you_mean;
use crate::thread::{Change, MemoryOrder};
use crate::tile::view::View;
use crate::tile::{How, Space, Update};
use crate::values::elem::Elem;
use crate::values::expr::Expr;
use crate::values::number::Number;
use crate::values::typing::Type;

/// The named arguments of a copy.
#[derive(Default)]
struct CopyOptions {
    how: How,
    /// An instruction, which has no other options.
    row: Option<&'static Atom>,
    fill: Option<(Number, Span)>,
    update: Option<Change>,
    order: Option<(MemoryOrder, Span)>,
    clamps: bool,
    /// The modes of `boundary_check`.
    checked: Option<Vec<usize>>,
}

/// The error of arguments that exclude each other.
fn not_both(first: &str, second: &str) -> Problem {
    Problem::new(format!("a copy takes `{first}` or `{second}`, not both"))
        .help(format!("leave out `{first}` or `{second}`"))
}

impl Evaluator {
    /// `copy(from, to)`
    pub(super) fn copy_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let to = args.view(1)?;
        let from = self.copy_source(args, &to)?;
        self.check_conversion(&from, &to)?;
        let from = if integer::is_one(&to) { self.fitting(from, &to) } else { from };
        if from.rank() == to.rank() {
            if let Some(Value::View(_)) = args.get(0) {
                args.part(0)?;
            }
            args.part(1)?;
        }
        let options = match self.copy_options(args, &from, &to) {
            Ok(options) => options,
            Err((problem, span)) => return Ok(self.complain(span, problem)),
        };
        let CopyOptions { how, row, fill, update, order, clamps, checked } = options;
        if let Some(row) = row {
            return self.copy_by(row, &from, &to).map(|()| Value::Unit);
        }
        if clamps && fill.is_some() {
            return Err(not_both("clamp", "fill"));
        }
        if clamps && checked.is_some() {
            return Err(not_both("clamp", "boundary_check"));
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
            (_, Some(_)) => return Err(not_both("how", "fill")),
            (how, None) => self.builder.copy_how(&from, &to, how, None)?,
        }
        Ok(Value::Unit)
    }

    /// The copied tile; a number is a tile of the target's shape.
    fn copy_source(&mut self, args: &Args, to: &View) -> Result<View, Problem> {
        let Some(value) = args.get(0).filter(|value| value.as_number().is_some()) else {
            return args.view(0);
        };
        args.part(1)?;
        let number = args.number(0)?;
        let elem = match number.ty {
            // An integer of the kernel is an `i32`, and is converted as elements are.
            Some(Type::Elem(elem)) if !matches!(value, Value::Number(_)) => elem,
            _ => self.builder.elem(to),
        };
        let tile = self.room_for(args.name_or("number"), elem, std::slice::from_ref(to))?;
        self.builder.fill(&tile, number.expr).map_err(|problem| problem.arg(0))?;
        Ok(tile)
    }

    /// Refuses copies from numbers to conditions and from conditions to numbers.
    fn check_conversion(&self, from: &View, to: &View) -> Result<(), Problem> {
        let problem = match [from, to].map(|view| self.builder.elem(view)) {
            [Elem::Bool, Elem::Bool] => return Ok(()),
            [Elem::Bool, _] => Problem::new("`copy` converts numbers, and this is a condition").help(
                "convert it: (x > 0.0) as f32 is 1 where it is true and 0 elsewhere, and as i32 counts",
            ),
            [elem, Elem::Bool] => {
                let zero = if elem.is_float() { "0.0" } else { "0" };
                Problem::new(format!("`{}` is a tile of bool, and these are elements of {elem}", to.name))
                    .help(format!("compare them: copy({} != {zero}, …)", from.name))
            }
            _ => return Ok(()),
        };
        Err(problem.arg(0))
    }

    /// The named arguments; or an error at one of them.
    fn copy_options(&self, args: &Args, from: &View, to: &View) -> Result<CopyOptions, (Problem, Span)> {
        let mut options = CopyOptions::default();
        for (name, value, span) in &args.named {
            match (name.text.as_str(), value) {
                ("how", Value::Text(text)) if text == "plain" => options.how = How::Plain,
                ("how", Value::Text(text)) if text == "staged" => options.how = How::Staged,
                ("how", Value::Text(text)) if text == "realigned" => {
                    let spaces = [from, to].map(|view| self.builder.space(view));
                    if !matches!(spaces, [Space::Global { .. }, Space::Registers { .. }]) {
                        let message = format!(
                            "how = \"realigned\" loads a thread's elements of a tensor into registers, and here `{}` is copied to `{}`",
                            from.name, to.name
                        );
                        let help = "leave out `how`, or copy to registers_like(…)";
                        return Err((Problem::new(message).help(help), *span));
                    }
                    options.how = How::Realigned;
                }
                ("clamp", Value::Bool(yes)) => options.clamps = *yes,
                ("boundary_check", modes) if modes_of(modes, from).is_some() => {
                    options.checked = modes_of(modes, from);
                }
                ("how", Value::Text(text)) if change(text).is_some() => options.update = change(text),
                ("order", _) => {
                    options.order = Some(memory_order(value, *span).map_err(|problem| (problem, *span))?);
                }
                ("how", Value::Text(text)) if isa::find(text).is_some() => {
                    options.row = Some(instruction::copy_row(text).map_err(|problem| (problem, *span))?);
                    return Ok(options);
                }
                ("expected", _) => {}
                ("fill", value) if value.literal().is_some() => {
                    options.fill = value.literal().zip(Some(*span));
                }
                (name, other) => {
                    let problem = Problem::new(format!("`{name}` cannot be {}", other.kind()));
                    return Err((problem.help(usage(name, value)), *span));
                }
            }
        }
        Ok(options)
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
