//! Numbers from which launches are planned. A plan computes with [`Natural`]; [`super::export`] records the computation with
//! numbers of its own, which print it as C. What decides about launches is written once, for any of them.

use std::ops::{Add, BitAnd, BitOr, Div, Mul, Not, Rem, Sub};

/// A number from 0 to 2^64 - 1. Greater sums and products are the greatest one, and lesser differences are 0.
pub(super) trait Number:
    Copy
    + From<u64>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Rem<Output = Self>
{
    type Real: Real<Number = Self>;
    type Truth: Truth;

    fn less(self, than: Self) -> Self::Truth;
    fn equals(self, other: Self) -> Self::Truth;
    fn select(condition: Self::Truth, then: Self, otherwise: Self) -> Self;
    /// Is it less, with a sign?
    fn below(self, than: Self) -> Self::Truth;
    /// The result of an operation with signs, and whether it overflows. A number that is divided by less than 1 is 0.
    fn signed(operation: Signed, a: Self, b: Self) -> (Self, Self::Truth);
    fn bits_of_both(self, other: Self) -> Self;
    /// The greatest power of two that divides it.
    fn lowest_bit(self) -> Self;
    fn real(self) -> Self::Real;

    fn least(self, other: Self) -> Self {
        Self::select(other.less(self), other, self)
    }

    fn greatest(self, other: Self) -> Self {
        Self::select(self.less(other), other, self)
    }

    fn divided_up(self, by: Self) -> Self {
        self / by + Self::select(Self::from(0).less(self % by), 1.into(), 0.into())
    }
}

/// An operation on integers with signs: quotients are rounded down.
#[derive(Clone, Copy)]
pub(super) enum Signed {
    Add,
    Multiply,
    Divide,
    Remain,
}

/// A number of 64 bits with a fraction.
pub(super) trait Real:
    Copy + From<f64> + Add<Output = Self> + Mul<Output = Self> + Div<Output = Self>
{
    type Number: Number<Real = Self>;

    fn least(self, other: Self) -> Self;
    fn greatest(self, other: Self) -> Self;
    /// Without its fraction.
    fn whole(self) -> Self::Number;
}

/// A condition.
pub(super) trait Truth:
    Copy + From<bool> + Not<Output = Self> + BitAnd<Output = Self> + BitOr<Output = Self>
{
    /// Is it true in every launch that may come?
    fn is_certain(self) -> bool;
}

impl Truth for bool {
    fn is_certain(self) -> bool {
        self
    }
}

/// A number of a launch.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub(super) struct Natural(pub(super) u64);

impl From<u64> for Natural {
    fn from(number: u64) -> Natural {
        Natural(number)
    }
}

macro_rules! operators {
    ($($operator:ident $function:ident $of:ident;)*) => {$(
        impl $operator for Natural {
            type Output = Natural;

            fn $function(self, other: Natural) -> Natural {
                Natural(self.0.$of(other.0))
            }
        }
    )*};
}

operators! {
    Add add saturating_add;
    Sub sub saturating_sub;
    Mul mul saturating_mul;
    Div div div;
    Rem rem rem;
}

impl Number for Natural {
    type Real = f64;
    type Truth = bool;

    fn less(self, than: Natural) -> bool {
        self < than
    }

    fn equals(self, other: Natural) -> bool {
        self == other
    }

    fn select(condition: bool, then: Natural, otherwise: Natural) -> Natural {
        if condition { then } else { otherwise }
    }

    fn below(self, than: Natural) -> bool {
        self.0.cast_signed() < than.0.cast_signed()
    }

    fn signed(operation: Signed, a: Natural, b: Natural) -> (Natural, bool) {
        let (a, b) = (a.0.cast_signed(), b.0.cast_signed());
        let (value, overflows) = match operation {
            Signed::Add => a.overflowing_add(b),
            Signed::Multiply => a.overflowing_mul(b),
            _ if b < 1 => (0, false),
            Signed::Divide => (a.div_euclid(b), false),
            Signed::Remain => (a.rem_euclid(b), false),
        };
        (Natural(value.cast_unsigned()), overflows)
    }

    fn bits_of_both(self, other: Natural) -> Natural {
        Natural(self.0 | other.0)
    }

    fn lowest_bit(self) -> Natural {
        Natural(self.0 & self.0.wrapping_neg())
    }

    fn real(self) -> f64 {
        self.0 as f64
    }
}

impl Real for f64 {
    type Number = Natural;

    fn least(self, other: f64) -> f64 {
        self.min(other)
    }

    fn greatest(self, other: f64) -> f64 {
        self.max(other)
    }

    fn whole(self) -> Natural {
        Natural(self as u64)
    }
}
