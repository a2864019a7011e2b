//! Arithmetic on the bits of elements, as the generated code does it: narrow floating-point types through
//! `float`, narrow integers through `int`, one rounding where the hardware rounds once.
//!
//! Exact to the bit: conversions, sums, products, quotients, `fmaf`, square roots, integers. Functions such
//! as `exp` and `tanh` are computed in double precision and rounded to the type, so in `f32` and narrower types
//! they are within half an ulp of the exact value; on a GPU they are within two (CUDA C Programming Guide,
//! mathematical functions). NaN has one bit pattern in the narrow types, 0x7fff, as the
//! hardware's conversions give. 8-bit types (`fp8`) have their own conversions; their sums and products
//! are computed in single precision.

use super::elem::Elem;
use super::element::{bf16, f16};
use super::operation::{Bin, Cmp, Un};
use super::{fp8, narrow, number};

/// An element as an integer; fractions are truncated, as `as i64` does.
#[inline]
pub fn to_int(bits: u64, elem: Elem) -> i64 {
    if elem.is_float() { i64::from(cast(bits, elem, Elem::I32) as i32) } else { int(bits, elem) }
}

/// The bits of an integer as an element.
#[inline]
pub fn from_int(n: i64, elem: Elem) -> u64 {
    match elem {
        Elem::F64 => (n as f64).to_bits(),
        Elem::F32 => u64::from((n as f32).to_bits()),
        Elem::Tf32 => u64::from(narrow::tf32_bits(to_odd(n.into()))),
        // Through float, which represents all finite values, and through double, which is rounded to odd.
        Elem::F16 => u64::from(half(n as f32)),
        Elem::Bf16 => u64::from(narrow::bf16_bits(to_odd(n.into()))),
        _ if elem.is_fp8() => u64::from(fp8::bits(n as f64, elem)),
        _ => low(n.cast_unsigned(), elem),
    }
}

/// Rounds to the nearest half; NaN is 0x7fff.
#[inline]
pub fn half(x: f32) -> u16 {
    if x.is_nan() { 0x7fff } else { f16::from_f32(x).to_bits() }
}

/// Rounds to the nearest bfloat16; NaN is 0x7fff.
#[inline]
pub fn brain(x: f32) -> u16 {
    if x.is_nan() { 0x7fff } else { bf16::from_f32(x).to_bits() }
}

/// A narrow or single-precision number as a float.
#[inline]
pub fn float(bits: u32, elem: Elem) -> f32 {
    match elem {
        Elem::F16 => f16::from_bits(bits as u16).to_f32(),
        Elem::Bf16 => f32::from_bits(bits << 16),
        // Tensor cores read the upper 19 bits.
        Elem::Tf32 => f32::from_bits(bits & 0xffff_e000),
        Elem::F32 => f32::from_bits(bits),
        _ => fp8::value(bits as u8, elem),
    }
}

/// A narrow or single-precision number from a float.
#[inline]
fn narrowed(x: f32, elem: Elem) -> u32 {
    match elem {
        Elem::F16 => u32::from(half(x)),
        Elem::Bf16 => u32::from(brain(x)),
        Elem::Tf32 => narrow::tf32_bits(f64::from(x)),
        Elem::F32 => x.to_bits(),
        _ => u32::from(fp8::bits(f64::from(x), elem)),
    }
}

/// The low bits, which an integer type keeps.
#[inline]
fn low(bits: u64, elem: Elem) -> u64 {
    bits & (u64::MAX >> (64 - elem.bits()))
}

/// An integer element as a number; one of `u64` as the number of the same bits.
#[inline]
pub fn int(bits: u64, elem: Elem) -> i64 {
    match elem {
        Elem::I32 => i64::from(bits as i32),
        Elem::I8 => i64::from(bits as i8),
        Elem::I16 => i64::from(bits as i16),
        _ => low(bits, elem).cast_signed(),
    }
}

/// An integer element as it is.
#[inline]
pub fn whole(bits: u64, elem: Elem) -> i128 {
    if elem == Elem::U64 { bits.into() } else { int(bits, elem).into() }
}

/// An integer as a double that is rounded to odd: rounded again to fewer bits it is the nearest number.
fn to_odd(n: i128) -> f64 {
    let (mut mantissa, mut shift) = (n.unsigned_abs(), 0);
    while mantissa >> 53 != 0 {
        mantissa = mantissa >> 1 | mantissa & 1;
        shift += 1;
    }
    let x = mantissa as f64 * 2f64.powi(shift);
    if n < 0 { -x } else { x }
}

