//! Conversions of numbers to the bits of f16 and bf16, to nearest with ties to even, and back; to tf32, with ties away from
//! zero; and of 4-bit numbers.

/// The bits of the nearest f16.
///
/// ```
/// use tilewright_program::narrow;
/// assert_eq!(narrow::f16_bits(1.0), 0x3c00);
/// assert_eq!(narrow::f16_bits(65520.0), 0x7c00); // halfway to the first number that does not fit
/// ```
pub fn f16_bits(n: f64) -> u16 {
    round(n, 10, -14, 15)
}

/// The value of an f16.
pub fn f16_value(bits: u16) -> f32 {
    value(bits, 10, -14) as f32
}

/// The bits of the nearest bf16.
///
/// ```
/// use tilewright_program::narrow;
/// assert_eq!(narrow::bf16_bits(1.0), 0x3f80);
/// assert_eq!(narrow::bf16_value(0x4049), 3.140625);
/// ```
pub fn bf16_bits(n: f64) -> u16 {
    round(n, 7, -126, 127)
}

/// The value of a bf16.
pub fn bf16_value(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The bits of the nearest tf32, which is a float of ten bits of fraction; ties go away from zero.
///
/// ```
/// use tilewright_program::narrow;
/// assert_eq!(narrow::tf32_bits(1.0), 0x3f80_0000);
/// assert_eq!(narrow::tf32_bits(1.0 + 1.0 / 2048.0), 0x3f80_2000);
/// ```
pub fn tf32_bits(n: f64) -> u32 {
    if n.is_nan() {
        return 0x7fff_ffff; // the number that the hardware's conversions give
    }
    // Truncates, which keeps the deciding bit: the first that is dropped.
    let near = n.abs() as f32;
    let toward_zero = near.to_bits() - u32::from(f64::from(near) > n.abs());
    u32::from(n.is_sign_negative()) << 31 | (toward_zero + 0x1000) & !0x1fff
}

/// Rows of signed 4-bit numbers, from -8 to 7, as kernels with `b_dtype = i4` read them: two in a byte, the first in its
/// lower bits. Rows of an odd length end with a zero.
///
/// ```
/// use tilewright_program::narrow;
/// assert_eq!(narrow::packed_i4(&[1, -2, 7, 0, -8, 3], 3), [0xe1, 0x07, 0x80, 0x03]);
/// assert_eq!((narrow::i4_value(0xe1, 0), narrow::i4_value(0xe1, 1)), (1, -2));
/// ```
pub fn packed_i4(numbers: &[i8], row: usize) -> Vec<u8> {
    let byte = |pair: &[i8]| pair[0] as u8 & 15 | (pair.get(1).map_or(0, |&upper| upper as u8) << 4);
    numbers.chunks(row.max(1)).flat_map(|row| row.chunks(2).map(byte)).collect()
}

/// The same of unsigned numbers, from 0 to 15, as kernels with `b_dtype = u4` read them.
///
/// ```
/// use tilewright_program::narrow;
/// assert_eq!(narrow::packed_u4(&[1, 14, 7, 0, 8, 3], 3), [0xe1, 0x07, 0x80, 0x03]);
/// assert_eq!(narrow::Int4::Unsigned.value(0xe1, 1), 14);
/// ```
pub fn packed_u4(numbers: &[u8], row: usize) -> Vec<u8> {
    let bits: Vec<i8> = numbers.iter().map(|number| number.cast_signed()).collect();
    packed_i4(&bits, row)
}

/// The first (0) or the second number (1) of a byte of two signed numbers.
pub fn i4_value(byte: u8, which: usize) -> i8 {
    Int4::Signed.value(byte, which)
}

/// Numbers of four bits, two in a byte, the first in its lower bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Int4 {
    /// From -8 to 7.
    Signed,
    /// From 0 to 15.
    Unsigned,
}

impl Int4 {
    /// Both.
    pub const ALL: [Int4; 2] = [Int4::Signed, Int4::Unsigned];

