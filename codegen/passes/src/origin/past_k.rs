//! Values of operands past the end of K, from the statements that write them. Products combine all elements of their tiles, so
//! elements past the end of K must leave the sums unchanged: copies fill with 0, but a function of 0 may have another value.

use std::collections::BTreeMap;

use tilewright_layout::Value;

use super::propagation::shown;
use crate::thread::Id;
use crate::tile::elements::Edge;
use crate::tile::view::View;
use crate::tile::visit;
use crate::tile::{Expr, Op, Program, Space, Stmt};
use crate::values::affine::Affine;
use crate::values::elem::Elem;
use crate::values::operation::{Bin, Cmp, Un};
use crate::values::semiring::Semiring;
use crate::values::typing::{Type, Types};

/// Longer chains of statements have no value here.
const DEEPEST: u32 = 16;

/// Deeper expressions have no value here.
const DEEPEST_EXPRESSION: u32 = 100;

/// Where K ends, for the elements after that.
#[derive(Clone, Debug)]
pub(super) struct End {
    /// The size; `None` if it is not known which one.
    pub(super) size: Option<Value>,
    /// May coordinates be negative too?
    pub(super) before: bool,
    /// Its coordinate along K, if that is known: operands with the same one end together.
    pub(super) edge: Option<Edge>,
}

impl End {
    pub(super) const UNKNOWN: End = End { size: None, before: true, edge: None };

    pub(super) fn is_together_with(&self, other: &End) -> bool {
        self.edge.as_ref().zip(other.edge.as_ref()).is_some_and(|(edge, other)| edge.is_same(other))
    }
}

/// The statements that write each tensor.
pub(super) struct Writers<'p> {
    program: &'p Program,
    all: BTreeMap<Id, Vec<&'p Stmt>>,
}

impl<'p> Writers<'p> {
    pub(super) fn of(program: &'p Program) -> Writers<'p> {
        let mut all = BTreeMap::<Id, Vec<&Stmt>>::new();
        for stmt in visit::preorder(&program.body) {
            let contents = if let Op::Contents { to, .. } = &stmt.op { Some(to) } else { None };
            let written = stmt.writes().into_iter().chain(contents);
            written.for_each(|to| all.entry(to.tensor).or_default().push(stmt));
        }
        Writers { program, all }
    }

    /// Is it a sum of products of operands that are not all copied?
    pub(super) fn may_combine(&self, stmt: &Stmt) -> bool {
        let (a, b) = match &stmt.op {
            Op::Gemm { a, b, how, .. } if how.semiring() == Semiring::SUMS => (a, b),
            Op::Flow { a, b, .. } => (a, b),
            _ => return false,
        };
        let end = End { before: false, ..End::UNKNOWN };
        [a, b].into_iter().any(|view| self.value(view, &end) != Some(0.0))
    }

    /// The value of an operand's elements past the end of K, its second mode; `None` if it is not known.
    pub(super) fn value(&self, view: &View, end: &End) -> Option<f64> {
        self.of_view(view, 1, end, 0.0, 0)
    }

    /// The same along a mode of a view. `fill`: the value that replaces elements of global memory.
    fn of_view(&self, view: &View, mode: usize, end: &End, fill: f64, depth: u32) -> Option<f64> {
        let tensor = self.program.tensor(view.tensor);
        let along = shown(view, mode);
        if !matches!(tensor.space, Space::Global { .. }) {
            return self.of_tensor(view.tensor, &along, end, depth + 1);
        }
        let ends = |of: &usize| {
            let extent = tensor.plain().leaves().nth(*of).map(|leaf| leaf.0);
            !view.nearest.contains(of) && end.size.is_none_or(|size| extent == Some(size))
        };
        along.iter().any(ends).then_some(fill)
    }

    /// The value that all statements write which write the tensor.
    fn of_tensor(&self, of: Id, along: &[usize], end: &End, depth: u32) -> Option<f64> {
        if depth > DEEPEST {
            return None;
        }
        let mut values = self.all.get(&of)?.iter().map(|stmt| self.written(stmt, of, along, end, depth));
        let first = values.next()??;
        values.all(|value| value == Some(first)).then_some(first)
    }

    fn written(&self, stmt: &Stmt, of: Id, along: &[usize], end: &End, depth: u32) -> Option<f64> {
        let mode_of = |to: &View| {
            (0..to.rank()).find(|mode| shown(to, *mode).iter().any(|index| along.contains(index)))
        };
        match &stmt.op {
            Op::Copy { from, to, fill, .. } => self.of_view(from, mode_of(to)?, end, fill.exact()?, depth),
            Op::Contents { from, to } => self.of_view(from, mode_of(to)?, end, 0.0, depth),
            Op::Map { value: Expr::Lit(value), .. } => value.exact(),
            Op::Map { ins, to, value } if to.tensor == of => {
                self.computed(ins, mode_of(to)?, value, end, depth)
            }
            _ => None,
        }
    }

    /// The value of a function past the end, if it is the same for all values of what is not known there.
    fn computed(&self, ins: &[View], mode: usize, value: &Expr, end: &End, depth: u32) -> Option<f64> {
        let known = |view| self.of_view(view, mode, end, 0.0, depth).map_or(Interval::ANY, Interval::only);
        let elems: Vec<Elem> = ins.iter().map(|view| self.program.tensor(view.tensor).elem).collect();
        let size = end.size.map(Affine::from);
        let from_end = |low, of_size| Interval { of_size, low, high: f64::INFINITY };
        let above = match size.as_ref().map(|size| size.constant()) {
            Some(Some(size)) => from_end(size as f64, false),
            Some(None) => from_end(0.0, true),
            None => Interval::ANY,
        };
        let function = |at: Interval| Function {
            types: Types { ins: &elems, scalars: &self.program.scalars },
            ins: ins.iter().map(known).collect(),
            size: size.as_ref().filter(|size| size.constant().is_none()),
            mode,
            at,
        };
        let after = function(above).of(value, 0).number()?;
        let negative = Interval { of_size: false, low: f64::NEG_INFINITY, high: -1.0 };
        (!end.before || function(negative).of(value, 0).number() == Some(after)).then_some(after)
    }
}

/// What is known of a number: the least and the greatest value. Conditions are 0 or 1.
#[derive(Clone, Copy, Debug)]
struct Interval {
    /// Is the size where K ends added to both?
    of_size: bool,
    low: f64,
    high: f64,
}

impl Interval {
    const ANY: Interval = Interval { of_size: false, low: f64::NEG_INFINITY, high: f64::INFINITY };

