//! Values of operands past the end of K, from the statements that write them. Products combine all elements of their tiles, so
//! elements past the end of K must leave the sums unchanged: copies fill with 0, but a function of 0 may have another value.

use std::collections::BTreeMap;

use tilewright_layout::Value;

use super::propagation::shown;
use crate::thread::Id;
use crate::tile::view::View;
use crate::tile::{Expr, Op, Program, Space, Stmt};
use crate::values::elem::Elem;
use crate::values::semiring::Semiring;
use crate::values::typing::Types;

/// Longer chains of statements have no value here.
const DEEPEST: u32 = 16;

/// Where K ends, for the elements after that.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct End {
    /// The size; `None` if it is not known which one.
    pub(super) size: Option<Value>,
    /// May coordinates be negative too?
    pub(super) before: bool,
}

/// The statements that write each tensor.
pub(super) struct Writers<'p> {
    program: &'p Program,
    all: BTreeMap<Id, Vec<&'p Stmt>>,
}

impl<'p> Writers<'p> {
    pub(super) fn of(program: &'p Program) -> Writers<'p> {
        let mut all = BTreeMap::<Id, Vec<&Stmt>>::new();
        for stmt in &program.body {
            stmt.each(&mut |stmt| match &stmt.op {
                Op::Contents { to, .. } => all.entry(to.tensor).or_default().push(stmt),
                _ => stmt.writes().iter().for_each(|to| all.entry(to.tensor).or_default().push(stmt)),
            });
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
        let end = End { size: None, before: false };
        [a, b].into_iter().any(|view| self.value(view, end) != Some(0.0))
    }

    /// The value of an operand's elements past the end of K, its second mode; `None` if it is not known.
    pub(super) fn value(&self, view: &View, end: End) -> Option<f64> {
        self.of_view(view, 1, end, 0.0, 0)
    }

    /// The same along a mode of a view. `fill`: the value that replaces elements of global memory.
    fn of_view(&self, view: &View, mode: usize, end: End, fill: f64, depth: u32) -> Option<f64> {
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
    fn of_tensor(&self, of: Id, along: &[usize], end: End, depth: u32) -> Option<f64> {
        if depth > DEEPEST {
            return None;
        }
        let mut values = self.all.get(&of)?.iter().map(|stmt| self.written(stmt, of, along, end, depth));
        let first = values.next()??;
        values.all(|value| value == Some(first)).then_some(first)
    }

    fn written(&self, stmt: &Stmt, of: Id, along: &[usize], end: End, depth: u32) -> Option<f64> {
        let mode_of = |to: &View| {
            (0..to.rank()).find(|mode| shown(to, *mode).iter().any(|index| along.contains(index)))
        };
        match &stmt.op {
            Op::Copy { from, to, fill, .. } => self.of_view(from, mode_of(to)?, end, fill.exact()?, depth),
            Op::Contents { from, to } => self.of_view(from, mode_of(to)?, end, 0.0, depth),
            Op::Fill { value: Expr::Lit(value), .. } => value.exact(),
            Op::Map { ins, to, value } if to.tensor == of => {
                self.computed(ins, mode_of(to)?, value, end, depth)
            }
            _ => None,
        }
    }

    /// The value of a function past the end, if it is the same for some values of all that is not known there.
    fn computed(&self, ins: &[View], mode: usize, value: &Expr, end: End, depth: u32) -> Option<f64> {
        /// Coordinates past the end, then before the beginning; and sizes, elements, and other integers.
        const SAMPLES: [(i64, i64, f64, i64); 6] = [
            (0, 1, 2.0, 0),
            (1, 9973, -3.0, 3),
            (5, 100_003, 5.0, 50),
            (1000, 7, 1.0, 1),
            (-1, 1, 2.0, 0),
            (-9, 7, 5.0, 2),
        ];
        const K: i64 = 960;
        let known: Vec<Option<f64>> =
            ins.iter().map(|view| self.of_view(view, mode, end, 0.0, depth)).collect();
        let elems: Vec<Elem> = ins.iter().map(|view| self.program.tensor(view.tensor).elem).collect();
        let types = Types { ins: &elems, scalars: &self.program.scalars };
        let count = if end.before { SAMPLES.len() } else { 4 };
        let mut values = SAMPLES[..count].iter().map(|&(past, size, element, other)| {
            let of = |symbol| match end.size {
                Some(Value::Sym { of, .. }) if of == symbol => Some(K),
                _ => Some(size),
            };
            let last = end.size.and_then(|size| size.evaluate(&of));
            let leaf = |part: &Expr| match part {
                Expr::In(n) => known.get(usize::from(*n))?.or(Some(element)),
                Expr::Scalar(_) => Some(element),
                Expr::At(at) if usize::from(*at) == mode => match past {
                    ..0 => Some(past as f64),
                    _ => last.map(|last| (last + past) as f64),
                },
                Expr::At(_) | Expr::Coord(..) => Some(other as f64),
                Expr::Size(size) => size.evaluate(&of).map(|size| size as f64),
                Expr::Index(at) => Some(at.eval(&|coord| coord.at_launch(&of).unwrap_or(other)) as f64),
                _ => None,
            };
            types.evaluated(value, &leaf).filter(|value| !value.is_nan())
        });
        let first = values.next()??;
        values.all(|value| value == Some(first)).then_some(first)
    }
}
