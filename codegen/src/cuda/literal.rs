//! Numbers as C writes them, exactly.

use crate::elem::Elem;
use crate::narrow;

/// A number of a type.
pub(super) fn literal(n: f64, elem: Elem) -> String {
    match elem {
        Elem::F64 if n.is_finite() => format!("{n:?}"),
        Elem::F64 => format!("__longlong_as_double(0x{:016x}LL)", bits64(n)),
        Elem::F32 | Elem::Tf32 => float(n as f32),
        Elem::F16 => half("f16", narrow::f16_bits(n)),
        Elem::Bf16 => half("bf16", narrow::bf16_bits(n)),
        Elem::U32 => format!("{}u", n as u32),
        Elem::U8 | Elem::E4m3 | Elem::E5m2 => format!("{}u", n as u8),
        Elem::I32 if n as i32 == i32::MIN => "(-2147483647 - 1)".to_string(),
        Elem::I32 => (n as i32).to_string(),
        Elem::I8 => (n as i8).to_string(),
    }
}

fn half(name: &str, bits: u16) -> String {
    if bits == 0 { format!("{name}{{0}}") } else { format!("{name}{{0x{bits:04x}}}") }
}

/// A number of a narrow type where arithmetic is done in `float`.
pub(super) fn widened(n: f64, elem: Elem) -> String {
    float(match elem {
        Elem::F16 => narrow::f16_value(narrow::f16_bits(n)),
        Elem::Bf16 => narrow::bf16_value(narrow::bf16_bits(n)),
        _ => n as f32,
    })
}

fn float(n: f32) -> String {
    if n.is_finite() { format!("{n:?}f") } else { format!("__int_as_float(0x{:08x})", bits32(n)) }
}

/// One number that is not a number, whatever the sign of the one at hand.
fn bits32(n: f32) -> u32 {
    if n.is_nan() { 0x7fff_ffff } else { n.to_bits() }
}

fn bits64(n: f64) -> u64 {
    if n.is_nan() { 0x7fff_ffff_ffff_ffff } else { n.to_bits() }
}

/// A number of a type as its bytes, least significant first in the word: for filling packed words.
pub(super) fn bits(n: f64, elem: Elem) -> u64 {
    match elem {
        Elem::F64 => bits64(n),
        Elem::F32 | Elem::Tf32 => u64::from(bits32(n as f32)),
        Elem::F16 => u64::from(narrow::f16_bits(n)),
        Elem::Bf16 => u64::from(narrow::bf16_bits(n)),
        Elem::I32 => u64::from(n as i32 as u32),
        Elem::U32 => u64::from(n as u32),
        Elem::I8 => u64::from(n as i8 as u8),
        Elem::U8 | Elem::E4m3 | Elem::E5m2 => u64::from(n as u8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact() {
        for (n, elem, text) in [
            (0.0, Elem::F32, "0.0f"),
            (-0.0, Elem::F32, "-0.0f"),
            (0.1, Elem::F32, "0.1f"),
            (1e-30, Elem::F32, "1e-30f"),
            (f64::NEG_INFINITY, Elem::F32, "__int_as_float(0xff800000)"),
            (f64::NAN, Elem::F32, "__int_as_float(0x7fffffff)"),
            (0.1, Elem::F64, "0.1"),
            (f64::INFINITY, Elem::F64, "__longlong_as_double(0x7ff0000000000000LL)"),
            (1.0, Elem::F16, "f16{0x3c00}"),
            (1.0, Elem::Bf16, "bf16{0x3f80}"),
            (0.0, Elem::Bf16, "bf16{0}"),
            (-0.0, Elem::Bf16, "bf16{0x8000}"),
            (-3.0, Elem::I32, "-3"),
            (-2147483648.0, Elem::I32, "(-2147483647 - 1)"),
            (4294967295.0, Elem::U32, "4294967295u"),
            (f64::MAX, Elem::I8, "127"),
        ] {
            assert_eq!(literal(n, elem), text);
        }
    }
}
