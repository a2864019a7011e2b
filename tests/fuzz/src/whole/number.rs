//! Numbers with error bounds, and arithmetic of element types on them.

use std::cell::Cell;
use std::cmp::Ordering;
use std::fmt;

use tilewright_codegen::Elem;
use tilewright_codegen::thread::{Bin, Cmp, Un};

use tilewright_codegen::number::Number;

use crate::number::{self, represents, whole};

thread_local! {
    static IN_DOUBLES: Cell<bool> = const { Cell::new(false) };
    static DECIDES: Cell<bool> = const { Cell::new(false) };
}

/// Decides what the language leaves open, or not.
pub(super) fn decide(decides: bool) {
    DECIDES.set(decides);
}

/// Whether elements that may be out of bounds are not: otherwise nothing is known of what depends on it.
pub(super) fn decides() -> bool {
    DECIDES.get()
}

/// Evaluates with numbers in double precision, which are rounded to types of at most 16 bits alone and have no error bounds: every
/// comparison has a result.
pub(super) fn in_doubles<T>(evaluate: impl FnOnce() -> T) -> T {
    IN_DOUBLES.set(true);
    let value = evaluate();
    IN_DOUBLES.set(false);
    value
}

/// Are numbers in double precision?
pub(super) fn doubles() -> bool {
    IN_DOUBLES.get()
}

/// A number in double precision.
fn double(value: f64) -> Num {
    if value.is_nan() { Num::UNKNOWN } else { Num::exact(value) }
}

/// A number, and a bound on the error of a kernel's result: 0 if it must be exact, infinity if it is
/// unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Num {
    /// The value, or the nearest number of the host.
    pub value: f64,
    /// The bits of a 64-bit integer above these.
    rest: f64,
    /// The error bound.
    pub error: f64,
}

impl fmt::Display for Num {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.int() {
            Some(n) => n.fmt(f),
            None => self.value.fmt(f),
        }
    }
}

impl Num {
    /// An unknown value.
    pub const UNKNOWN: Num = Num::near(0.0, f64::INFINITY);

    /// An exact value.
    pub fn exact(value: f64) -> Num {
        Num::near(value, 0.0)
    }

    /// A value with an error bound.
    pub const fn near(value: f64, error: f64) -> Num {
        Num { value, rest: 0.0, error }
    }

    /// An integer of at most 64 bits.
    pub fn whole(n: i128) -> Num {
        let value = n as f64;
        Num { value, rest: (n - value as i128) as f64, error: 0.0 }
    }

    /// An element by its bits.
    pub fn of_bits(elem: Elem, bits: u64) -> Num {
        match elem {
            Elem::I64 => Num::whole(bits.cast_signed().into()),
            Elem::U64 => Num::whole(bits.into()),
            _ => Num::exact(number::value(elem, bits)),
        }
    }

    /// The integer that it is, if it is exact.
    pub fn int(self) -> Option<i128> {
        let is_integer = self.is_exact() && self.value.fract() == 0.0 && self.value.abs() < 1e30;
        is_integer.then(|| self.value as i128 + self.rest as i128)
    }

    /// The least and the greatest value of a type, infinities of floats.
    pub fn range(elem: Elem) -> (Num, Num) {
        let (least, most) = number::integers(elem);
        match elem.is_float() {
            true => (Num::exact(f64::NEG_INFINITY), Num::exact(f64::INFINITY)),
            false => (Num::whole(least), Num::whole(most)),
        }
    }

    /// The integer of a type that has its low bits.
    fn wrapped(n: i128, elem: Elem) -> Num {
        Num::whole(number::wrapped(n, elem))
    }

    /// Is it exact?
    pub fn is_exact(self) -> bool {
        self.error == 0.0
    }

    /// Is it unknown?
    pub fn is_unknown(self) -> bool {
        self.error.is_infinite() || self.value.is_nan() || self.error.is_nan()
    }

    /// Can two be one number, as far as their bounds tell?
    pub fn may_equal(self, other: Num) -> bool {
        let known = !self.is_unknown() && !other.is_unknown();
        self == other || !known || (self.value - other.value).abs() <= self.error + other.error
    }

    /// Is a kernel's result within the bound?
    pub fn admits(self, elem: Elem, bits: u64) -> bool {
        let got = Num::of_bits(elem, bits);
        match (self.int(), got.int()) {
            _ if self.is_unknown() => true,
            (Some(right), Some(got)) => right == got,
            _ => got.value == self.value || (got.value - self.value).abs() <= self.error,
        }
    }

