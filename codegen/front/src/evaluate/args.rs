//! Arguments of a call, each converted to the kind that the function needs.

use tilewright_layout::{Layout, Tiler, Tuple};

use super::advice;
use super::functions::FUNCTIONS;
use super::value::Value;
use crate::source::ast::{Expr, ExprKind, Name, Span};
use crate::source::problem::Problem;
use crate::tile::view::View;
use crate::values::limits;
use crate::values::typing::Scalar;

/// The arguments of a call: positional and named.
pub(super) struct Args {
    pub(super) call: Span,
    pub(super) name: String,
    pub(super) values: Vec<(Value, Span)>,
    pub(super) named: Vec<(Name, Value, Span)>,
    /// For each positional argument the constants of the kernel that it is, or that its parts are.
    pub(super) constants: Vec<Vec<Option<String>>>,
    /// Types between angle brackets.
    pub(super) types: Vec<Name>,
    /// The names that the results get.
    pub(super) naming: Vec<String>,
    /// The registers that the result is assigned to.
    pub(super) into: Option<View>,
}

impl Args {
    /// A missing or wrong argument.
    pub(super) fn needs(&self, arg: usize, what: &str) -> Problem {
        match self.values.get(arg) {
            Some((value, _)) => {
                let help = match value {
                    Value::Mma(_) => advice::ACCUMULATORS.to_owned(),
                    _ if value.is_optional() => advice::OPTIONAL.to_owned(),
                    _ => self.usage(),
                };
                Problem::new(format!("`{}` needs {what} here, and this is {}", self.name, value.kind()))
                    .help(help)
                    .arg(arg)
            }
            None => Problem::new(format!("`{}` needs {what} as argument {}", self.name, arg + 1))
                .help(self.usage()),
        }
    }

    pub(super) fn span(&self, arg: usize) -> Span {
        self.values.get(arg).map_or(self.call, |(_, span)| *span)
    }

    /// An argument.
    pub(super) fn get(&self, arg: usize) -> Option<&Value> {
        self.values.get(arg).map(|(value, _)| value)
    }

    /// A tensor.
    pub(super) fn view(&self, arg: usize) -> Result<View, Problem> {
        match self.get(arg) {
            Some(Value::View(view)) => Ok(view.clone()),
            _ => Err(self.needs(arg, "a tensor")),
        }
    }

    /// The part of a thread: its extents are known while compiling.
    pub(super) fn part(&self, arg: usize) -> Result<View, Problem> {
        match self.view(arg)? {
            whole if whole.extents().is_none() => Err(advice::whole(&whole, &self.name).arg(arg)),
            part => Ok(part),
        }
    }

    /// A layout.
    pub(super) fn layout(&self, arg: usize) -> Result<Layout, Problem> {
        self.get(arg).and_then(Value::layout).ok_or_else(|| self.needs(arg, "a layout"))
    }

    /// A shape, or a layout for each mode.
    pub(super) fn tiler(&self, arg: usize) -> Result<Tiler, Problem> {
        self.get(arg).and_then(Value::tiler).ok_or_else(|| self.needs(arg, "a shape or a layout"))
    }

    /// A shape.
    pub(super) fn shape(&self, arg: usize) -> Result<Tuple, Problem> {
        self.get(arg).and_then(Value::tuple).ok_or_else(|| self.needs(arg, "a shape"))
    }

    /// A number, which the kernel may compute.
    pub(super) fn number(&self, arg: usize) -> Result<Scalar, Problem> {
        match self.get(arg) {
            Some(Value::View(view))
                if ["full", "registers", "registers_like"].contains(&self.name.as_str()) =>
            {
                Err(self.needs(arg, "a number").help(format!(
                    "an element fills a tile afterwards: let mut t = {}(…, 0.0); fill(t, {})",
                    self.name, view.name
                )))
            }
            Some(Value::View(_)) => {
                let map = match self.values.len() {
                    1 => format!("map(x, |x| {}(x))", self.name),
                    _ => format!("map((x, y), |x, y| {}(x, y))", self.name),
                };
                Err(self.needs(arg, "a number").help(format!("elements are computed inside `map`: {map}")))
            }
            value => value.and_then(Value::as_number).ok_or_else(|| self.needs(arg, "a number")),
        }
    }

    /// An integer that is known while compiling.
    pub(super) fn integer(&self, arg: usize) -> Result<i64, Problem> {
        match self.get(arg) {
            Some(Value::Int(x)) => Ok(*x),
            _ => Err(self.needs(arg, "an integer")),
        }
    }

    /// The name that the result gets.
    pub(super) fn name_or<'a>(&'a self, other: &'a str) -> &'a str {
        if let [name] = &self.naming[..] { name } else { other }
    }

    /// The names of results that nobody names: they are made of the first tile.
    pub(super) fn made_of(&self) -> Vec<String> {
        let first = match self.get(0) {
            Some(Value::View(view)) => Some(view),
            Some(Value::Tuple(all)) => all.iter().find_map(|value| match value {
                Value::View(view) => Some(view),
                _ => None,
            }),
            _ => None,
        };
        let made = match self.name.rsplit('_').next() {
            Some("reduce") => "reduced",
            Some("scan") => "scanned",
            Some(of @ ("sum" | "maximum" | "minimum")) => of,
            _ => return Vec::new(),
        };
        first.map(|view| made_from(&view.name, made)).into_iter().collect()
    }

    /// The error where arguments do not fit together.
    pub(super) fn wrong(&self) -> Problem {
        Problem::new(format!("`{}` cannot take these arguments", self.name)).help(self.usage())
    }

    /// Checks that there are at most `count` arguments.
    pub(super) fn at_most(&self, count: usize) -> Result<(), Problem> {
        if self.values.len() <= count {
            return Ok(());
        }
        let most = match count {
            0 => "no arguments".to_owned(),
            1 => "one argument".to_owned(),
            n => format!("at most {n} arguments"),
        };
        let problem = Problem::new(format!("`{}` takes {most}, and this is one more", self.name));
        Err(problem.help(self.usage()).arg(count))
    }

    pub(super) fn poisoned(&self) -> bool {
        let poison = |value: &Value| matches!(value, Value::Poison);
        self.values.iter().any(|(v, _)| poison(v)) || self.named.iter().any(|(_, v, _)| poison(v))
    }

    pub(super) fn usage(&self) -> String {
        let row = FUNCTIONS.iter().find(|row| row.name == self.name);
        row.map_or_else(String::new, |row| format!("write {}", row.usage))
    }
}

/// Names of tiles that nobody names are made from others' while they are at most so long.
const LONGEST_MADE: usize = 24;

/// A name for an unnamed tile: the name of another tile, and its relation to that tile.
pub(super) fn made_from(name: &str, what: &str) -> String {
    match name.len() + what.len() < LONGEST_MADE {
        true => format!("{name}_{what}"),
        false => what.to_owned(),
    }
}

/// The name of a tile that is made for an assignment's target: a name, or a part of a named value.
pub(super) fn made_for(target: &Expr, what: &str) -> Vec<String> {
    match &target.kind {
        ExprKind::Name(name) if limits::is_name(name) => vec![made_from(name, what)],
        ExprKind::Index { base, .. } | ExprKind::Field { base, .. } => made_for(base, what),
        ExprKind::Method { receiver, .. } => made_for(receiver, what),
        _ => Vec::new(),
    }
}
