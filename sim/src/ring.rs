//! Integers modulo a power of two instead of floating-point numbers: sums and products are exact, so that their order
//! makes no difference.
//!
//! A number has the same bits in each type, so conversions between floating-point types keep it: all of them have
//! the bits of the narrowest type of the kernel, but for one, which marks infinities and NaN. A mask by an infinity must
//! stay one, in every order of additions.
//!
//! Whole numbers are themselves. One half is an odd constant, and with it each binary fraction is a number; products of
//! fractions are exact, and sums differ from the fractions' sums. The exponential function is a power of an odd number,
//! so `exp(a + b) = exp(a) · exp(b)` as for real numbers. A quotient is a product with a function of the divisor. Any other
//! function is a hash of its operands, except at zero and at infinity. Numbers are ordered as signed integers.

use tilewright_program::Elem;
use tilewright_program::number;
use tilewright_program::thread::{Bin, Cmp, Kernel, Param, Un};

use crate::value;

/// The ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    /// Its numbers are those below 2 to this power; the next bit marks infinities and NaN.
    bits: u32,
}

/// An odd number, which stands for one half.
const HALF: u64 = 0x9e37_79b9_7f4a_7c15;
/// Odd numbers whose powers `exp` and `exp2` are.
const EXP: u64 = 5;
const EXP2: u64 = 13;
/// Numbers from this magnitude on stand for infinity: authors mask by them.
const LARGE: f64 = 1e18;
/// Finite numbers from this magnitude on, such as `f32::MIN`, bound all others, and their difference from infinity is infinite.
const LARGEST: f64 = 3e38;

const NAN: u64 = 0;
const POSITIVE: u64 = 1;
const NEGATIVE: u64 = 2;