    /// As a result of one operation of a type. `rounded`: the value is not exact by itself.
    fn fit(self, elem: Elem, rounded: bool) -> Num {
        if self.is_unknown() {
            return Num::UNKNOWN;
        }
        if !elem.is_float() {
            return match self.int() {
                Some(n) if !rounded => Num::wrapped(n, elem),
                _ => Num::UNKNOWN,
            };
        }
        if doubles() {
            let is_narrow = elem.bytes() < 4 || elem == Elem::Tf32;
            return double(if is_narrow {
                number::value(elem, number::bits(elem, self.value))
            } else {
                self.value
            });
        }
        // An integer is rounded to the nearest number of the host.
        let exact = self.is_exact() && !rounded && (self.rest == 0.0 || elem == Elem::F64);
        if exact && represents(elem, self.value) {
            return Num::exact(self.value);
        }
        let size = self.value.abs() + self.error;
        let most = match elem {
            Elem::F16 => 65000.0,
            Elem::Bf16 | Elem::F32 => 3e38,
            _ => 1e300,
        };
        if size > most {
            return Num::UNKNOWN;
        }
        let least = if elem == Elem::F16 { 2f64.powi(-24) } else { 1e-40 };
        Num::near(self.value, (self.error + 2.0 * elem.roundoff() * size + least) * 1.0001)
    }

    /// A literal of a type.
    pub fn literal(x: Number, elem: Elem) -> Num {
        match (x, elem.is_float()) {
            (Number::Int(n), false) => Num::whole(n).as_literal(elem),
            _ => Num::exact(x.to_f64()).as_literal(elem),
        }
    }

    /// A number without a type as a literal of one.
    pub fn as_literal(self, elem: Elem) -> Num {
        if elem == Elem::F64 { Num::exact(self.value) } else { self.fit(elem, false) }
    }

    /// A coordinate, or another integer of the kernel, as an element.
    pub fn integer(n: i128, elem: Elem) -> Num {
        if n.unsigned_abs() < 9_000_000_000_000_000 { Num::whole(n).fit(elem, false) } else { Num::UNKNOWN }
    }

    /// Converted to a type.
    pub fn cast(self, from: Elem, to: Elem) -> Num {
        if from == to || self.is_unknown() {
            return self;
        }
        let (lo, hi) = number::integers(to);
        match (from.is_float(), to.is_float()) {
            (_, true) => self.fit(to, false),
            (true, false) => {
                let end = |x: f64| (x.trunc() as i128).clamp(lo, hi);
                let (low, high) = (end(self.value - self.error), end(self.value + self.error));
                if low == high { Num::whole(low) } else { Num::UNKNOWN }
            }
            // The low bits.
            (false, false) => self.int().map_or(Num::UNKNOWN, |n| Num::wrapped(n, to)),
        }
    }

    /// A unary function.
    pub fn un(f: Un, x: Num, elem: Elem) -> Num {
        if x.is_unknown() {
            return Num::UNKNOWN;
        }
        match f {
            Un::Neg | Un::Abs | Un::Not if !elem.is_float() => match (f, x.int()) {
                (Un::Neg, Some(n)) => Num::wrapped(-n, elem),
                (Un::Abs, Some(n)) => Num::wrapped(n.abs(), elem),
                (_, Some(n)) => Num::wrapped(!n, elem),
                _ => Num::UNKNOWN,
            },
            Un::Neg => Num { value: -x.value, ..x }.fit(elem, false),
            Un::Abs => Num { value: x.value.abs(), ..x }.fit(elem, false),
            Un::Apart => x,
            Un::Not => Num::UNKNOWN,
            Un::CountOnes | Un::LeadingZeros if x.is_exact() => {
                let width = 8 * elem.bytes();
                let Some(n) = x.int() else { return Num::UNKNOWN };
                let bits = n as u64 & (u64::MAX >> (64 - width));
                let leading = (0..width).take_while(|n| bits >> (width - 1 - n) & 1 == 0).count();
                let ones = (0..width).filter(|n| bits >> n & 1 == 1).count();
                Num::exact(if f == Un::CountOnes { ones } else { leading } as f64)
            }
            _ if !elem.is_float() => Num::UNKNOWN,
            Un::Floor | Un::Ceil | Un::Trunc | Un::Round | Un::RoundEven => {
                let (low, high) = (whole_near(f, x.value - x.error), whole_near(f, x.value + x.error));
                if low == high { Num::exact(low) } else { Num::UNKNOWN }
            }
            // Not drawn.
            Un::Fast(_) => Num::UNKNOWN,
            _ => Num::of(f, x, elem),
        }
    }

