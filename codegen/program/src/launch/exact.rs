//! What the author requires of sizes, in exact arithmetic on integers of 64 bits with signs, which are numbers by their bits.

use tilewright_layout::Symbol;

use super::number::{Natural, Number, Signed};
use crate::values::affine::{Affine, Arith, Coord};
use crate::values::condition::{Require, Test};

impl Test {
    /// Is it true for these sizes?
    pub fn is_true(&self, size: &dyn Fn(Symbol) -> Option<i64>) -> bool {
        test(self, &|symbol| natural(size(symbol)?)).is_true()
    }
}

impl Require {
    /// The extent that it says how to compute, and the value that it has with these sizes, if it has one.
    pub fn computed(&self, size: &dyn Fn(Symbol) -> Option<i64>) -> Option<(Symbol, i64)> {
        let (Some(symbol), Test::Equal(_, computed)) = (self.of, &self.test) else { return None };
        let outcome = integer(computed, &|symbol| natural(size(symbol)?));
        outcome.is_defined().then_some((symbol, outcome.value.0.cast_signed()))
    }
}

/// A size by its bits.
fn natural(size: i64) -> Option<Natural> {
    Some(Natural(size.cast_unsigned()))
}

/// The result of an exact evaluation.
#[derive(Clone, Copy)]
pub(super) struct Outcome<N: Number> {
    /// 64 bits overflow.
    pub(super) overflows: N::Truth,
    /// It divides by a number below 1: the value.
    pub(super) divides: N::Truth,
    /// An integer, or a condition as 0 or 1.
    pub(super) value: N,
}

impl<N: Number> Outcome<N> {
    fn of(value: N) -> Outcome<N> {
        Outcome { overflows: false.into(), divides: false.into(), value }
    }

    fn integer(value: i64) -> Outcome<N> {
        Outcome::of(N::from(value.cast_unsigned()))
    }

    fn truth(is_true: N::Truth) -> Outcome<N> {
        Outcome::of(N::select(is_true, 1.into(), 0.into()))
    }

    pub(super) fn is_defined(&self) -> N::Truth {
        !self.overflows & !self.divides
    }

    /// Defined, and not 0.
    pub(super) fn is_true(&self) -> N::Truth {
        self.is_defined() & !self.value.equals(0.into())
    }

    /// The next outcome, unless this one is undefined.
    fn then(self, next: Outcome<N>) -> Outcome<N> {
        let is_defined = self.is_defined();
        Outcome {
            overflows: self.overflows | (is_defined & next.overflows),
            divides: self.divides | (is_defined & next.divides),
            value: N::select(is_defined, next.value, self.value),
        }
    }

    /// What is computed from two values.
    fn with(self, other: Outcome<N>, next: impl FnOnce(N, N) -> Outcome<N>) -> Outcome<N> {
        self.then(other.then(next(self.value, other.value)))
    }

    fn signed(self, operation: Signed, other: Outcome<N>) -> Outcome<N> {
        self.with(other, |a, b| {
            let (value, overflows) = N::signed(operation, a, b);
            Outcome { overflows, ..Outcome::of(value) }
        })
    }
}

/// The value of an integer for these sizes.
pub(super) fn integer<N: Number>(of: &Affine, size: &dyn Fn(Symbol) -> Option<N>) -> Outcome<N> {
    of.terms.iter().fold(Outcome::integer(of.constant), |sum, (coord, factor)| {
        let term = coordinate(coord, size);
        let term = if *factor == 1 { term } else { term.signed(Signed::Multiply, Outcome::integer(*factor)) };
        sum.signed(Signed::Add, term)
    })
}

fn coordinate<N: Number>(of: &Coord, size: &dyn Fn(Symbol) -> Option<N>) -> Outcome<N> {
    let undefined = Outcome { overflows: true.into(), ..Outcome::integer(0) };
    match of {
        Coord::Size { of, over } => size(*of).map_or(undefined, |value| {
            Outcome::of(if *over > 1 { value.divided_up(u64::from(*over).into()) } else { value })
        }),
        Coord::Submode { of, over, extent } => {
            let submode = integer(of, size).signed(Signed::Divide, Outcome::integer(*over));
            extent.map_or(submode, |n| submode.signed(Signed::Remain, Outcome::integer(n)))
        }
        Coord::Two(with, of) => {
            let [a, b] = [&of[0], &of[1]].map(|of| integer(of, size));
            match with {
                Arith::Mul => a.signed(Signed::Multiply, b),
                Arith::Min => a.with(b, |a, b| Outcome::of(N::select(b.below(a), b, a))),
                Arith::Max => a.with(b, |a, b| Outcome::of(N::select(a.below(b), b, a))),
                Arith::Div | Arith::Rem => {
                    let operation = if *with == Arith::Div { Signed::Divide } else { Signed::Remain };
                    a.with(b, |_, by| Outcome { divides: by.below(1.into()), ..Outcome::of(by) })
                        .then(a.signed(operation, b))
                }
            }
        }
        // No coordinate of a block or a thread has a value at launch.
        _ => undefined,
    }
}

/// Is a condition true for these sizes? Operands of `&&` and `||` count from left to right, and only as far as the result depends on
/// them. It has no scalar conditions.
pub(super) fn test<N: Number>(of: &Test, size: &dyn Fn(Symbol) -> Option<N>) -> Outcome<N> {
    let pair = |a: &Affine, b: &Affine| [a, b].map(|of| integer(of, size));
    let first = |both: &[Test; 2], ends: u64| {
        let [a, b] = [&both[0], &both[1]].map(|of| test(of, size));
        let is_end = a.value.equals(ends.into());
        let (overflows, divides) = (!is_end & b.overflows, !is_end & b.divides);
        a.then(Outcome { overflows, divides, value: N::select(is_end, a.value, b.value) })
    };
    match of {
        Test::Less(a, b) => {
            let [a, b] = pair(a, b);
            a.with(b, |a, b| Outcome::truth(a.below(b)))
        }
        Test::Equal(a, b) => {
            let [a, b] = pair(a, b);
            a.with(b, |a, b| Outcome::truth(a.equals(b)))
        }
        Test::IsTrue(_) => Outcome::integer(0),
        Test::Not(inner) => {
            let inner = test(inner, size);
            inner.then(Outcome::truth(inner.value.equals(0.into())))
        }
        Test::Both(both) => first(both, 0),
        Test::Either(both) => first(both, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_and_products_that_have_no_value() {
        let size = |name| Affine::from(Coord::Size { of: Symbol::new(name), over: 1 });
        let two = |with| Affine::two(with, &size("M"), &size("K")).unwrap();
        let outcome = |with, m: u64, k: u64| {
            let value = |symbol: Symbol| Some(Natural(if symbol.name() == "M" { m } else { k }));
            let outcome = integer(&two(with), &value);
            (outcome.overflows, outcome.divides, outcome.value.0)
        };
        assert_eq!(outcome(Arith::Div, 7, 2), (false, false, 3));
        assert_eq!(outcome(Arith::Div, 7, 0), (false, true, 0));
        assert_eq!(outcome(Arith::Mul, 3, 5), (false, false, 15));
        assert!(outcome(Arith::Mul, 1 << 40, 1 << 40).0);
    }
}
