//! Elements as numbers of the host and as their bits.

use tilewright_codegen::Elem;
use tilewright_codegen::element::tf32;
use tilewright_codegen::number::{self, Number};

/// The bits of the nearest element.
pub fn bits(elem: Elem, value: f64) -> u64 {
    match elem {
        Elem::F64 => value.to_bits(),
        Elem::F32 => u64::from((value as f32).to_bits()),
        _ if elem.is_float() => Number::Float(f64::from(value as f32)).bits(elem),
        Elem::U64 => value as u64,
        Elem::Bool => u64::from(value != 0.0),
        _ => value as i64 as u64 & u64::MAX >> (64 - 8 * elem.bytes()),
    }
}

/// The value of an element's bits.
pub fn value(elem: Elem, bits: u64) -> f64 {
    match elem {
        Elem::Tf32 => f64::from(tf32::from_bits(bits as u32).to_f32()),
        _ if elem.is_float() => number::value(elem, bits),
        _ if elem.is_signed() => {
            let unused = 64 - 8 * elem.bytes();
            (bits.cast_signed() << unused >> unused) as f64
        }
        _ => bits as f64,
    }
}

/// All bits of an element set: NaN for a float, a conspicuous integer, and true.
pub fn poison(elem: Elem) -> u64 {
    let all = u64::MAX >> (64 - 8 * elem.bytes());
    match elem {
        Elem::Bool => 1,
        // The bits after its mantissa are always zero.
        Elem::Tf32 => u64::from(tf32::from_bits(all as u32).to_bits()),
        _ => all,
    }
}

/// Adds the products of a column and a factor to sums, and their magnitudes to sums of magnitudes. The references of products spend
/// their time here, and this crate is optimised.
pub fn add_products(sums: &mut [(f64, f64)], column: &[f64], factor: f64) {
    for ((sum, magnitude), x) in sums.iter_mut().zip(column) {
        let product = x * factor;
        *sum += product;
        *magnitude += product.abs();
    }
}

/// The least and the greatest value of an integer type.
pub fn range(elem: Elem) -> (f64, f64) {
    match integers(elem) {
        _ if elem.is_float() => (f64::NEG_INFINITY, f64::INFINITY),
        (least, most) => (least as f64, most as f64),
    }
}

/// The least and the greatest value of an integer type, exactly.
pub fn integers(elem: Elem) -> (i128, i128) {
    let bits = 8 * elem.bytes();
    match elem {
        Elem::Bool => (0, 1),
        _ if elem.is_float() => (i128::MIN, i128::MAX),
        _ if elem.is_signed() => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ => (0, (1 << bits) - 1),
    }
}

/// The value of an integer type that has the low bits of an integer.
pub fn wrapped(n: i128, elem: Elem) -> i128 {
    let (least, most) = integers(elem);
    (n - least).rem_euclid(most - least + 1) + least
}

/// Does a type represent exactly this number?
pub fn represents(elem: Elem, x: f64) -> bool {
    match elem {
        _ if x.is_nan() => false,
        _ if elem.is_float() => value(elem, bits(elem, x)) == x,
        _ => x.fract() == 0.0 && (integers(elem).0..=integers(elem).1).contains(&(x as i128)),
    }
}

/// The limit up to which a type represents every integer, so that sums of integers are exact in any order.
pub fn whole(elem: Elem) -> f64 {
    match elem {
        _ if elem.is_float() => 2f64.powi(elem.precision() as i32),
        _ => range(elem).1,
    }
}