    fn of(f: Un, x: Num, elem: Elem) -> Num {
        let of = |x: f64| match f {
            Un::Exp => x.exp(),
            Un::Exp2 => x.exp2(),
            Un::Log => x.ln(),
            Un::Log2 => x.log2(),
            Un::Recip => 1.0 / x,
            Un::Sqrt => x.sqrt(),
            Un::Rsqrt => 1.0 / x.sqrt(),
            Un::Tanh => x.tanh(),
            Un::Sin => x.sin(),
            Un::Cos => x.cos(),
            Un::Erf => erf(x),
            Un::Gelu => 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
            _ => x,
        };
        let at = x.value;
        if doubles() {
            return double(of(at));
        }
        let (low, value, high) = (of(at - x.error), of(at), of(at + x.error));
        let periodic = matches!(f, Un::Sin | Un::Cos);
        // Functions that are not monotonic, and whose error is absolute where they are near 0, by their largest slope.
        let slope = match f {
            Un::Sin | Un::Cos => Some(1.0),
            Un::Gelu => Some(1.2),
            _ => None,
        };
        let near_pole = matches!(f, Un::Recip | Un::Rsqrt | Un::Log | Un::Log2) && at.abs() <= 2.0 * x.error;
        let negative = matches!(f, Un::Sqrt | Un::Rsqrt | Un::Log | Un::Log2) && at - x.error < 0.0;
        if !value.is_finite() || near_pole || negative || (periodic && at.abs() > 1000.0) {
            return Num::UNKNOWN;
        }
        let ends = (low - value).abs().max((high - value).abs());
        let spread = slope.map_or(ends, |slope| slope * x.error);
        // Error bounds of a device's functions.
        let own = if elem == Elem::F64 { 1e-12 } else { 4e-6 };
        let own = own * (value.abs() + f64::from(u8::from(slope.is_some())));
        Num::near(value, spread + own + 1e-30).fit(elem, true)
    }

    /// The bits of an element as another type of the same size.
    pub fn bits(self, from: Elem, to: Elem) -> Num {
        match self.is_exact() && (doubles() || !(from.is_float() && self.value == 0.0)) {
            true if from == to => self,
            true if from.is_float() => Num::of_bits(to, number::bits(from, self.value)),
            true => self
                .int()
                .map_or(Num::UNKNOWN, |n| Num::of_bits(to, n as u64 & u64::MAX >> (64 - 8 * from.bytes()))),
            // The sign of a zero is unknown.
            false => Num::UNKNOWN,
        }
    }