/// Any element as a double; every type but large integers of 64 bits fits.
#[inline]
pub fn number(bits: u64, elem: Elem) -> f64 {
    match elem {
        Elem::F64 => f64::from_bits(bits),
        _ if elem.is_float() => f64::from(float(bits as u32, elem)),
        _ => whole(bits, elem) as f64,
    }
}

/// Converts: to floating-point types to nearest, ties to even; from them to integers towards zero, saturated,
/// NaN to 0; between integers the low bits.
#[inline]
pub fn cast(bits: u64, from: Elem, to: Elem) -> u64 {
    use Elem::{Bf16, F16, F32, F64, Tf32};
    if from == to {
        return bits;
    }
    if from == Elem::U64 && to.is_float() {
        return match to {
            F64 => (bits as f64).to_bits(),
            F32 => u64::from((bits as f32).to_bits()),
            F16 => u64::from(half(bits as f32)),
            Bf16 => u64::from(narrow::bf16_bits(to_odd(bits.into()))),
            Tf32 => u64::from(narrow::tf32_bits(to_odd(bits.into()))),
            _ => u64::from(fp8::bits(bits as f64, to)),
        };
    }
    if !from.is_float() {
        return from_int(int(bits, from), to);
    }
    // Fractions are truncated and clamped; NaN becomes 0.
    if !to.is_float() {
        let x = number(bits, if from == Tf32 { F32 } else { from });
        let bits = if to == Elem::U64 { x as u64 } else { (x as i64).cast_unsigned() };
        let (least, most) = number::range(to);
        return match to.bytes() {
            8 => bits,
            _ => low((bits.cast_signed() as i128).clamp(least, most) as u64, to),
        };
    }
    if from == F64 {
        let x = f64::from_bits(bits);
        return match to {
            F32 => u64::from((x as f32).to_bits()),
            Tf32 => u64::from(narrow::tf32_bits(x)),
            F16 => u64::from(narrow::f16_bits(x)),
            Bf16 => u64::from(narrow::bf16_bits(x)),
            F64 => bits,
            _ => u64::from(fp8::bits(x, to)),
        };
    }
    let x = float(bits as u32, if from == Tf32 { F32 } else { from });
    match to {
        F64 => f64::from(x).to_bits(),
        F32 => u64::from(x.to_bits()),
        Tf32 => u64::from(narrow::tf32_bits(f64::from(x))),
        F16 => u64::from(half(x)),
        Bf16 => u64::from(brain(x)),
        _ => u64::from(fp8::bits(f64::from(x), to)),
    }
}

/// A function of one value. `truth`: the operand is 1 or 0, and so is its negation.
#[inline]
pub fn un(f: Un, truth: bool, x: u64, elem: Elem) -> u64 {
    if elem == Elem::F64 {
        return un_double(f, f64::from_bits(x)).to_bits();
    }
    if elem.is_float() {
        let x = float(x as u32, elem);
        let y = match f {
            Un::Neg => -x,
            Un::Abs => x.abs(),
            Un::Recip => 1.0 / x,
            Un::Sqrt => x.sqrt(),
            _ => un_double(f, f64::from(x)) as f32,
        };
        return u64::from(narrowed(y, elem));
    }
    let n = int(x, elem);
    from_int(
        match f {
            Un::Neg => n.wrapping_neg(),
            Un::Abs if elem == Elem::U64 => n,
            Un::Abs => n.wrapping_abs(),
            Un::Not if truth => i64::from(n == 0),
            Un::Not => !n,
            Un::CountOnes => i64::from(low(x, elem).count_ones()),
            Un::LeadingZeros => i64::from(low(x, elem).leading_zeros() + elem.bits()) - 64,
            // No integer has these.
            _ => n,
        },
        elem,
    )
}

/// 2¹²⁶: above it, a device's fast quotient is 0.
const LARGE: f64 = 85_070_591_730_234_615_865_843_651_857_942_052_864.0;

/// A function of a double.
pub fn un_double(f: Un, x: f64) -> f64 {
    match f {
        Un::Neg => -x,
        Un::Abs => x.abs(),
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
        Un::Floor => x.floor(),
        Un::Ceil => x.ceil(),
        Un::Trunc => x.trunc(),
        Un::Round => x.round(),
        Un::RoundEven => x.round_ties_even(),
        // No floating-point number has the first two.
        Un::CountOnes | Un::LeadingZeros | Un::Apart => x,
        Un::Not => f64::from(u8::from(x == 0.0)),
        Un::Fast(of) => un_double(of.exact(), x),
    }
}

