//! Gathers inside closures, and `scatter`: accesses to elements whose coordinates are elements.

use super::args::Args;
use super::copies::{change, memory_order, nothing_expected};
use super::elements::mapped;
use super::value::Value;
use super::{Evaluator, advice};
use crate::source::ast::{self, ExprKind, Span};
use crate::source::problem::{Problem, count};
use crate::thread::{Bin, Change, MemoryOrder};
use crate::tile;
use crate::tile::view::{At, View};
use crate::values::elem::Elem;
use crate::values::number::Number;
use crate::values::typing::{self, Scalar, Type};

impl Evaluator {
    /// Does an index differ from element to element?
    pub(super) fn names_elements(&self, at: &Value) -> bool {
        let differs = |value: &Value| matches!(value, Value::Number(_)) && self.integer(value).is_none();
        self.captured.is_some()
            && match at {
                Value::Tuple(items) => items.iter().any(differs),
                one => differs(one),
            }
    }

    /// `x[(i, at.0)]` in a closure: an element of memory for each element.
    pub(super) fn gathered(&mut self, view: &View, at: Value, span: Span) -> Result<Value, Problem> {
        let Some(captured) = &self.captured else { return Ok(Value::Poison) };
        let rank = captured.ins.iter().map(View::rank).max().unwrap_or(1);
        let ins = captured.inputs(rank)?;
        let (view, indices) = self.placed(view, at, span)?;
        let mut numbers = Vec::new();
        for index in indices {
            let known = self.captured.as_ref().and_then(|captured| {
                captured.numbers.iter().find(|(of, _)| *of == index).map(|(_, tile)| tile.clone())
            });
            let tile = match known {
                Some(tile) => tile,
                None => self.computed(&format!("{}_index", view.name), &ins, index.clone(), Elem::I32)?,
            };
            if let Some(captured) = &mut self.captured {
                captured.numbers.push((index, tile.clone()));
            }
            numbers.push(tile);
        }
        let to = self.room_for(&format!("{}_there", view.name), self.builder.elem(&view), &ins)?;
        self.builder.gather(&view, &numbers, &to)?;
        Ok(self.input(&to))
    }

    /// A function of elements in separate registers.
    pub(super) fn computed(
        &mut self,
        name: &str,
        ins: &[View],
        value: tile::Expr,
        elem: Elem,
    ) -> Result<View, Problem> {
        if let Some(whole) = ins.iter().find(|view| view.extents().is_none()) {
            return Err(advice::whole(whole, "map").arg(0));
        }
        let tile = self.room_for(name, elem, ins)?.with_name(name);
        self.builder.map(ins, &tile, value)?;
        Ok(tile)
    }

    /// A view of memory along the modes whose coordinates differ from element to element, and those coordinates.
    fn placed(&mut self, view: &View, at: Value, span: Span) -> Result<(View, Vec<tile::Expr>), Problem> {
        let items = match at {
            Value::Tuple(items) => items,
            one => vec![one],
        };
        let (mut coordinates, mut indices) = (Vec::new(), Vec::new());
        for item in items {
            let item = match self.indices(item, span) {
                Value::Poison => return Err(Problem::reported()),
                item => item,
            };
            match (item.at(), item) {
                (Some(At::Index(at)), _) => coordinates.push(At::Index(at)),
                (_, Value::Number(number)) => {
                    coordinates.push(At::All);
                    indices.push(index(number)?);
                }
                (_, Value::Hole) => {
                    return Err(Problem::new("an index selects one element, and `_` keeps all along a mode")
                        .help("write a coordinate for each mode, such as table[(row, at.1)]"));
                }
                (_, other) => return Err(advice::coordinate(&other, "write integers, such as x[(i, at.1)]")),
            }
        }
        let sliced = match coordinates.len() == view.rank() && indices.len() == view.rank() {
            true => view.clone(),
            false => self.builder.slice(view, &coordinates)?,
        };
        Ok((sliced, indices))
    }