    /// A binary function.
    pub fn bin(f: Bin, x: Num, y: Num, elem: Elem) -> Num {
        if x.is_unknown() || y.is_unknown() {
            return Num::UNKNOWN;
        }
        let (a, b) = (x.value, y.value);
        if a.is_infinite() || b.is_infinite() {
            // The finite one keeps its error.
            match f {
                Bin::Min | Bin::Max => {
                    let first = if f == Bin::Min { a <= b } else { a >= b };
                    return if first { x } else { y };
                }
                _ => {}
            }
            let value = match f {
                Bin::Add => a + b,
                Bin::Mul => a * b,
                Bin::Sub if doubles() => a - b,
                Bin::Div if doubles() => a / b,
                _ => f64::NAN,
            };
            return if value.is_nan() { Num::UNKNOWN } else { Num::exact(value) };
        }
        if !elem.is_float()
            && let (Some(n), Some(m)) = (x.int(), y.int())
        {
            return integers(f, n, m, elem).map_or(Num::UNKNOWN, |n| Num::wrapped(n, elem));
        }
        let sum = |b: f64| {
            let value = a + b;
            // The rounding error (Knuth).
            let back = value - a;
            let lost = (a - (value - back)) + (b - back);
            let rounded = lost != 0.0 && value.is_finite();
            Num::near(value, x.error + y.error + lost.abs().min(value.abs())).fit(elem, rounded)
        };
        match f {
            Bin::Add => sum(b),
            Bin::Sub => sum(-b),
            Bin::Mul => {
                let value = a * b;
                let rounded = value.is_finite() && a.mul_add(b, -value) != 0.0;
                let error = x.error * b.abs() + y.error * a.abs() + x.error * y.error;
                Num::near(value, error).fit(elem, rounded)
            }
            Bin::Min | Bin::Max => {
                let value = if f == Bin::Min { a.min(b) } else { a.max(b) };
                let apart = (a - b).abs() > x.error + y.error;
                let error = match (apart, value == a) {
                    (true, true) => x.error,
                    (true, false) => y.error,
                    _ => x.error.max(y.error),
                };
                Num::near(value, error)
            }
            Bin::CopySign if b.abs() > y.error => Num::near(a.abs().copysign(b), x.error),
            // Of either sign.
            Bin::CopySign => Num::near(0.0, a.abs() + x.error),
            Bin::Pow if x.is_exact() && y.is_exact() && a > 0.0 => {
                let value = a.powf(b);
                let own = if elem == Elem::F64 { 1e-12 } else { 4e-6 };
                Num::near(value, own * value + 1e-30).fit(elem, true)
            }
            Bin::Div if elem.is_float() && doubles() => double(a / b),
            Bin::Div if elem.is_float() => {
                if b.abs() <= 2.0 * y.error || b == 0.0 {
                    return Num::UNKNOWN;
                }
                let value = a / b;
                let rounded = value.is_finite() && value.mul_add(b, -a) != 0.0;
                let error = (x.error + value.abs() * y.error) / (b.abs() - y.error);
                Num::near(value, error).fit(elem, rounded)
            }
            _ => Num::UNKNOWN,
        }
    }

    /// `x * y + z`, rounded once.
    pub fn fma(x: Num, y: Num, z: Num, elem: Elem) -> Num {
        // If all numbers are exact, one rounding and two are the same; otherwise the error bounds
        // cover the difference.
        let of_product = if elem.is_float() { Elem::F64 } else { elem };
        Num::bin(Bin::Add, Num::bin(Bin::Mul, x, y, of_product), z, elem)
    }

    /// A comparison.
    pub fn cmp(how: Cmp, x: Num, y: Num) -> Num {
        let apart = (x.value - y.value).abs() > x.error + y.error;
        if x.is_unknown() || y.is_unknown() || !(apart || (x.is_exact() && y.is_exact())) {
            return Num::UNKNOWN;
        }
        let order = match (x.int(), y.int()) {
            (Some(x), Some(y)) => Some(x.cmp(&y)),
            _ => x.value.partial_cmp(&y.value),
        };
        let represents = match how {
            Cmp::Lt => order == Some(Ordering::Less),
            Cmp::Le => order.is_some_and(Ordering::is_le),
            Cmp::Eq => order == Some(Ordering::Equal),
            Cmp::Ne => order != Some(Ordering::Equal),
        };
        Num::exact(f64::from(u8::from(represents)))
    }

    /// A select.
    pub fn pick(cond: Num, then: Num, other: Num) -> Num {
        match cond {
            cond if cond.is_unknown() => Num::UNKNOWN,
            cond if cond.value != 0.0 && cond.value.abs() > cond.error => then,
            cond if cond.is_exact() => other,
            _ => Num::UNKNOWN,
        }
    }

    /// Reduces many numbers, for any order.
    pub fn fold(with: Bin, all: &[Num], elem: Elem) -> Num {
        let Some((&first, rest)) = all.split_first() else { return Num::UNKNOWN };
        if all.iter().any(|x| x.is_unknown()) {
            return Num::UNKNOWN;
        }
        match with {
            _ if !elem.is_float() => rest.iter().fold(first, |known, x| Num::bin(with, known, *x, elem)),
            Bin::Add => {
                let value: f64 = all.iter().map(|x| x.value).sum();
                if doubles() {
                    return double(value);
                }
                let size: f64 = all.iter().map(|x| x.value.abs() + x.error).sum();
                let error: f64 = all.iter().map(|x| x.error).sum();
                let whole_numbers = all.iter().all(|x| x.is_exact() && x.value.fract() == 0.0);
                match whole_numbers && size <= whole(elem) {
                    true => Num::exact(value),
                    false if size.is_infinite() => Num::UNKNOWN,
                    false => {
                        let steps = all.len() as f64 + 1.0;
                        Num::near(value, error + steps * elem.roundoff() * size).fit(elem, true)
                    }
                }
            }
            Bin::Mul => {
                let product =
                    rest.iter().fold(first, |product, x| Num::bin(Bin::Mul, product, *x, Elem::F64));
                if doubles() {
                    return product;
                }
                // No factor may be close to overflow.
                let size: f64 = all.iter().map(|x| x.value.abs().max(1.0)).product();
                if size <= whole(elem) { product.fit(elem, false) } else { Num::UNKNOWN }
            }
            _ => rest.iter().fold(first, |known, x| Num::bin(with, known, *x, elem)),
        }
    }
}

