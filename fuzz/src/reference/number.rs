//! Numbers with error bounds, and arithmetic of element types on them.

use tilewright_codegen::Elem;
use tilewright_codegen::thread::{Bin, Cmp, Un};

use crate::number::{holds, range, roundoff, whole};

/// A number, and a bound on the error of a kernel's result: 0 where it must be exact, infinity where it is
/// unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Num {
    /// The value.
    pub value: f64,
    /// The error bound.
    pub error: f64,
}

impl Num {
    /// An unknown value.
    pub const UNKNOWN: Num = Num { value: 0.0, error: f64::INFINITY };

    /// An exact value.
    pub fn exact(value: f64) -> Num {
        Num { value, error: 0.0 }
    }

    /// Is it exact?
    pub fn is_exact(self) -> bool {
        self.error == 0.0
    }

    /// Is it unknown?
    pub fn is_unknown(self) -> bool {
        self.error.is_infinite() || self.value.is_nan() || self.error.is_nan()
    }

    /// Is a kernel's result within the bound?
    pub fn admits(self, got: f64) -> bool {
        self.is_unknown() || got == self.value || (got - self.value).abs() <= self.error
    }

    /// As a result of one operation of a type. `rounded`: the value is not exact by itself.
    fn fit(self, elem: Elem, rounded: bool) -> Num {
        if self.is_unknown() {
            return Num::UNKNOWN;
        }
        if self.is_exact() && !rounded && holds(elem, self.value) {
            return self;
        }
        if !elem.is_float() {
            return match self.is_exact() && self.value.fract() == 0.0 && self.value.abs() < WHOLE {
                true => Num::exact(wrapped(self.value as i128, elem)),
                false => Num::UNKNOWN,
            };
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
        Num { value: self.value, error: (self.error + 2.0 * roundoff(elem) * size + least) * 1.0001 }
    }

    /// A literal of a type.
    pub fn literal(x: f64, elem: Elem) -> Num {
        match elem {
            Elem::F64 => Num::exact(x),
            _ if holds(elem, x) => Num::exact(x),
            _ => Num::exact(x).fit(elem, false),
        }
    }

    /// An integer of any size, as an element.
    pub fn integer(n: i128, elem: Elem) -> Num {
        let x = n as f64;
        if x as i128 == n && x.abs() < 9e15 { Num::exact(x).fit(elem, false) } else { Num::UNKNOWN }
    }

    /// Converted to a type.
    pub fn cast(self, from: Elem, to: Elem) -> Num {
        if from == to || self.is_unknown() {
            return self;
        }
        let (lo, hi) = range(to);
        match (from.is_float(), to.is_float()) {
            (_, true) => self.fit(to, false),
            (true, false) => {
                let end = |x: f64| x.trunc().clamp(lo, hi);
                let (low, high) = (end(self.value - self.error), end(self.value + self.error));
                if low == high { Num::exact(low) } else { Num::UNKNOWN }
            }
            // The low bits.
            (false, false) => Num::exact(wrapped(self.value as i128, to)),
        }
    }

    /// A unary function.
    pub fn un(f: Un, x: Num, elem: Elem) -> Num {
        if x.is_unknown() {
            return Num::UNKNOWN;
        }
        match f {
            Un::Neg => Num { value: -x.value, ..x }.fit(elem, false),
            Un::Abs => Num { value: x.value.abs(), ..x }.fit(elem, false),
            Un::Apart => x,
            Un::Not => Num::UNKNOWN,
            Un::CountOnes | Un::LeadingZeros if x.is_exact() => {
                let width = 8 * elem.bytes();
                let bits = x.value as i64 as u64 & (u64::MAX >> (64 - width));
                let leading = (0..width).take_while(|n| bits >> (width - 1 - n) & 1 == 0).count();
                let ones = (0..width).filter(|n| bits >> n & 1 == 1).count();
                Num::exact(if f == Un::CountOnes { ones } else { leading } as f64)
            }
            _ if !elem.is_float() => Num::UNKNOWN,
            Un::Floor | Un::Ceil | Un::Trunc | Un::Round | Un::RoundEven => {
                let (low, high) = (whole_near(f, x.value - x.error), whole_near(f, x.value + x.error));
                if low == high { Num::exact(low) } else { Num::UNKNOWN }
            }
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
        Num { value, error: spread + own * (value.abs() + f64::from(u8::from(slope.is_some()))) + 1e-30 }
            .fit(elem, true)
    }

    /// The bits of an element of 4 bytes as another type of 4 bytes.
    pub fn bits(self, from: Elem, to: Elem) -> Num {
        match self.is_exact() && !(from.is_float() && self.value == 0.0) {
            true if from == to => self,
            true => Num::exact(crate::number::value(to, crate::number::bits(from, self.value))),
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
                _ => f64::NAN,
            };
            return if value.is_nan() { Num::UNKNOWN } else { Num::exact(value) };
        }
        // Integers wrap around.
        if !elem.is_float() && x.is_exact() && y.is_exact() {
            let (n, m) = (a as i128, b as i128);
            let whole = match f {
                Bin::Add => Some(n + m),
                Bin::Sub => Some(n - m),
                Bin::Mul => Some(n * m),
                _ => None,
            };
            if let Some(whole) = whole {
                return Num::exact(wrapped(whole, elem));
            }
        }
        let sum = |b: f64| {
            let value = a + b;
            // The rounding error (Knuth).
            let back = value - a;
            let lost = (a - (value - back)) + (b - back);
            let rounded = lost != 0.0 && value.is_finite();
            Num { value, error: x.error + y.error + lost.abs().min(value.abs()) }.fit(elem, rounded)
        };
        match f {
            Bin::Add => sum(b),
            Bin::Sub => sum(-b),
            Bin::Mul => {
                let value = a * b;
                let rounded = value.is_finite() && a.mul_add(b, -value) != 0.0;
                let error = x.error * b.abs() + y.error * a.abs() + x.error * y.error;
                Num { value, error }.fit(elem, rounded)
            }
            Bin::Min | Bin::Max => {
                let value = if f == Bin::Min { a.min(b) } else { a.max(b) };
                let apart = (a - b).abs() > x.error + y.error;
                let error = match (apart, value == a) {
                    (true, true) => x.error,
                    (true, false) => y.error,
                    _ => x.error.max(y.error),
                };
                Num { value, error }
            }
            Bin::CopySign if b.abs() > y.error => Num { value: a.abs().copysign(b), error: x.error },
            // Of either sign.
            Bin::CopySign => Num { value: 0.0, error: a.abs() + x.error },
            Bin::Pow if x.is_exact() && y.is_exact() && a > 0.0 => {
                let value = a.powf(b);
                let own = if elem == Elem::F64 { 1e-12 } else { 4e-6 };
                Num { value, error: own * value + 1e-30 }.fit(elem, true)
            }
            Bin::Div if elem.is_float() => {
                if b.abs() <= 2.0 * y.error || b == 0.0 {
                    return Num::UNKNOWN;
                }
                let value = a / b;
                let rounded = value.is_finite() && value.mul_add(b, -a) != 0.0;
                let error = (x.error + value.abs() * y.error) / (b.abs() - y.error);
                Num { value, error }.fit(elem, rounded)
            }
            _ if elem.is_float() || !x.is_exact() || !y.is_exact() => Num::UNKNOWN,
            _ => integers(f, a as i64, b as i64)
                .map_or(Num::UNKNOWN, |n| Num::exact(n as f64).fit(elem, false)),
        }
    }

    /// `x * y + z`, rounded once.
    pub fn fma(x: Num, y: Num, z: Num, elem: Elem) -> Num {
        // Where all is exact, one rounding and two are the same; otherwise the error bounds cover the
        // difference.
        Num::bin(Bin::Add, Num::bin(Bin::Mul, x, y, Elem::F64), z, elem)
    }

    /// A comparison.
    pub fn cmp(how: Cmp, x: Num, y: Num) -> Num {
        let apart = (x.value - y.value).abs() > x.error + y.error;
        if x.is_unknown() || y.is_unknown() || !(apart || (x.is_exact() && y.is_exact())) {
            return Num::UNKNOWN;
        }
        let (x, y) = (x.value, y.value);
        let holds = match how {
            Cmp::Lt => x < y,
            Cmp::Le => x <= y,
            Cmp::Eq => x == y,
            Cmp::Ne => x != y,
        };
        Num::exact(f64::from(u8::from(holds)))
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
            Bin::Add => {
                let value: f64 = all.iter().map(|x| x.value).sum();
                let size: f64 = all.iter().map(|x| x.value.abs() + x.error).sum();
                let error: f64 = all.iter().map(|x| x.error).sum();
                let whole_numbers = all.iter().all(|x| x.is_exact() && x.value.fract() == 0.0);
                match elem.is_float() {
                    true if whole_numbers && size <= whole(elem) => Num::exact(value),
                    true if size.is_infinite() => Num::UNKNOWN,
                    true => {
                        let steps = all.len() as f64 + 1.0;
                        Num { value, error: error + steps * roundoff(elem) * size }.fit(elem, true)
                    }
                    false => Num::exact(value).fit(elem, false),
                }
            }
            Bin::Mul => {
                let product =
                    rest.iter().fold(first, |product, x| Num::bin(Bin::Mul, product, *x, Elem::F64));
                // No factor may be close to overflow.
                let size: f64 = all.iter().map(|x| x.value.abs().max(1.0)).product();
                if size <= whole(elem) { product.fit(elem, false) } else { Num::UNKNOWN }
            }
            _ => rest.iter().fold(first, |known, x| Num::bin(with, known, *x, elem)),
        }
    }
}