/// The error function, within some 1e-15: a series of terms of one sign near 0, a continued fraction of the
/// complement far from it.
fn erf(x: f64) -> f64 {
    let far = x.abs();
    let sure = match far {
        _ if far.is_nan() => return x,
        6.0.. => 1.0,
        // 2/√π · exp(-x²) · Σ 2ⁿ x²ⁿ⁺¹ / (1·3·5 … (2n+1))
        ..2.0 => {
            let (mut term, mut sum, mut n) = (far, far, 1.0);
            while term > sum * 1e-18 {
                term *= 2.0 * far * far / (2.0 * n + 1.0);
                sum += term;
                n += 1.0;
            }
            std::f64::consts::FRAC_2_SQRT_PI * (-far * far).exp() * sum
        }
        // 1 - exp(-x²)/√π / (x + ½/(x + 1/(x + 3⁄2/(x + …))))
        _ => {
            let below = (1..=80).rev().fold(far, |below, n| far + f64::from(n) / 2.0 / below);
            1.0 - std::f64::consts::FRAC_2_SQRT_PI / 2.0 * (-far * far).exp() / below
        }
    };
    sure.copysign(x)
}

macro_rules! float_pair {
    ($f:expr, $x:expr, $y:expr) => {
        match $f {
            Bin::Add => $x + $y,
            Bin::Sub => $x - $y,
            Bin::Mul => $x * $y,
            Bin::Div => $x / $y,
            Bin::Rem => $x % $y,
            // A zero with a sign is less than one without.
            Bin::Min if $x == $y => {
                if $x.is_sign_negative() {
                    $x
                } else {
                    $y
                }
            }
            Bin::Max if $x == $y => {
                if $x.is_sign_negative() {
                    $y
                } else {
                    $x
                }
            }
            Bin::Min => $x.min($y),
            Bin::Pow => f64::powf($x.into(), $y.into()) as _,
            Bin::CopySign => $x.copysign($y),
            // As on a device: the reciprocal of a large divisor is 0.
            Bin::FastDiv if f64::from($y).abs() > LARGE => $x * 0.0,
            Bin::FastDiv => $x / $y,
            Bin::Max => $x.max($y),
            // No floating-point number has these.
            _ => $x,
        }
    };
}

/// A function of two values of one type.
#[inline]
pub fn bin(f: Bin, x: u64, y: u64, elem: Elem) -> u64 {
    if elem == Elem::F64 {
        let (x, y) = (f64::from_bits(x), f64::from_bits(y));
        return float_pair!(f, x, y).to_bits();
    }
    if elem.is_float() {
        let (x, y) = (float(x as u32, elem), float(y as u32, elem));
        return u64::from(narrowed(float_pair!(f, x, y), elem));
    }
    if elem == Elem::U64 {
        return bin_unsigned(f, x, y);
    }
    let (n, m) = (int(x, elem), int(y, elem));
    let (unsigned, bits) = (elem == Elem::U32, i64::from(elem.working_bits()));
    from_int(
        match f {
            Bin::Add => n.wrapping_add(m),
            Bin::Sub => n.wrapping_sub(m),
            Bin::Mul => n.wrapping_mul(m),
            // The hardware's integer division by zero gives all bits set.
            Bin::Div | Bin::Rem if m == 0 => {
                if f == Bin::Div {
                    -1
                } else {
                    n
                }
            }
            Bin::Div => n.wrapping_div(m),
            Bin::Rem => n.wrapping_rem(m),
            Bin::Min => n.min(m),
            Bin::Max => n.max(m),
            Bin::And => n & m,
            Bin::Or => n | m,
            Bin::Xor => n ^ m,
            // Shifts by all bits and more leave the sign alone.
            Bin::Shl => {
                if (0..bits).contains(&m) {
                    n << m
                } else {
                    0
                }
            }
            Bin::Shr if unsigned => {
                if (0..bits).contains(&m) {
                    n >> m
                } else {
                    0
                }
            }
            Bin::Shr => n >> if (0..bits).contains(&m) { m } else { bits - 1 },
            Bin::MulHigh => ((i128::from(n) * i128::from(m)) >> bits) as i64,
            // No integer has these.
            Bin::Pow | Bin::CopySign | Bin::FastDiv => n,
        },
        elem,
    )
}