/// The integer that a function rounds to.
fn whole_near(f: Un, x: f64) -> f64 {
    match f {
        Un::Floor => x.floor(),
        Un::Ceil => x.ceil(),
        Un::Trunc => x.trunc(),
        Un::Round => x.round(),
        _ => x.round_ties_even(),
    }
}

/// The error function, by Simpson's rule.
fn erf(x: f64) -> f64 {
    const STEPS: i32 = 2000;
    let (end, sign) = (x.abs().min(6.0), 1f64.copysign(x));
    let width = end / f64::from(STEPS);
    let weighed = |n: i32| {
        let at = f64::from(n) * width;
        let weight = if n == 0 || n == STEPS { 1.0 } else { f64::from(2 + 2 * (n % 2)) };
        weight * (-at * at).exp()
    };
    sign * std::f64::consts::FRAC_2_SQRT_PI * width / 3.0 * (0..=STEPS).map(weighed).sum::<f64>()
}

/// A function of integers, which wraps around to its type.
fn integers(f: Bin, a: i128, b: i128, elem: Elem) -> Option<i128> {
    let wide = if elem.bytes() == 8 { 64 } else { 32 };
    match f {
        Bin::Add => Some(a + b),
        Bin::Sub => Some(a - b),
        Bin::Mul => Some(a.wrapping_mul(b)),
        Bin::Min => Some(a.min(b)),
        Bin::Max => Some(a.max(b)),
        // All bits of a quotient by 0 are set, and the remainder is the dividend.
        Bin::Div => Some(a.checked_div(b).unwrap_or(-1)),
        Bin::Rem => Some(a.checked_rem(b).unwrap_or(a)),
        Bin::And => Some(a & b),
        Bin::Or => Some(a | b),
        Bin::Xor => Some(a ^ b),
        Bin::Shl if (0..wide).contains(&b) => Some(a.wrapping_shl(b as u32)),
        Bin::Shr if (0..wide).contains(&b) => Some(a >> b),
        Bin::Shl => Some(0),
        Bin::Shr => Some(if a < 0 { -1 } else { 0 }),
        // Products of two integers without a sign fill 128 bits.
        Bin::MulHigh if a >= 0 && b >= 0 => Some(((a as u128 * b as u128) >> wide) as i128),
        Bin::MulHigh => Some((a * b) >> wide),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_what_types_round() {
        let third = Num::bin(Bin::Div, Num::exact(1.0), Num::exact(3.0), Elem::F32);
        assert!(
            !third.is_exact()
                && third.admits(Elem::F32, u64::from((1.0f32 / 3.0).to_bits()))
                && !third.admits(Elem::F32, u64::from(0.3334f32.to_bits()))
        );
        assert!(Num::exact(300.0).cast(Elem::I32, Elem::U8).admits(Elem::U8, 44));
        assert_eq!(Num::exact(-2.7).cast(Elem::F32, Elem::I8), Num::exact(-2.0));
        assert_eq!(Num::exact(200.0).cast(Elem::I32, Elem::I8), Num::exact(-56.0));
        assert_eq!(Num::bin(Bin::Add, Num::exact(127.0), Num::exact(1.0), Elem::I8), Num::exact(-128.0));
        let square = Num::bin(Bin::Mul, Num::exact(46341.0), Num::exact(46341.0), Elem::I32);
        assert_eq!(square, Num::exact(-2147479015.0));
        assert!(Num::fold(Bin::Add, &[Num::exact(3.0), Num::exact(4.0)], Elem::Bf16).is_exact());
    }
}
