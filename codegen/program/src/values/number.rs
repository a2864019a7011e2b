//! Literals: numbers exactly as they were written, the numbers that each element type represents, and their bits in it.

use std::fmt;

use crate::source::problem::{Problem, Result};
use crate::values::elem::{Elem, Kind};
use crate::{values::fp8, values::narrow};

/// A literal before it has a type. An integer is exact, a fraction is the nearest double.
///
/// ```
/// use tilewright_program::{Elem, number::Number};
/// assert_eq!(Number::from(-1).bits(Elem::U8), 0xff);
/// assert!(Number::from(-1).check(Elem::U8).is_err());
/// assert!(Number::from(2.0).check(Elem::U8).is_ok()); // an integer, however it is written
/// assert!(Number::from(2.5).check(Elem::U8).is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// An integer literal.
    Int(i128),
    /// A floating-point literal, an infinity, or not a number.
    Float(f64),
}

impl From<f64> for Number {
    fn from(x: f64) -> Number {
        Number::Float(x)
    }
}

impl From<i32> for Number {
    fn from(n: i32) -> Number {
        Number::Int(n.into())
    }
}

impl From<i64> for Number {
    fn from(n: i64) -> Number {
        Number::Int(n.into())
    }
}

impl From<u64> for Number {
    fn from(n: u64) -> Number {
        Number::Int(n.into())
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Int(n) => write!(f, "{n}"),
            Number::Float(x) => write!(f, "{x:?}"),
        }
    }
}

impl Number {
    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        match self {
            Number::Int(n) => n as f64,
            Number::Float(x) => x,
        }
    }

    /// The nearest single-precision number, rounded once.
    fn to_f32(self) -> f32 {
        match self {
            Number::Int(n) => n as f32,
            Number::Float(x) => x as f32,
        }
    }

    /// The integer that it is, if it is one.
    pub fn int(self) -> Option<i128> {
        match self {
            Number::Int(n) => Some(n),
            Number::Float(x) if x.fract() == 0.0 && x.abs() < 2f64.powi(126) => Some(x as i128),
            Number::Float(_) => None,
        }
    }

    /// Is it the same number? Integers are compared exactly.
    pub fn is(self, other: Number) -> bool {
        match (self.int(), other.int()) {
            (Some(n), Some(m)) => n == m,
            _ => self.to_f64() == other.to_f64(),
        }
    }

    /// The double that represents it and no other number of a type: 64-bit integers that are no doubles have none, except
    /// the greatest ones.
    pub fn exact(self) -> Option<f64> {
        match self {
            Number::Float(x) => Some(x),
            Number::Int(n) if (n as f64) as i128 == n || [i64::MAX.into(), u64::MAX.into()].contains(&n) => {
                Some(n as f64)
            }
            Number::Int(_) => None,
        }
    }

    /// How it is written among elements of a type: the ends of a type, and infinities, by their names.
    pub fn written_as(self, elem: Elem) -> String {
        let (least, most) = range(elem);
        match (self.to_f64(), self.int()) {
            (f64::INFINITY, _) => format!("{elem}::INFINITY"),
            (f64::NEG_INFINITY, _) => format!("{elem}::NEG_INFINITY"),
            (x, _) if elem.is_float() => format!("{x:?}"),
            (_, Some(n)) if n != 0 && n == least => format!("{elem}::MIN"),
            (_, Some(n)) if n == most => format!("{elem}::MAX"),
            (x, None) => format!("{x}"),
            (_, Some(n)) => format!("{n}"),
        }
    }

    /// Are all its bits 0 in every type? Negative zero is not.
    pub fn is_zero(self) -> bool {
        match self {
            Number::Int(n) => n == 0,
            Number::Float(x) => x.to_bits() == 0,
        }
    }

    /// Refuses a literal that a type does not represent.
    ///
    /// Integer types represent integers within their range, written with or without a point. Floating-point types
    /// represent every number that would not become infinite, rounded to nearest, ties to even, as in Rust.
    pub fn check(self, elem: Elem) -> Result<()> {
        if elem.is_float() {
            // Types of eight bits have no infinity that numbers are rounded to.
            let n = self.to_f64();
            let too_great = self.value(elem).is_infinite() || elem.bits() == 8 && n.abs() > greatest(elem);
            return match too_great && n.is_finite() {
                false => Ok(()),
                true => {
                    let most = match elem {
                        Elem::F64 => format!("{:?}", greatest(elem)),
                        _ => format!("{:?}", greatest(elem) as f32),
                    };
                    Err(Problem::new(format!(
                        "{self} is out of range for {elem}, whose largest number is {most}"
                    ))
                    .help("write a number in that range, or convert to a wider type, such as `x as f64`"))
                }
            };
        }
        let (least, most) = range(elem);
        match self.int() {
            Some(n) if (least..=most).contains(&n) => Ok(()),
            Some(_) => Err(Problem::new(format!("{self} is out of range for {elem}: {least} to {most}"))
                .help("write a number in that range, or convert to a wider type, such as `x as i64`")),
            None if self.to_f64().is_finite() => {
                Err(Problem::new(format!("{self} is not an integer, and {elem} is needed here"))
                    .help("write an integer, or convert to a floating-point type, such as `x as f32`"))
            }
            None => Err(Problem::new(format!("{self} is not an integer, and {elem} is needed here"))
                .help(format!("the least and the greatest are `{elem}::MIN` and `{elem}::MAX`"))),
        }
    }

    /// Its bits as an element of a type. Outside the range of an integer type an integer wraps and a
    /// fraction is clamped, as Rust's `as` does; NaN has one pattern.
    pub fn bits(self, elem: Elem) -> u64 {
        match elem {
            Elem::F64 => match self.to_f64() {
                x if x.is_nan() => 0x7fff_ffff_ffff_ffff,
                x => x.to_bits(),
            },
            Elem::F32 => match self.to_f32() {
                x if x.is_nan() => 0x7fff_ffff,
                x => u64::from(x.to_bits()),
            },
            Elem::Tf32 => u64::from(narrow::tf32_bits(self.for_narrow())),
            Elem::F16 => u64::from(narrow::f16_bits(self.for_narrow())),
            Elem::Bf16 => u64::from(narrow::bf16_bits(self.for_narrow())),
            _ if elem.is_fp8() => u64::from(fp8::bits(self.to_f64(), elem)),
            // The low bits of integers.
            _ => self.wrapped(elem) as u64 & (u64::MAX >> (64 - elem.bits())),
        }
    }

    /// Its value as an element of a type.
    pub fn value(self, elem: Elem) -> f64 {
        value(elem, self.bits(elem))
    }

    /// An integer with the low bits of the element.
    fn wrapped(self, elem: Elem) -> i128 {
        let (least, most) = range(elem);
        match self {
            Number::Int(n) => n,
            Number::Float(x) => (x as i128).clamp(least, most),
        }
    }

    /// A double that rounds to a narrow type as the number does: an integer that no double represents is
    /// rounded to odd, so that it remains on the same side of every tie.
    fn for_narrow(self) -> f64 {
        let Number::Int(n) = self else { return self.to_f64() };
        let (mut digits, mut shift) = (n.unsigned_abs(), 0);
        while digits >> 53 != 0 {
            digits = digits >> 1 | digits & 1;
            shift += 1;
        }
        let x = digits as f64 * 2f64.powi(shift);
        if n < 0 { -x } else { x }
    }
}