    fn only(number: f64) -> Interval {
        match number.is_nan() {
            true => Interval::ANY,
            false => Interval { of_size: false, low: number, high: number },
        }
    }

    fn either(is: Option<bool>) -> Interval {
        is.map_or(Interval { of_size: false, low: 0.0, high: 1.0 }, |is| Interval::only(f64::from(is)))
    }

    /// The number, if it is the only one.
    fn number(self) -> Option<f64> {
        (!self.of_size && self.low == self.high).then_some(self.low)
    }

    fn is(self, number: f64) -> bool {
        self.number() == Some(number)
    }

    fn is_infinite(self) -> bool {
        self.number().is_some_and(f64::is_infinite)
    }

    /// Without the size, which is not negative.
    fn absolute(self) -> Interval {
        match self.of_size {
            true => Interval { of_size: false, low: self.low, high: f64::INFINITY },
            false => self,
        }
    }

    /// Both, from the same origin.
    fn aligned(self, other: Interval) -> [Interval; 2] {
        match self.of_size == other.of_size {
            true => [self, other],
            false => [self.absolute(), other.absolute()],
        }
    }

    fn or(self, other: Interval) -> Interval {
        let [x, y] = self.aligned(other);
        Interval { low: x.low.min(y.low), high: x.high.max(y.high), ..x }
    }

    fn plus(self, other: Interval) -> Interval {
        let (x, y) = if self.of_size && other.of_size { (self, other.absolute()) } else { (self, other) };
        Interval { of_size: x.of_size || y.of_size, low: x.low + y.low, high: x.high + y.high }
    }

    fn minus(self, other: Interval) -> Interval {
        let [x, y] = if other.of_size { self.aligned(other) } else { [self, other] };
        let of_size = x.of_size && !y.of_size;
        Interval { of_size, low: x.low - y.high, high: x.high - y.low }
    }

