//! Numbers as C writes them, exactly.

use crate::values::elem::{Elem, Kind};
use crate::values::number::{self, Number};

/// A number of a type.
pub(super) fn literal(number: Number, elem: Elem) -> String {
    let bits = number.bits(elem);
    match elem {
        Elem::F64 => double(f64::from_bits(bits)),
        Elem::F32 | Elem::Tf32 => float(f32::from_bits(bits as u32)),
        elem if elem.is_float() => in_bits(elem, bits, 2 * elem.bytes() as usize),
        elem => {
            let (n, (least, _)) = (number::integer(elem, bits), number::range(elem));
            let long = if elem.bits() > 32 { "ll" } else { "" };
            match elem.kind() {
                // The least number is no literal of C: its digits alone are out of range.
                Kind::Signed if elem.is_word() && n == least => format!("({}{long} - 1)", n + 1),
                Kind::Signed => format!("{n}{long}"),
                Kind::Unsigned => format!("{n}u{long}"),
                _ => n.to_string(),
            }
        }
    }
}

fn in_bits(elem: Elem, bits: u64, digits: usize) -> String {
    let name = elem.cuda();
    if bits == 0 { format!("{name}{{0}}") } else { format!("{name}{{0x{bits:0digits$x}}}") }
}

/// A number of a narrow type where arithmetic is done in `float`.
pub(super) fn widened(number: Number, elem: Elem) -> String {
    float(number.value(elem) as f32)
}

fn float(x: f32) -> String {
    match x {
        f32::INFINITY => "infinity()".to_owned(),
        f32::NEG_INFINITY => "-infinity()".to_owned(),
        _ if x.is_nan() => format!("__int_as_float(0x{:08x})", Number::Float(x.into()).bits(Elem::F32)),
        _ => format!("{x:?}f"),
    }
}

fn double(x: f64) -> String {
    match x {
        f64::INFINITY => "double_infinity()".to_owned(),
        f64::NEG_INFINITY => "-double_infinity()".to_owned(),
        _ if x.is_nan() => format!("__longlong_as_double(0x{:016x}LL)", x.to_bits()),
        _ => format!("{x:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(number: impl Into<Number>, elem: Elem, text: &str) {
        assert_eq!(literal(number.into(), elem), text);
    }

    #[test]
    fn numbers_are_exact() {
        check(0.0, Elem::F32, "0.0f");
        check(0, Elem::F32, "0.0f");
        check(-0.0, Elem::F32, "-0.0f");
        check(0.1, Elem::F32, "0.1f");
        check(1e-30, Elem::F32, "1e-30f");
        check(16_777_217, Elem::F32, "16777216.0f");
        check(f64::NEG_INFINITY, Elem::F32, "-infinity()");
        check(f64::INFINITY, Elem::F32, "infinity()");
        check(f64::NAN, Elem::F32, "__int_as_float(0x7fffffff)");
        check(0.1, Elem::F64, "0.1");
        check(-0.0, Elem::F64, "-0.0");
        check(9_007_199_254_740_993i64, Elem::F64, "9007199254740992.0");
        check(f64::INFINITY, Elem::F64, "double_infinity()");
        check(f64::NEG_INFINITY, Elem::F64, "-double_infinity()");
        check(f64::NAN, Elem::F64, "__longlong_as_double(0x7fffffffffffffffLL)");
        check(1.0, Elem::F16, "f16{0x3c00}");
        check(1.0, Elem::Bf16, "bf16{0x3f80}");
        check(0.0, Elem::Bf16, "bf16{0}");
        check(-0.0, Elem::Bf16, "bf16{0x8000}");
        check(1.0, Elem::E4m3, "e4m3{0x38}");
        check(0.0, Elem::E5m2, "e5m2{0}");
        check(1.0 + 1.0 / 2048.0, Elem::Tf32, "1.0009766f");
        check(-3.0, Elem::I32, "-3");
        check(i64::from(i32::MIN), Elem::I32, "(-2147483647 - 1)");
        check(-2147483648.0, Elem::I32, "(-2147483647 - 1)");
        check(2147483647, Elem::I32, "2147483647");
        check(4294967295.0, Elem::U32, "4294967295u");
        check(4294967295i64, Elem::U32, "4294967295u");
        check(-128, Elem::I8, "-128");
        check(255, Elem::U8, "255u");
        check(i64::MIN, Elem::I64, "(-9223372036854775807ll - 1)");
        check(u64::MAX, Elem::U64, "18446744073709551615ull");
        check(-32768, Elem::I16, "-32768");
        check(1, Elem::Bool, "1");
        check(f64::MAX, Elem::I8, "127");
    }
}
