//! The ranges and divisors of a program's numbers at a point in it.

use tilewright_layout::Value;

use super::{Range, most};
use crate::thread::Id;
use crate::thread::index::gcd;
use crate::tile::Program;
use crate::values::affine::{Affine, Arith, Coord};

/// The range and divisor of a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// The range.
    pub range: Range,
    /// It is a multiple of this; 0 for the number 0.
    pub multiple: i64,
}

/// The numbers of a program at a point.
#[derive(Clone, Copy)]
pub struct Numbers<'a> {
    program: &'a Program,
    /// Variables that have tighter bounds here than from their loops, the innermost last.
    known: &'a [(Id, Known)],
}

impl<'a> Numbers<'a> {
    /// The numbers of a program at any point.
    pub(crate) fn of(program: &'a Program) -> Numbers<'a> {
        Numbers { program, known: &[] }
    }

    /// The numbers at a point where more is known about some variables.
    pub(crate) fn at(program: &'a Program, known: &'a [(Id, Known)]) -> Numbers<'a> {
        Numbers { program, known }
    }

    fn known_of(&self, var: Id) -> Option<Known> {
        self.known.iter().rev().find(|(of, _)| *of == var).map(|(_, known)| *known)
    }

    /// The range of a sum of coordinates, taken as independent.
    pub(crate) fn range(&self, sum: &Affine) -> Range {
        sum.terms.iter().fold(Range::only(sum.constant), |all, (coord, factor)| {
            all.plus(self.range_of(coord).times(*factor))
        })
    }

    /// The range of a coordinate.
    pub(crate) fn range_of(&self, coord: &Coord) -> Range {
        let program = self.program;
        match coord {
            Coord::Block(axis) => Range::below(program.most_blocks(usize::from(*axis))),
            Coord::Var(var) => {
                if let Some(known) = self.known_of(*var) {
                    return known.range;
                }
                let var = &program.vars[*var as usize];
                let (lo, end) = (self.range(&var.from).lo, self.range(&var.to).hi);
                Range { lo, hi: lo.max(end.saturating_sub(1)) }
            }
            Coord::Size { of, over } => {
                let size = Value::Sym { times: 1, of: *of, over: *over };
                let own = Value::Sym { times: 1, of: *of, over: 1 };
                let asserted = program.at_most.iter().filter(|(size, _)| *size == own);
                let tiles = |limit: i64| Value::Int(limit).ceil_div((*over).into())?.int();
                let least = asserted.filter_map(|(_, limit)| tiles(*limit)).fold(most(size), i64::min);
                let lo = tiles(program.least(*of)).unwrap_or(1);
                Range { lo: lo.into(), hi: least.max(lo).into() }
            }
            Coord::Scalar(id) => Range::of(program.scalars[*id as usize].elem),
            Coord::Loaded { number, .. } => {
                let read = &program.reads[*number as usize];
                let all = Range::of(read.elem);
                Range { lo: all.lo.min(read.purpose.out_of_bounds().into()), ..all }
            }
            Coord::Two(Arith::Div, of) => {
                let [above, below] = of.each_ref().map(|of| self.range(of));
                let mut all = above.two(Arith::Div, below);
                // A divisor of a positive number is not above it.
                if all.lo < 1 && above.lo >= 1 && below.lo >= 1 && program.is_multiple(of) {
                    all.lo = 1;
                }
                match self.scaled(&of[0], &of[1]) {
                    Some(scaled) => Range { lo: all.lo.max(scaled.lo), hi: all.hi.min(scaled.hi) },
                    None => all,
                }
            }
            Coord::Two(with, of) => self.range(&of[0]).two(*with, self.range(&of[1])),
            Coord::Thread(group) => Range::below(program.threads_of(*group).into()),
            Coord::Swizzled(group, _) => {
                Range::below(program.threads_of(*group).max(1).next_power_of_two().into())
            }
            Coord::Member(group) => Range::below(program.groups[*group as usize].members.into()),
            Coord::ClusterRank => Range::below(program.cluster.iter().product::<u32>().into()),
            Coord::Phase(_) => Range::below(i64::MAX),
            Coord::Begin { iteration, tile, .. } => {
                Range { lo: 0, hi: self.range(iteration).times(*tile).hi.max(0) }
            }
            Coord::Submode { of, over, extent } => {
                let of = self.range(of);
                let over = i128::from((*over).max(1));
                let all = Range { lo: of.lo.div_euclid(over), hi: of.hi.div_euclid(over) };
                match extent {
                    Some(n) if all.lo < 0 || all.hi >= i128::from(*n) => Range::below(*n),
                    _ => all,
                }
            }
        }
    }