/// The value of an element from its bits; for a 64-bit integer, the nearest double.
pub fn value(elem: Elem, bits: u64) -> f64 {
    match elem {
        Elem::F64 => f64::from_bits(bits),
        Elem::F32 | Elem::Tf32 => f64::from(f32::from_bits(bits as u32)),
        Elem::F16 => f64::from(narrow::f16_value(bits as u16)),
        Elem::Bf16 => f64::from(narrow::bf16_value(bits as u16)),
        _ if elem.is_fp8() => f64::from(fp8::value(bits as u8, elem)),
        _ => integer(elem, bits) as f64,
    }
}

/// The value of an element of an integer type from its bits; for `bool`, 1 or 0.
///
/// ```
/// use tilewright_program::{Elem, number::integer};
/// assert_eq!(integer(Elem::I16, 0xffff), -1);
/// assert_eq!(integer(Elem::U64, u64::MAX), (1 << 64) - 1);
/// ```
pub fn integer(elem: Elem, bits: u64) -> i128 {
    let unused = 64 - elem.bits();
    match elem.kind() {
        Kind::Signed => i128::from((bits << unused).cast_signed() >> unused),
        Kind::Bool => i128::from(bits & 0xff != 0),
        _ => i128::from(bits << unused >> unused),
    }
}

/// The least and the greatest number of an integer type.
pub fn range(elem: Elem) -> (i128, i128) {
    let bits = elem.bits();
    match elem.kind() {
        Kind::Signed => (-1 << (bits - 1), (1 << (bits - 1)) - 1),
        Kind::Bool => (0, 1),
        _ => (0, (1 << bits) - 1),
    }
}