    /// Is it less than the other, or equal to it where `or_equal`? Unknown numbers may be NaN, which is neither.
    fn is_less(self, other: Interval, or_equal: bool) -> Option<bool> {
        let [x, y] = self.aligned(other);
        match or_equal {
            _ if x.high < y.low => Some(true),
            _ if x.low > y.high => Some(false),
            true if x.high == y.low && x.high.is_finite() => Some(true),
            false if x.low == y.high && x.low.is_finite() => Some(false),
            _ => None,
        }
    }
}

/// A function of elements, with what is known of them past the end of K.
struct Function<'f> {
    types: Types<'f>,
    ins: Vec<Interval>,
    /// Where K ends, if that is no constant.
    size: Option<&'f Affine>,
    /// The mode along K, and the coordinate in it.
    mode: usize,
    at: Interval,
}

impl Function<'_> {
    fn of(&self, expr: &Expr, depth: u32) -> Interval {
        if depth > DEEPEST_EXPRESSION {
            return Interval::ANY;
        }
        if let Expr::Ptx { model, .. } = expr {
            return model.as_ref().map_or(Interval::ANY, |model| self.of(model, depth + 1));
        }
        let parts: Vec<Interval> = expr.parts().into_iter().map(|part| self.of(part, depth + 1)).collect();
        let numbers: Option<Vec<f64>> = parts.iter().map(|part| part.number()).collect();
        let number = numbers.and_then(|numbers| self.types.applied(expr, &numbers));
        number.map_or_else(|| self.bounded(expr, &parts), Interval::only)
    }

    /// Of a leaf, or of an operation on these operands; some are not known.
    fn bounded(&self, expr: &Expr, parts: &[Interval]) -> Interval {
        match (expr, parts) {
            (Expr::In(n), _) => self.ins.get(usize::from(*n)).copied().unwrap_or(Interval::ANY),
            (Expr::At(mode), _) if usize::from(*mode) == self.mode => self.at,
            (Expr::Size(size), _) => self.integer(&Affine::from(*size)),
            (Expr::Index(at), _) => self.integer(at),
            (Expr::Un(Un::Not, _), [x]) if self.is_condition(expr) => Interval::only(1.0).minus(*x),
            (Expr::Un(Un::Neg, _), [x]) => Interval::only(0.0).minus(*x),
            (Expr::Bin(Bin::Add, ..), [x, y]) => x.plus(*y),
            (Expr::Bin(Bin::Sub, ..), [x, y]) => x.minus(*y),
            // Products of 0 and finite numbers are 0.
            (Expr::Bin(Bin::Mul | Bin::And, ..), [x, y]) if x.is(0.0) || y.is(0.0) => Interval::only(0.0),
            (Expr::Fma(_), [x, y, z]) if x.is(0.0) || y.is(0.0) => *z,
            (Expr::Bin(Bin::Or, ..), [x, y]) if self.is_condition(expr) && (x.is(1.0) || y.is(1.0)) => {
                Interval::only(1.0)
            }
            (Expr::Cmp(how, ..), [x, y]) => Interval::either(match how {
                Cmp::Lt => x.is_less(*y, false),
                Cmp::Le => x.is_less(*y, true),
                Cmp::Eq | Cmp::Ne => {
                    let apart = x.is_less(*y, false) == Some(true) || y.is_less(*x, false) == Some(true);
                    apart.then_some(*how == Cmp::Ne)
                }
            }),
            (Expr::Pick(_), [test, x, y]) => match test.number() {
                Some(0.0) => *y,
                Some(_) => *x,
                // Products of 0 and what may be infinite are not 0.
                None => [*x, *y].into_iter().find(|arm| arm.is_infinite()).unwrap_or(x.or(*y)),
            },
            (Expr::Cast(Elem::I32 | Elem::I64, _), [x]) => *x,
            (Expr::Cast(Elem::U32 | Elem::U64, _), [x]) if x.absolute().low >= 0.0 => *x,
            _ => Interval::ANY,
        }
    }

    /// Of an integer of the kernel.
    fn integer(&self, at: &Affine) -> Interval {
        let from = |origin: &Affine, of_size| {
            let apart = at.plus(origin, -1)?.constant()?;
            Some(Interval { of_size, ..Interval::only(apart as f64) })
        };
        let size = self.size.and_then(|size| from(size, true));
        size.or_else(|| from(&Affine::default(), false)).unwrap_or(Interval::ANY)
    }

    fn is_condition(&self, expr: &Expr) -> bool {
        self.types.own(expr) == Some(Type::Condition)
    }
}