    /// `scatter(x, y, |x, at| ((at.1, at.0), x))`
    pub(super) fn scatter_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let mut mapped = mapped(args)?;
        let Some([to]) = mapped.to.as_deref() else {
            return Err(
                Problem::new("`scatter` takes tensors, what it writes to, and a closure").help(args.usage())
            );
        };
        let to = to.clone();
        let (change, order, declared) = scattered_how(args)?;
        mapped.to = None;
        if let Some(view) = mapped.ins.iter().find(|view| view.extents().is_none()) {
            return Err(advice::whole(view, "scatter").arg(0));
        }
        let span = mapped.closure.body.span;
        let [of_index, of_value] = pair(&mapped.closure.body).unwrap_or([span; 2]);
        let (at, value) = match self.of_elements(&mut mapped)? {
            Value::Poison => return Ok(Value::Poison),
            Value::Tuple(pair) => match <[Value; 2]>::try_from(pair) {
                Ok([at, value]) => (at, value),
                Err(_) => return Ok(self.complain(span, no_pair())),
            },
            _ => return Ok(self.complain(span, no_pair())),
        };
        let elem = self.builder.elem(&to);
        let value = match value.as_number().map(|number| number.into_elem(elem)) {
            Some(Ok(value)) => value,
            Some(Err(problem)) => return Ok(self.complain(of_value, problem)),
            None => {
                let problem = Problem::new(format!("an element cannot be set to {}", value.kind()));
                return Ok(
                    self.complain(of_value, problem.help("end the closure with an index and a number"))
                );
            }
        };
        let entries = if let Value::Tuple(entries) = &at { entries.len() } else { 1 };
        if entries != to.rank() {
            let (modes, given) = (count(to.rank(), "mode"), count(entries, "coordinate"));
            let problem =
                Problem::new(format!("`{}` has {modes}, {}, and the index has {given}", to.name, to.shape()));
            let help = "an index has an entry for each mode: scatter(x, y, |x, at| ((at.1, at.0), x))";
            return Ok(self.complain(of_index, problem.help(help)));
        }
        let (to, indices) = match self.placed(&to, at, of_index) {
            Ok(placed) => placed,
            Err(problem) => return Ok(self.complain(of_index, problem)),
        };
        let mut numbers = Vec::new();
        for index in indices {
            numbers.push(self.computed(&format!("{}_index", to.name), &mapped.ins, index, Elem::I32)?);
        }
        let from = self.computed(&format!("{}_value", to.name), &mapped.ins, value, elem)?;
        let update = change
            .map(|change| self.update(change, order.map(|(order, _)| order), &from, args))
            .transpose()?;
        let old = update.as_ref().and_then(|update| update.old.clone());
        self.builder.scatter(&from, &numbers, &to, update, declared).map_err(|problem| problem.arg(1))?;
        Ok(old.map_or(Value::Unit, Value::View))
    }
}

/// Where a closure of two values writes them, if it ends with both.
fn pair(body: &ast::Expr) -> Option<[Span; 2]> {
    match &body.kind {
        ExprKind::Tuple(items) => <[&ast::Expr; 2]>::try_from(items.iter().collect::<Vec<_>>())
            .ok()
            .map(|pair| pair.map(|item| item.span)),
        ExprKind::Block { value, .. } => pair(value),
        _ => None,
    }
}

/// How a scatter writes, and whether its author says that elements from out of bounds are not stored.
#[allow(clippy::type_complexity)]
fn scattered_how(args: &Args) -> Result<(Option<Change>, Option<(MemoryOrder, Span)>, bool), Problem> {
    let (mut update, mut order, mut declared) = (None, None, false);
    for (name, value, span) in &args.named {
        let known = match value {
            Value::Text(text) => change(text),
            _ => None,
        };
        match (name.text.as_str(), value, known) {
            ("out_of_bounds", Value::Int(-1), _) => declared = true,
            ("how", _, Some(change)) => update = Some(change),
            ("order", ..) => order = Some(memory_order(value, *span)?),
            ("expected", ..) => {}
            ("out_of_bounds", ..) => {
                return Err(Problem::new(format!("`out_of_bounds` cannot be {}", value.kind()))
                    .help("write out_of_bounds = -1, which declares that out-of-bounds elements have an index out of bounds"));
            }
            _ => {
                return Err(Problem::new(format!("`how` cannot be {}", value.kind()))
                    .help("write how = \"atomic_add\", \"atomic_max\" or another atomic update; without `how` elements are stored"));
            }
        }
    }
    if update.is_none() {
        nothing_expected(args)?;
    }
    Ok((update, order, declared))
}

fn no_pair() -> Problem {
    Problem::new("the closure of `scatter` returns an index and a value")
        .help("end it with both: |x, at| (at.0, x), or with two modes |x, at| ((at.1, at.0), x)")
}

/// A 64-bit integer as the nearest `i32`: one that does not fit is out of bounds of every tensor.
fn clamped(number: Scalar, elem: Elem) -> Result<Scalar, Problem> {
    if elem.bits() <= 32 {
        return Ok(number);
    }
    let below = typing::bin(Bin::Min, number, Scalar::literal(i32::MAX))?;
    if elem.is_signed() { typing::bin(Bin::Max, below, Scalar::literal(i32::MIN)) } else { Ok(below) }
}

/// A coordinate as an `i32`.
fn index(number: Scalar) -> Result<tile::Expr, Problem> {
    match number.ty {
        Some(Type::Elem(elem)) if elem.is_integer() => {
            Ok(typing::cast(Elem::I32, clamped(number, elem)?)?.expr)
        }
        // Literals, and a choice of them.
        None if !matches!(number.expr, tile::Expr::Lit(Number::Float(_))) => number.into_elem(Elem::I32),
        ty => Err(advice::no_integer(&Value::Number(Scalar { ty, ..number }).kind())),
    }
}