    /// The type's name: `i4` or `u4`.
    pub const fn name(self) -> &'static str {
        match self {
            Int4::Signed => "i4",
            Int4::Unsigned => "u4",
        }
    }

    /// The first (0) or the second number (1) of a byte.
    pub fn value(self, byte: u8, which: usize) -> i8 {
        let up = byte << if which == 0 { 4 } else { 0 };
        match self {
            Int4::Signed => up.cast_signed() >> 4,
            Int4::Unsigned => (up >> 4).cast_signed(),
        }
    }
}

/// Rounds once, from any source type: an f64 represents every f32 and every i32.
fn round(n: f64, mantissa: i32, least: i32, greatest: i32) -> u16 {
    let sign = u16::from(n.is_sign_negative()) << 15;
    let infinity = ((greatest + 1 - least + 1) as u16) << mantissa;
    let n = n.abs();
    if n.is_nan() {
        return 0x7fff; // the number that the hardware's conversions give
    }
    // The unit in the last place, of the exponent or of subnormal numbers.
    let exponent = ((n.to_bits() >> 52) as i32 - 1023).clamp(least, 1024);
    let step = 2f64.powi(exponent - mantissa);
    let steps = (n / step).round_ties_even();
    if steps * step >= 2f64.powi(greatest + 1) {
        return sign | infinity;
    }
    // A carry into the next exponent adds up by itself.
    sign | ((((exponent - least) as u32) << mantissa) + steps as u32) as u16
}

fn value(bits: u16, mantissa: i32, least: i32) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from(bits & 0x7fff) >> mantissa;
    let fraction = f64::from(bits & ((1 << mantissa) - 1)) * 2f64.powi(-mantissa);
    let top = (1 << (15 - mantissa)) - 1;
    sign * match exponent {
        0 => fraction * 2f64.powi(least),
        e if e == top && fraction == 0.0 => f64::INFINITY,
        e if e == top => f64::NAN,
        e => (1.0 + fraction) * 2f64.powi(e - 1 + least),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_round_trips() {
        for bits in 0..=u16::MAX {
            for (value, back) in
                [(f16_value(bits), f16_bits as fn(f64) -> u16), (bf16_value(bits), bf16_bits)]
            {
                if value.is_nan() {
                    assert_eq!(back(f64::from(value)), 0x7fff);
                } else {
                    assert_eq!(back(f64::from(value)), bits, "{bits:#06x} is {value}");
                }
            }
        }
    }

    #[test]
    fn ties_of_tf32_go_away_from_zero() {
        for code in (0..0x7f80_0000u32).step_by(0x2000 * 31) {
            let (low, high) = (f32::from_bits(code), f32::from_bits(code + 0x2000));
            assert_eq!(tf32_bits(low.into()), code);
            if high.is_infinite() {
                continue;
            }
            let middle = (f64::from(low) + f64::from(high)) / 2.0;
            assert_eq!(tf32_bits(middle), code + 0x2000, "{middle:e}");
            assert_eq!(tf32_bits(-middle), 0x8000_0000 | (code + 0x2000), "{middle:e}");
            assert_eq!(tf32_bits(middle.next_down()), code, "{middle:e}");
        }
        assert_eq!(tf32_bits(f32::MAX.into()), 0x7f80_0000);
        assert_eq!(tf32_bits(1e300), 0x7f80_0000);
        assert_eq!(tf32_bits(f64::NEG_INFINITY), 0xff80_0000);
        assert_eq!(tf32_bits(f64::NAN), 0x7fff_ffff);
    }

    #[test]
    fn halves_go_to_even() {
        for bits in 0..0x7bffu16 {
            let (low, high) = (f64::from(f16_value(bits)), f64::from(f16_value(bits + 1)));
            let middle = (low + high) / 2.0;
            let even = bits + bits % 2;
            assert_eq!(f16_bits(middle), even);
            assert_eq!(f16_bits(middle.next_down()), bits);
            assert_eq!(f16_bits(-middle.next_up()), 0x8000 | (bits + 1));
        }
        assert_eq!(f16_bits(65519.999), 0x7bff);
        assert_eq!(f16_bits(65520.0), 0x7c00);
        assert_eq!(bf16_bits(f64::from(f32::MAX)), 0x7f80);
        assert_eq!(bf16_bits(1e300), 0x7f80);
    }
}