impl Ring {
    /// The ring of a kernel: of the programs of all its variants, so that their results can be compared.
    pub(crate) fn of<'k>(programs: impl Iterator<Item = &'k Kernel>) -> Ring {
        let types = |program: &'k Kernel| {
            let params = program.params.iter().filter_map(|param| match param {
                Param::Pointer { elem, .. } | Param::Scalar { elem, .. } | Param::Workspace { elem, .. } => {
                    Some(*elem)
                }
                _ => None,
            });
            let shared = program.shared.iter().map(|array| array.elem);
            params.chain(shared).chain(program.regs.iter().map(|reg| reg.elem))
        };
        let narrowest = programs.flat_map(types).filter(|elem| elem.is_float()).map(|elem| elem.bits()).min();
        Ring { bits: narrowest.unwrap_or(32) - 1 }
    }

    fn mask(self) -> u64 {
        (1 << self.bits) - 1
    }

    fn is_special(self, x: u64) -> bool {
        x >> self.bits & 1 == 1
    }

    fn special(self, code: u64) -> u64 {
        1 << self.bits | code
    }

    /// A number as a signed integer.
    fn signed(self, x: u64) -> i64 {
        let unused = 64 - self.bits;
        (x << unused).cast_signed() >> unused
    }

    /// A real number that behaves as this one does beside infinities and NaN.
    fn real(self, x: u64) -> f64 {
        if !self.is_special(x) {
            return self.signed(x) as f64;
        }
        match x & self.mask() {
            POSITIVE => f64::INFINITY,
            NEGATIVE => f64::NEG_INFINITY,
            _ => f64::NAN,
        }
    }

    /// The number that stands for a real one.
    pub(crate) fn number(self, x: f64) -> u64 {
        if x.is_nan() {
            return self.special(NAN);
        }
        if x.is_finite() && x.abs() >= LARGEST {
            let most = self.mask() >> 1;
            return if x > 0.0 { most } else { most + 1 };
        }
        if x.abs() >= LARGE {
            return self.special(if x > 0.0 { POSITIVE } else { NEGATIVE });
        }
        if x == 0.0 {
            return 0;
        }
        let (bits, least) = (x.abs().to_bits(), -1074);
        let (exponent, fraction) = ((bits >> 52) as i32, bits & ((1 << 52) - 1));
        let (mantissa, power) =
            if exponent == 0 { (fraction, least) } else { (fraction | 1 << 52, least + exponent - 1) };
        let zeros = mantissa.trailing_zeros();
        let (mantissa, power) = (mantissa >> zeros, power + zeros as i32);
        let magnitude = match power {
            0.. => mantissa << power,
            _ => mantissa.wrapping_mul(power_of(HALF, power.unsigned_abs().into())),
        };
        (if x < 0.0 { magnitude.wrapping_neg() } else { magnitude }) & self.mask()
    }

    /// The number that stands for an element.
    pub(crate) fn element(self, bits: u64, elem: Elem) -> u64 {
        if elem.is_float() { self.number(value::number(bits, elem)) } else { bits }
    }

    pub(crate) fn integer(self, n: i64) -> u64 {
        n.cast_unsigned() & self.mask()
    }

    pub(crate) fn to_int(self, x: u64, elem: Elem) -> u64 {
        let (least, most) = number::range(elem);
        let n = match self.is_special(x) {
            false => self.signed(x).into(),
            true => match x & self.mask() {
                POSITIVE => most,
                NEGATIVE => least,
                _ => 0,
            },
        };
        value::from_int(n.clamp(least, most) as i64, elem)
    }

    /// Between types, at least one a floating-point type.
    pub(crate) fn cast(self, x: u64, from: Elem, to: Elem) -> u64 {
        match (from.is_float(), to.is_float()) {
            (true, true) => x,
            (false, _) => self.integer(value::whole(x, from) as i64),
            (true, false) => self.to_int(x, to),
        }
    }

    /// Real numbers that behave as two factors do, where infinities and NaN take part. Only whole numbers have the sign
    /// that they stand for: beside another factor an infinity keeps its sign.
    fn factors(self, x: u64, y: u64) -> [f64; 2] {
        let one = |of: u64, other: u64| match self.signed(of) {
            n if self.is_special(of) || n == 0 || !self.is_special(other) => self.real(of),
            n if n.unsigned_abs() < 1 << (self.bits / 2) => n as f64,
            _ => 1.0,
        };
        [one(x, y), one(y, x)]
    }

    pub(crate) fn fma(self, x: u64, y: u64, z: u64) -> u64 {
        if self.is_special(x | y | z) {
            let [x, y] = self.factors(x, y);
            return self.number(x * y + self.real(z));
        }
        x.wrapping_mul(y).wrapping_add(z) & self.mask()
    }

    /// The factor by which a quotient is a product: the inverse of an odd number.
    fn inverse(self, x: u64) -> u64 {
        let zeros = x.trailing_zeros();
        let odd = x >> zeros;
        // Newton's iteration doubles the correct bits, and an odd number is its own inverse modulo 8.
        let inverse = (0..5).fold(odd, |y, _| y.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(y))));
        inverse.wrapping_mul(power_of(HALF, zeros.into())) & self.mask()
    }

    fn hash(self, function: u64, x: u64, y: u64) -> u64 {
        let mix = |z: u64| {
            let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        };
        mix(mix(mix(function.wrapping_add(HALF)) ^ x) ^ y.wrapping_add(HALF)) & self.mask()
    }

    pub(crate) fn un(self, f: Un, x: u64) -> u64 {
        let f = if let Un::Fast(fast) = f { fast.exact() } else { f };
        let signed = self.signed(x);
        match f {
            Un::Apart | Un::CountOnes | Un::LeadingZeros => x,
            Un::Not => u64::from(x == 0),
            _ if self.is_special(x) || x == 0 => self.number(value::un_double(f, self.real(x))),
            Un::Neg => signed.wrapping_neg().cast_unsigned() & self.mask(),
            Un::Abs => signed.wrapping_abs().cast_unsigned() & self.mask(),
            Un::Exp => power_of(EXP, x) & self.mask(),
            Un::Exp2 => power_of(EXP2, x) & self.mask(),
            Un::Recip => self.inverse(x),
            _ => self.hash(name(f), x, 0),
        }
    }

    pub(crate) fn bin(self, f: Bin, x: u64, y: u64) -> u64 {
        let (n, m) = (self.signed(x), self.signed(y));
        // One of both, not its value as a floating-point number, which is rounded.
        if let (Bin::Min | Bin::Max, true) = (f, self.is_special(x | y)) {
            let is_nan = |x: u64| x == self.special(NAN);
            let takes_first = is_nan(y) || !is_nan(x) && self.cmp(Cmp::Lt, x, y) == (f == Bin::Min);
            return if takes_first { x } else { y };
        }
        let is_quotient = matches!(f, Bin::Div | Bin::FastDiv);
        if self.is_special(x | y) && !is_quotient || matches!((f, m), (Bin::Rem | Bin::Pow, 0)) {
            let [x, y] = match f {
                Bin::Mul => self.factors(x, y),
                _ => [x, y].map(|of| self.real(of)),
            };
            return self.number(f64::from_bits(value::bin(f, x.to_bits(), y.to_bits(), Elem::F64)));
        }
        let number = |n: i64| n.cast_unsigned() & self.mask();
        match f {
            Bin::Add => number(n.wrapping_add(m)),
            Bin::Sub => number(n.wrapping_sub(m)),
            Bin::Mul => number(n.wrapping_mul(m)),
            Bin::Div | Bin::FastDiv => self.bin(Bin::Mul, x, self.un(Un::Recip, y)),
            Bin::Min => number(n.min(m)),
            Bin::Max => number(n.max(m)),
            Bin::CopySign => number(if m < 0 { -n.abs() } else { n.wrapping_abs() }),
            Bin::Pow if m == 1 => x,
            Bin::Pow if m == 2 => number(n.wrapping_mul(n)),
            Bin::Rem => self.hash(1, x, y),
            Bin::Pow => self.hash(2, x, y),
            // No floating-point number has these.
            Bin::And | Bin::Or | Bin::Xor | Bin::Shl | Bin::Shr | Bin::MulHigh => x,
        }
    }

    pub(crate) fn cmp(self, how: Cmp, x: u64, y: u64) -> bool {
        let key = |x: u64| match (self.is_special(x), x & self.mask()) {
            (false, _) => Some(i128::from(self.signed(x))),
            (true, POSITIVE) => Some(i128::MAX),
            (true, NEGATIVE) => Some(i128::MIN),
            (true, _) => None,
        };
        let (Some(x), Some(y)) = (key(x), key(y)) else { return how == Cmp::Ne };
        match how {
            Cmp::Lt => x < y,
            Cmp::Le => x <= y,
            Cmp::Eq => x == y,
            Cmp::Ne => x != y,
        }
    }
}