/// Integers up to this one are numbers of the host.
const WHOLE: f64 = 9_007_199_254_740_992.0;

/// The element that has the low bits of an integer.
fn wrapped(n: i128, elem: Elem) -> f64 {
    let (least, most) = (range(elem).0 as i128, range(elem).1 as i128);
    ((n - least).rem_euclid(most - least + 1) + least) as f64
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

fn integers(f: Bin, a: i64, b: i64) -> Option<i64> {
    match f {
        Bin::Div => a.checked_div(b),
        Bin::Rem => a.checked_rem(b),
        Bin::And => Some(a & b),
        Bin::Or => Some(a | b),
        Bin::Xor => Some(a ^ b),
        Bin::Shl if (0..32).contains(&b) => a.checked_mul(1 << b),
        Bin::Shr if (0..32).contains(&b) => Some(a >> b),
        Bin::MulHigh => Some(((i128::from(a) * i128::from(b)) >> 32) as i64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_what_types_round() {
        let third = Num::bin(Bin::Div, Num::exact(1.0), Num::exact(3.0), Elem::F32);
        assert!(!third.is_exact() && third.admits(f64::from(1.0f32 / 3.0)) && !third.admits(0.3334));
        assert!(Num::exact(300.0).cast(Elem::I32, Elem::U8).admits(44.0));
        assert_eq!(Num::exact(-2.7).cast(Elem::F32, Elem::I8), Num::exact(-2.0));
        assert_eq!(Num::exact(200.0).cast(Elem::I32, Elem::I8), Num::exact(-56.0));
        assert_eq!(Num::bin(Bin::Add, Num::exact(127.0), Num::exact(1.0), Elem::I8), Num::exact(-128.0));
        let square = Num::bin(Bin::Mul, Num::exact(46341.0), Num::exact(46341.0), Elem::I32);
        assert_eq!(square, Num::exact(-2147479015.0));
        assert!(Num::fold(Bin::Add, &[Num::exact(3.0), Num::exact(4.0)], Elem::Bf16).is_exact());
    }
}