/// A function of two integers of 64 bits without a sign.
fn bin_unsigned(f: Bin, n: u64, m: u64) -> u64 {
    match f {
        Bin::Add => n.wrapping_add(m),
        Bin::Sub => n.wrapping_sub(m),
        Bin::Mul => n.wrapping_mul(m),
        Bin::Div => n.checked_div(m).unwrap_or(u64::MAX),
        Bin::Rem => n.checked_rem(m).unwrap_or(n),
        Bin::Min => n.min(m),
        Bin::Max => n.max(m),
        Bin::And => n & m,
        Bin::Or => n | m,
        Bin::Xor => n ^ m,
        Bin::Shl => {
            if m < 64 {
                n << m
            } else {
                0
            }
        }
        Bin::Shr => {
            if m < 64 {
                n >> m
            } else {
                0
            }
        }
        Bin::MulHigh => ((u128::from(n) * u128::from(m)) >> 64) as u64,
        // No integer has these.
        Bin::Pow | Bin::CopySign | Bin::FastDiv => n,
    }
}

/// `x * y + z`, rounded once.
#[inline]
pub fn fma(x: u64, y: u64, z: u64, elem: Elem) -> u64 {
    match elem {
        Elem::F64 => f64::from_bits(x).mul_add(f64::from_bits(y), f64::from_bits(z)).to_bits(),
        Elem::F32 => u64::from(fmaf(x as u32, y as u32, z as u32)),
        Elem::Tf32 => {
            let [x, y, z] = [x, y, z].map(|bits| f64::from(f32::from_bits(bits as u32)));
            u64::from(narrow::tf32_bits(sum_to_odd(x * y, z)))
        }
        _ if elem.is_fp8() => {
            let [x, y, z] = [x, y, z].map(|bits| f64::from(fp8::value(bits as u8, elem)));
            // The product is exact, and the rounding error of the sum is far below the last bit.
            u64::from(fp8::bits(sum_to_odd(x * y, z), elem))
        }
        Elem::F16 | Elem::Bf16 => {
            let [x, y, z] = [x, y, z].map(|bits| f64::from(float(bits as u32, elem)));
            let sum = sum_to_odd(x * y, z);
            u64::from(if elem == Elem::F16 { narrow::f16_bits(sum) } else { narrow::bf16_bits(sum) })
        }
        _ => {
            let [x, y, z] = [x, y, z].map(|bits| int(bits, elem));
            from_int(x.wrapping_mul(y).wrapping_add(z), elem)
        }
    }
}

/// `fmaf`: the product of two floats is exact in double precision, and a sum rounded to odd there rounds to
/// the nearest float as the exact sum would (Boldo and Melquiond, 2008). Without the instruction, the
/// library's is far slower.
#[inline(always)]
pub fn fmaf(x: u32, y: u32, z: u32) -> u32 {
    let [x, y, z] = [x, y, z].map(|bits| f64::from(f32::from_bits(bits)));
    (sum_to_odd(x * y, z) as f32).to_bits()
}

/// A sum that is rounded to odd: where it is not exact, the neighbour whose last bit is set.
#[inline(always)]
fn sum_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    // The rounding error (Knuth).
    let back = sum - a;
    let lost = (a - (sum - back)) + (b - back);
    let bits = sum.to_bits();
    // Towards the rounding error, if there is one: away from zero where the signs agree.
    let away = (lost.to_bits() ^ bits) >> 63 == 0;
    let odd = if away { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    // Infinities and NaN have a NaN error, which is neither less nor greater.
    let inexact = (lost > 0.0) | (lost < 0.0);
    f64::from_bits(if inexact & (bits & 1 == 0) { odd } else { bits })
}

/// Compares two values of one type.
#[inline]
pub fn cmp(how: Cmp, x: u64, y: u64, elem: Elem) -> bool {
    if elem.is_float() {
        let (x, y) = (number(x, elem), number(y, elem));
        return match how {
            Cmp::Lt => x < y,
            Cmp::Le => x <= y,
            Cmp::Eq => x == y,
            Cmp::Ne => x != y,
        };
    }
    let (x, y) = (whole(x, elem), whole(y, elem));
    match how {
        Cmp::Lt => x < y,
        Cmp::Le => x <= y,
        Cmp::Eq => x == y,
        Cmp::Ne => x != y,
    }
}