/// A power of a number modulo 2 to the power of 64.
fn power_of(base: u64, mut exponent: u64) -> u64 {
    let (mut power, mut square) = (1u64, base);
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = power.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        exponent >>= 1;
    }
    power
}

/// A number for each function that is a hash.
fn name(f: Un) -> u64 {
    format!("{f:?}").bytes().fold(3, |name, letter| name * 31 + u64::from(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RINGS: [Ring; 4] = [Ring { bits: 7 }, Ring { bits: 15 }, Ring { bits: 31 }, Ring { bits: 63 }];

    /// Three numbers, and infinities and NaN among them.
    fn triples(ring: Ring) -> impl Iterator<Item = [u64; 3]> {
        (0..2000).map(move |seed| {
            [0, 1, 2].map(|of| match ring.hash(seed, of, 0) {
                x if ring.hash(seed, of, 1).is_multiple_of(16) => ring.special(x % 3),
                x => x,
            })
        })
    }

    #[test]
    fn sums_products_and_maxima_have_no_order() {
        for ring in RINGS {
            for [x, y, z] in triples(ring).filter(|all| all.iter().all(|&x| !ring.is_special(x))) {
                for f in [Bin::Add, Bin::Mul, Bin::Min, Bin::Max] {
                    assert_eq!(ring.bin(f, x, y), ring.bin(f, y, x));
                    assert_eq!(ring.bin(f, ring.bin(f, x, y), z), ring.bin(f, x, ring.bin(f, y, z)), "{f:?}");
                }
                let sum = ring.bin(Bin::Add, x, y);
                let products = [x, y].map(|of| ring.bin(Bin::Mul, of, z));
                assert_eq!(ring.bin(Bin::Mul, sum, z), ring.bin(Bin::Add, products[0], products[1]));
                assert_eq!(ring.fma(x, y, z), ring.bin(Bin::Add, ring.bin(Bin::Mul, x, y), z));
                for f in [Un::Exp, Un::Exp2] {
                    let [a, b] = [x, y].map(|of| ring.un(f, of));
                    assert_eq!(ring.un(f, sum), ring.bin(Bin::Mul, a, b), "{f:?}");
                }
                assert_eq!(ring.bin(Bin::Div, x, z), ring.bin(Bin::Mul, x, ring.un(Un::Recip, z)));
            }
        }
    }

    #[test]
    fn infinities_stay_what_they_are() {
        for ring in RINGS {
            let [least, most] = [f64::NEG_INFINITY, f64::INFINITY].map(|x| ring.number(x));
            assert_eq!(ring.number(-1e30), least);
            let lowest = ring.number(f32::MIN.into());
            assert_eq!(ring.un(Un::Exp, ring.bin(Bin::Sub, least, lowest)), 0);
            for [x, y, _] in triples(ring).filter(|[x, y, _]| !ring.is_special(x | y)) {
                assert_eq!(ring.bin(Bin::Add, least, x), least);
                assert_eq!(ring.bin(Bin::Max, least, x), x);
                assert_eq!(ring.bin(Bin::Max, lowest, x), x);
                assert_eq!(ring.un(Un::Exp, ring.bin(Bin::Sub, least, x)), 0);
                assert_eq!(ring.fma(least, ring.number(std::f64::consts::LOG2_E), x), least);
                assert_eq!(ring.bin(Bin::Mul, least, ring.integer(-1)), most);
                assert!(ring.cmp(Cmp::Lt, least, x) && ring.cmp(Cmp::Lt, x, most));
                assert_eq!(ring.cmp(Cmp::Lt, x, y), ring.bin(Bin::Min, x, y) == x && x != y, "{x} {y}");
            }
            let nan = ring.bin(Bin::Sub, most, most);
            assert!(ring.cmp(Cmp::Ne, nan, nan) && !ring.cmp(Cmp::Le, nan, nan));
        }
    }

    #[test]
    fn whole_numbers_stand_for_themselves() {
        for ring in RINGS {
            for n in -64..64 {
                let x = ring.number(n as f64);
                assert_eq!((x, ring.signed(x)), (ring.integer(n), n));
                for elem in [Elem::F16, Elem::F32, Elem::F64] {
                    assert_eq!(ring.cast(value::from_int(n, Elem::I8), Elem::I8, elem), x);
                    assert_eq!(value::int(ring.cast(x, elem, Elem::I8), Elem::I8), n);
                }
                if n % 2 != 0 {
                    assert_eq!(ring.number(n as f64 / 8.0), ring.bin(Bin::Div, x, ring.number(8.0)));
                }
            }
            assert_eq!(ring.bin(Bin::Mul, ring.number(0.75), ring.number(1.5)), ring.number(1.125));
        }
    }

    #[test]
    fn an_odd_divisor_has_an_inverse() {
        for ring in RINGS {
            for [x, y, _] in triples(ring).filter(|[x, y, _]| !ring.is_special(x | y) && y % 2 == 1) {
                assert_eq!(ring.bin(Bin::Mul, ring.bin(Bin::Div, x, y), y), x);
            }
        }
    }
}