    /// The range of `a * b / size`, where `a` is below the size: at most the range of `b`.
    fn scaled(&self, product: &Affine, by: &Affine) -> Option<Range> {
        let ([(Coord::Two(Arith::Mul, of), 1)], 0) = (&product.terms[..], product.constant) else {
            return None;
        };
        let size = by.size()?;
        let below = |a: &Affine| match (&a.terms[..], a.constant) {
            ([(coord, 1)], 0) => self.program.below(coord) == Some(size) && self.range_of(coord).lo >= 0,
            _ => false,
        };
        let [a, b] = &**of;
        let other = if below(a) { b } else { below(b).then_some(a)? };
        Some(self.range(other)).filter(|range| range.lo >= 0).map(|range| Range { lo: 0, ..range })
    }

    /// A divisor of a sum; 0 for the number 0.
    pub(crate) fn multiple(&self, sum: &Affine) -> i64 {
        sum.terms.iter().fold(sum.constant, |all, (coord, factor)| gcd(all, self.times(coord, *factor)))
    }

    /// A divisor of a term of a sum.
    fn times(&self, coord: &Coord, factor: i64) -> i64 {
        let multiple = self.multiple_of(coord);
        multiple.checked_mul(factor).unwrap_or(factor)
    }

    /// A divisor of a coordinate.
    fn multiple_of(&self, coord: &Coord) -> i64 {
        let Range { lo, hi } = self.range_of(coord);
        match coord {
            Coord::Var(var) => self.known_of(*var).map_or(1, |known| known.multiple),
            _ if lo == hi => i64::try_from(lo).unwrap_or(1),
            Coord::Size { of, over } => {
                let asserted = self.program.asserted(Value::Sym { times: 1, of: *of, over: 1 });
                if asserted % i64::from((*over).max(1)) == 0 {
                    asserted / i64::from((*over).max(1))
                } else {
                    1
                }
            }
            Coord::Two(with, of) => {
                let [a, b] = of.each_ref().map(|of| self.multiple(of));
                match with {
                    Arith::Mul => a.checked_mul(b).unwrap_or(1),
                    Arith::Min | Arith::Max => gcd(a, b),
                    Arith::Div | Arith::Rem => 1,
                }
            }
            Coord::Submode { of, over, extent } => {
                let quotient = self.quotient(of, *over);
                extent.map_or(quotient, |extent| gcd(quotient, extent))
            }
            Coord::Block(_)
            | Coord::Thread(_)
            | Coord::Swizzled(..)
            | Coord::Member(_)
            | Coord::ClusterRank
            | Coord::Phase(_)
            | Coord::Scalar(_)
            | Coord::Loaded { .. }
            | Coord::Begin { .. } => 1,
        }
    }

    /// A divisor of `of / over`, rounded down: `over` may divide all but a rest below it.
    fn quotient(&self, of: &Affine, over: i64) -> i64 {
        let divides = |(coord, factor): &&(Coord, i64)| self.times(coord, *factor) % over == 0;
        let (whole, rest): (Vec<_>, Vec<_>) = of.terms.iter().partition(divides);
        let sum = |terms: Vec<&(Coord, i64)>, constant| Affine {
            constant,
            terms: terms.into_iter().cloned().collect(),
        };
        let within = of.constant.rem_euclid(over);
        let rest = self.range(&sum(rest, within));
        match rest.lo >= 0 && rest.hi < i128::from(over) {
            true => self.multiple(&sum(whole, of.constant - within)) / over,
            false => 1,
        }
    }
}