/// Is it nonzero?
#[inline]
pub fn is_true(x: u64, elem: Elem) -> bool {
    if elem.is_float() { number(x, elem) != 0.0 } else { low(x, elem) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_up_to_float_has_fractions() {
        for elem in Elem::all().filter(|elem| elem.is_float() && *elem != Elem::F64) {
            assert_eq!(float(narrowed(0.5, elem), elem), 0.5, "{elem}");
            let [half, one] = [0.5, 1.0].map(|x| u64::from(narrowed(x, elem)));
            assert_eq!(fma(half, one, half, elem), one, "{elem}");
        }
    }

    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    #[test]
    fn fmaf_is_the_librarys() {
        let mut state = 1;
        let check = |x: u32, y: u32, z: u32| {
            let wanted = f32::from_bits(x).mul_add(f32::from_bits(y), f32::from_bits(z));
            let got = f32::from_bits(fmaf(x, y, z));
            assert!(
                got.to_bits() == wanted.to_bits() || got.is_nan() && wanted.is_nan(),
                "{x:#x} {y:#x} {z:#x}: {got:e}, and {wanted:e} is right"
            );
        };
        let edges: Vec<u32> =
            [0u32, 1, 0x7f_ffff, 0x80_0000, 0x3f80_0000, 0x3f80_0001, 0x7f7f_ffff, 0x7f80_0000]
                .into_iter()
                .chain([0x7fc0_0000, 0x3300_0000, 0x4b80_0001])
                .flat_map(|bits| [bits, bits | 0x8000_0000])
                .collect();
        for &x in &edges {
            for &y in &edges {
                for &z in &edges {
                    check(x, y, z);
                }
            }
        }
        for _ in 0..2_000_000 {
            let (x, y, mut z) =
                (random(&mut state) as u32, random(&mut state) as u32, random(&mut state) as u32);
            if z & 3 != 0 {
                // close to the product, where the last bits matter
                let product = f64::from(f32::from_bits(x)) * f64::from(f32::from_bits(y));
                z = (-product as f32).to_bits() ^ (z >> 2 & 0x8000_0001) ^ ((z >> 8 & 15) << 20);
            }
            check(x, y, z);
        }
    }

    /// An independent reference: in integers of 128 bits times a power of two, rounded to `bits` mantissa.
    fn exact_fma(x: f64, y: f64, z: f64, round: fn(f64) -> u16) -> Option<u16> {
        let part = |x: f64| {
            let bits = x.to_bits();
            let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i32, (bits & ((1 << 52) - 1)) as i128);
            let mantissa = fraction | 1 << 52;
            (
                if x == 0.0 {
                    0
                } else if x < 0.0 {
                    -mantissa
                } else {
                    mantissa
                },
                exponent - 1075,
            )
        };
        // narrow numbers: drop the zeros at the end
        let trim = |(mut n, mut e): (i128, i32)| {
            while n != 0 && n & 1 == 0 {
                (n, e) = (n >> 1, e + 1);
            }
            (n, e)
        };
        let (x, y, z) = (trim(part(x)), trim(part(y)), trim(part(z)));
        let product = (x.0 * y.0, x.1 + y.1);
        let low = product.1.min(z.1);
        if product.1 - low > 90 || z.1 - low > 90 {
            return None;
        }
        let sum = (product.0 << (product.1 - low)) + (z.0 << (z.1 - low));
        // to odd at 54 mantissa
        let (mut n, mut e) = (sum.unsigned_abs(), low);
        while n >> 54 != 0 {
            (n, e) = (n >> 1 | n & 1, e + 1);
        }
        let mut value = n as f64; // at most 54 mantissa, odd where bits were truncated: exact but for the last
        if n >> 53 != 0 {
            (n, e) = (n >> 1 | n & 1, e + 1);
            value = n as f64;
        }
        while e > 0 {
            (value, e) = (value * 2.0, e - 1);
        }
        while e < 0 {
            (value, e) = (value / 2.0, e + 1);
        }
        Some(round(if sum < 0 { -value } else { value }))
    }

    #[test]
    fn narrow_fma_rounds_once() {
        let mut state = 2;
        for _ in 0..400_000 {
            let bits = random(&mut state);
            let [x, y, z] = [bits as u16, (bits >> 16) as u16, (bits >> 32) as u16];
            for (elem, round) in
                [(Elem::F16, narrow::f16_bits as fn(f64) -> u16), (Elem::Bf16, narrow::bf16_bits)]
            {
                let [a, b, c] = [x, y, z].map(|bits| f64::from(float(u32::from(bits), elem)));
                if !(a.is_finite() && b.is_finite() && c.is_finite()) || a * b + c == 0.0 {
                    continue;
                }
                if let Some(wanted) = exact_fma(a, b, c, round) {
                    let got = fma(u64::from(x), u64::from(y), u64::from(z), elem);
                    assert_eq!(got, u64::from(wanted), "{elem}: {a:e} * {b:e} + {c:e}");
                }
            }
        }
    }

    #[test]
    fn conversions_of_every_narrow_number() {
        for bits in 0..=u16::MAX {
            for (elem, value) in
                [(Elem::F16, narrow::f16_value as fn(u16) -> f32), (Elem::Bf16, narrow::bf16_value)]
            {
                let (x, wide) = (value(bits), u64::from(bits));
                let single = f32::from_bits(cast(wide, elem, Elem::F32) as u32);
                assert!(single.to_bits() == x.to_bits() || single.is_nan() && x.is_nan());
                let back = if x.is_nan() { 0x7fff } else { wide };
                assert_eq!(cast(u64::from(x.to_bits()), Elem::F32, elem), back);
                assert_eq!(cast(f64::from(x).to_bits(), Elem::F64, elem), back);
                assert_eq!(cast(wide, elem, Elem::I32), u64::from((x as i32) as u32));
                assert_eq!(cast(wide, elem, Elem::U32), u64::from(x as u32));
                assert_eq!(cast(wide, elem, Elem::I8), u64::from((x as i8) as u8));
                assert_eq!(cast(wide, elem, Elem::U8), u64::from(x as u8));
            }
            for elem in [Elem::I8, Elem::U8] {
                let n = int(u64::from(bits as u8), elem);
                for to in [Elem::F16, Elem::Bf16, Elem::F32, Elem::F64] {
                    assert_eq!(number(cast(u64::from(bits as u8), elem, to), to), n as f64, "exact in {to}");
                }
            }
        }
    }

    #[track_caller]
    fn check_cast(bits: u64, from: Elem, to: Elem, wanted: u64) {
        assert_eq!(cast(bits, from, to), wanted, "{from} {bits:#x} to {to}");
    }

    #[test]
    fn conversions_at_the_edges() {
        use Elem::*;
        let f = |x: f32| u64::from(x.to_bits());
        for (x, int, byte, unsigned) in [
            (2.9f32, 2u32, 2u8, 2u32),
            (-2.9, -2i32 as u32, 0, 0),
            (300.0, 300, 255, 300),
            (-1e20, i32::MIN as u32, 0, 0),
            (1e20, i32::MAX as u32, 255, u32::MAX),
            (f32::NAN, 0, 0, 0),
            (f32::INFINITY, i32::MAX as u32, 255, u32::MAX),
        ] {
            check_cast(f(x), F32, I32, u64::from(int));
            check_cast(f(x), F32, U8, u64::from(byte));
            check_cast(f(x), F32, U32, u64::from(unsigned));
            check_cast(f64::from(x).to_bits(), F64, I32, u64::from(int));
        }
        check_cast(300, I32, U8, 44);
        check_cast(0x80, I8, I32, 0xffff_ff80);
        check_cast(u64::from(u32::MAX), U32, F32, f(4294967296.0));
        check_cast(16_777_217, I32, F32, f(16_777_216.0));
        check_cast(65_519, I32, F16, 0x7bff);
        check_cast(65_520, I32, F16, 0x7c00);
        // Through float it would be rounded twice, to 0x4b81.
        check_cast(0x0101_0001, I32, Bf16, 0x4b81);
        check_cast(0x0100_8001, I32, Bf16, 0x4b80);
        check_cast(f(f32::NAN), F32, F16, 0x7fff);
    }

    #[test]
    fn integers_wrap() {
        assert_eq!(bin(Bin::Add, 0x7f, 1, Elem::I8), 0x80);
        assert_eq!(bin(Bin::Mul, 0xffff_ffff, 0xffff_ffff, Elem::U32), 1);
        assert_eq!(bin(Bin::Sub, 0, 1, Elem::U8), 0xff);
        assert_eq!(bin(Bin::Shr, 0x8000_0000, 4, Elem::I32), 0xf800_0000);
        assert_eq!(bin(Bin::Shr, 0x8000_0000, 4, Elem::U32), 0x0800_0000);
        assert_eq!(un(Un::Not, false, 1, Elem::I32), 0xffff_fffe);
        assert_eq!(un(Un::Not, true, 1, Elem::I32), 0);
        assert_eq!(bin(Bin::Min, u64::from((-0.0f32).to_bits()), 0, Elem::F32), 0x8000_0000);
    }
}
