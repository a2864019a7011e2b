//! 8-bit floating-point numbers. `e4m3` has four bits of exponent and three of fraction, no infinity, and one NaN of each
//! sign; its greatest number is 448. `e5m2` is the upper byte of a half: five bits of exponent and two of fraction, with
//! infinities; its greatest number is 57344. Conversions to them round to nearest, ties to even, and saturate at the
//! greatest number, as the hardware's do; a NaN becomes 0x7f.

use crate::values::elem::Elem;

/// Bits of fraction, the exponent of the least normal number, the bits of the greatest finite number.
#[inline]
fn format(elem: Elem) -> (i32, i32, u8) {
    match elem {
        Elem::E4m3 => (3, -6, 0x7e),
        _ => (2, -14, 0x7b),
    }
}

/// The greatest finite number.
pub(crate) fn greatest(elem: Elem) -> f64 {
    f64::from(value(format(elem).2, elem))
}

/// The number of these bits; every one is a float.
#[inline]
pub fn value(bits: u8, elem: Elem) -> f32 {
    let (fraction, least, greatest) = format(elem);
    let magnitude = bits & 0x7f;
    let size = if magnitude > greatest {
        // The pattern after the greatest number is infinity, if the type has one.
        if elem == Elem::E5m2 && magnitude == greatest + 1 { f32::INFINITY } else { f32::NAN }
    } else {
        let (exponent, low) =
            (i32::from(magnitude >> fraction), f32::from(magnitude & ((1 << fraction) - 1)));
        let steps = if exponent == 0 { low } else { low + (1 << fraction) as f32 };
        steps * 2f32.powi(exponent.max(1) - 1 + least - fraction)
    };
    if bits >> 7 == 1 { -size } else { size }
}

/// The nearest representable number. A double represents every source, so that it is rounded once.
pub fn bits(x: f64, elem: Elem) -> u8 {
    let (fraction, least, _) = format(elem);
    if x.is_nan() {
        return 0x7f;
    }
    let sign = u8::from(x.is_sign_negative()) << 7;
    let size = x.abs().min(self::greatest(elem));
    // Neighbours are a step apart: the step of the exponent, or of the subnormal numbers.
    let exponent = ((size.to_bits() >> 52) as i32 - 1023).max(least);
    let steps = (size / 2f64.powi(exponent - fraction)).round_ties_even();
    // A carry into the next exponent adds up by itself.
    sign | (((exponent - least) << fraction) + steps as i32) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [Elem; 2] = [Elem::E4m3, Elem::E5m2];

    /// For one type, the numbers are the halves whose lower byte is zero; for the other, they are written out by definition.
    fn defined(code: u8, elem: Elem) -> f32 {
        if elem == Elem::E5m2 {
            return crate::values::narrow::f16_value(u16::from(code) << 8);
        }
        let (exponent, fraction) = (f32::from(code >> 3 & 15), f32::from(code & 7));
        let size = match (code >> 3 & 15, code & 7) {
            (15, 7) => f32::NAN,
            (0, _) => fraction / 8.0 * (-6f32).exp2(),
            _ => (1.0 + fraction / 8.0) * (exponent - 7.0).exp2(),
        };
        if code >= 0x80 { -size } else { size }
    }

    #[test]
    fn every_code_has_its_value_and_comes_back() {
        for elem in TYPES {
            for code in 0..=255u8 {
                let (got, wanted) = (value(code, elem), defined(code, elem));
                assert!(
                    got.to_bits() == wanted.to_bits() || got.is_nan() && wanted.is_nan(),
                    "{elem} {code:#x}: {got}, and {wanted} is right"
                );
                let back = bits(f64::from(got), elem);
                match got {
                    x if x.is_nan() => assert_eq!(back, 0x7f, "{elem} {code:#x}"),
                    x if x.is_infinite() => assert_eq!(back, code - 1, "{elem} {code:#x}: saturated"),
                    _ => assert_eq!(back, code, "{elem} {code:#x}"),
                }
            }
        }
    }

    /// The nearest finite number by brute force, ties to even.
    fn nearest(x: f32, elem: Elem) -> u8 {
        let sign = u8::from(x.is_sign_negative()) << 7;
        let finite = (0..128u8).filter(|&code| defined(code, elem).is_finite());
        // Above the greatest number all distances grow alike.
        let size = f64::from(x).abs().min(1e6);
        let distance = |code: u8| (f64::from(defined(code, elem)) - size).abs();
        let best = finite.min_by(|&a, &b| distance(a).total_cmp(&distance(b)).then((a & 1).cmp(&(b & 1))));
        sign | best.unwrap()
    }

    #[test]
    fn floats_round_to_the_nearest() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (z ^ z >> 27) as u32
        };
        let check = |x: f32, elem: Elem| {
            if x.is_finite() {
                assert_eq!(bits(f64::from(x), elem), nearest(x, elem), "{elem}: {x:e}");
            }
        };
        for elem in TYPES {
            for _ in 0..60_000 {
                let bits = random();
                check(f32::from_bits(bits), elem);
                // In the range where neighbours differ.
                check(f32::from_bits(bits & 0x87ff_ffff | 0x3800_0000), elem);
                check(f32::from_bits(bits & 0x87ff_ffff | 0x4000_0000), elem);
            }
            // Every tie between two neighbours, and the floats next to it.
            for code in 0..127u8 {
                let middle = (defined(code, elem) + defined(code + 1, elem)) / 2.0;
                for x in [middle, middle.next_down(), middle.next_up(), -middle] {
                    check(x, elem);
                }
            }
            let most = value(format(elem).2, elem);
            for x in [f64::INFINITY, 1e300, f64::from(most.next_up()), f64::from(f32::MAX)] {
                assert_eq!((bits(x, elem), bits(-x, elem)), (format(elem).2, format(elem).2 | 0x80));
            }
        }
    }
}