/// The greatest finite number of a floating-point type.
pub fn greatest(elem: Elem) -> f64 {
    match elem {
        Elem::F64 => f64::MAX,
        Elem::F16 => f64::from(narrow::f16_value(0x7bff)),
        Elem::Bf16 => f64::from(narrow::bf16_value(0x7f7f)),
        Elem::Tf32 => f64::from(f32::from_bits(0x7f7f_e000)),
        _ if elem.is_fp8() => fp8::greatest(elem),
        _ => f64::from(f32::MAX),
    }
}

/// Does an element differ from its claimed value by more than rounding? A claimed number may stand for an infinity.
pub fn differ(value: f64, claim: f64) -> bool {
    let is_huge = |x: f64| x.abs() > 1e30;
    match is_huge(value) && is_huge(claim) {
        true => value.signum() != claim.signum(),
        // Not-a-number differs from every claim.
        false => value.is_nan() || (value - claim).abs() > 1e-3 * value.abs().max(claim.abs()).min(1e30),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Elem::{Bf16, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};

    #[track_caller]
    fn check_value(number: impl Into<Number>, elem: Elem, value: f64) {
        let number = number.into();
        assert_eq!(number.check(elem), Ok(()), "{number} in {elem}");
        assert_eq!(number.value(elem).to_bits(), value.to_bits(), "{number} in {elem}");
    }

    #[track_caller]
    fn refuses(number: impl Into<Number>, elem: Elem, message: &str) {
        let reported = number.into().check(elem).unwrap_err().message;
        assert_eq!(reported, message);
    }

    #[test]
    fn types_hold_what_they_can() {
        check_value(i64::from(i32::MIN), I32, f64::from(i32::MIN));
        check_value(4_294_967_295i64, U32, 4_294_967_295.0);
        check_value(-128, I8, -128.0);
        check_value(255.0, U8, 255.0);
        check_value(-32768, I16, -32768.0);
        check_value(65535, U16, 65535.0);
        check_value(i64::MIN, I64, -(2f64.powi(63)));
        check_value(u64::MAX, U64, 2f64.powi(64));
        check_value(1, Elem::Bool, 1.0);
        check_value(-0.0, I32, 0.0);
        check_value(-0.0, F32, -0.0);
        check_value(16_777_217, F32, 16_777_216.0);
        check_value(2049, F16, 2048.0);
        check_value(65_519, F16, 65_504.0);
        check_value(257, Bf16, 256.0);
        check_value(2049, Elem::Tf32, 2050.0);
        check_value(2048.9, Elem::Tf32, 2048.0);
        check_value(17, Elem::E4m3, 16.0);
        check_value(f64::INFINITY, Elem::E5m2, 57344.0);
        check_value(f64::INFINITY, F16, f64::INFINITY);
        check_value((1i64 << 53) + 1, F64, 9_007_199_254_740_992.0);
    }

    #[test]
    fn integers_round_once() {
        // Each is just above a tie, to which a double would round it.
        check_value((1i64 << 60) + (1 << 36) + 1, F32, ((1i64 << 60) + (1 << 37)) as f64);
        check_value((1i64 << 60) + (1 << 52) + 1, Bf16, ((1i64 << 60) + (1 << 53)) as f64);
        check_value((1i64 << 60) + (1 << 52), Bf16, (1i64 << 60) as f64);
        check_value(-(1i64 << 60) - (1 << 52) - 1, Bf16, -((1i64 << 60) + (1 << 53)) as f64);
    }

    #[test]
    fn literals_out_of_range_are_refused() {
        refuses(3_000_000_000i64, I32, "3000000000 is out of range for i32: -2147483648 to 2147483647");
        refuses(-1, U64, "-1 is out of range for u64: 0 to 18446744073709551615");
        refuses(2, Elem::Bool, "2 is out of range for bool: 0 to 1");
        refuses(-1, U32, "-1 is out of range for u32: 0 to 4294967295");
        refuses(1e10, I32, "10000000000.0 is out of range for i32: -2147483648 to 2147483647");
        refuses(1.5, I32, "1.5 is not an integer, and i32 is needed here");
        refuses(f64::NEG_INFINITY, I8, "-inf is not an integer, and i8 is needed here");
        refuses(f64::NAN, U8, "NaN is not an integer, and u8 is needed here");
        refuses(65_520, F16, "65520 is out of range for f16, whose largest number is 65504.0");
        refuses(1e39, F32, "1e39 is out of range for f32, whose largest number is 3.4028235e38");
        refuses(449, Elem::E4m3, "449 is out of range for e4m3, whose largest number is 448.0");
        refuses(-1e5, Elem::E5m2, "-100000.0 is out of range for e5m2, whose largest number is 57344.0");
        refuses(
            f64::from(f32::MAX),
            Bf16,
            "3.4028234663852886e38 is out of range for bf16, whose largest number is 3.3895314e38",
        );
    }
}
