//! Element types as types of Rust. The list is closed: kernels read no other types.

#[doc(hidden)]
pub use crate::values::elem::Elem;
use crate::{values::fp8, values::narrow};

mod sealed {
    /// Seals the trait.
    pub trait Sealed {}
}

/// An element type of tensors.
///
/// ```
/// use tilewright_program::element::{Element, bf16};
/// assert_eq!(bf16::ELEM.name(), "bf16");
/// ```
pub trait Element: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The same as a value.
    const ELEM: Elem;
    /// Zero.
    const ZERO: Self;
    /// Its bits, in the low bits.
    fn to_raw(self) -> u64;
    /// The element of these bits; bits above its width are ignored.
    fn from_raw(bits: u64) -> Self;
}

/// The kernel's element types and the types expected where it is used: the compiler compares them, and
/// reports this if they differ.
#[diagnostic::on_unimplemented(
    message = "the elements of this kernel are `{Self}`, and a kernel of `{T}` is expected here",
    label = "write `dtype = {T}`"
)]
pub trait Elements<T>: sealed::Sealed + Send + Sync + 'static {}

/// A half-precision floating-point number, as its bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[allow(non_camel_case_types)]
#[repr(transparent)]
pub struct f16(u16);

/// A `bfloat16` number, as its bits: the upper half of an `f32`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[allow(non_camel_case_types)]
#[repr(transparent)]
pub struct bf16(u16);

/// An eight-bit floating-point number with four bits of exponent and three of fraction, as its bits. It has no infinity;
/// its greatest number is 448.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[allow(non_camel_case_types)]
#[repr(transparent)]
pub struct e4m3(u8);

/// An eight-bit floating-point number with five bits of exponent and two of fraction, as its bits: the upper half of an
/// [struct@f16]. Its greatest number is 57344.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[allow(non_camel_case_types)]
#[repr(transparent)]
pub struct e5m2(u8);

/// A number that tensor cores multiply when the operands are `f32`: an `f32` with ten bits of fraction, as
/// its bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[allow(non_camel_case_types)]
#[repr(transparent)]
pub struct tf32(u32);

/// The types that Rust does not have.
pub mod types {
    pub use super::{bf16, e4m3, e5m2, f16, tf32};
}

macro_rules! elements {
    ($($ty:ident $elem:ident $zero:expr, $to:expr, $from:expr;)*) => {
        $(
            impl sealed::Sealed for $ty {}
            impl Element for $ty {
                const ELEM: Elem = Elem::$elem;
                const ZERO: $ty = $zero;
                fn to_raw(self) -> u64 {
                    let to: fn($ty) -> u64 = $to;
                    to(self)
                }
                fn from_raw(bits: u64) -> $ty {
                    let from: fn(u64) -> $ty = $from;
                    from(bits)
                }
            }
        )*
    };
}

elements! {
    f64 F64 0.0, f64::to_bits, f64::from_bits;
    f32 F32 0.0, |x| u64::from(x.to_bits()), |bits| f32::from_bits(bits as u32);
    f16 F16 f16(0), |x| u64::from(x.0), |bits| f16(bits as u16);
    bf16 Bf16 bf16(0), |x| u64::from(x.0), |bits| bf16(bits as u16);
    i32 I32 0, |x| u64::from(x as u32), |bits| bits as i32;
    u32 U32 0, u64::from, |bits| bits as u32;
    i8 I8 0, |x| u64::from(x as u8), |bits| bits as i8;
    u8 U8 0, u64::from, |bits| bits as u8;
    i64 I64 0, i64::cast_unsigned, u64::cast_signed;
    u64 U64 0, |x| x, |bits| bits;
    i16 I16 0, |x| u64::from(x as u16), |bits| bits as i16;
    u16 U16 0, u64::from, |bits| bits as u16;
    bool Bool false, u64::from, |bits| bits & 0xff != 0;
    tf32 Tf32 tf32(0), |x| u64::from(x.0), |bits| tf32::from_bits(bits as u32);
    e4m3 E4m3 e4m3(0), |x| u64::from(x.0), |bits| e4m3(bits as u8);
    e5m2 E5m2 e5m2(0), |x| u64::from(x.0), |bits| e5m2(bits as u8);
}

/// An expression with the Rust type of an element type.
///
/// ```
/// use tilewright_program::{Elem, element::Element, with_element};
/// let bytes = |elem| with_element!(elem, T => size_of::<T>());
/// assert_eq!([Elem::Bf16, Elem::I64].map(bytes), [2, 8]);
/// assert!(with_element!(Elem::Bool, T => T::from_raw(1).to_raw() == 1));
/// ```
#[macro_export]
macro_rules! with_element {
    ($elem:expr, $T:ident => $body:expr) => {{
        macro_rules! with {
            ($ty:ty) => {{
                type $T = $ty;
                $body
            }};
        }
        match $elem {
            $crate::element::Elem::F64 => with!(f64),
            $crate::element::Elem::F32 => with!(f32),
            $crate::element::Elem::F16 => with!($crate::element::f16),
            $crate::element::Elem::Bf16 => with!($crate::element::bf16),
            $crate::element::Elem::I32 => with!(i32),
            $crate::element::Elem::U32 => with!(u32),
            $crate::element::Elem::I8 => with!(i8),
            $crate::element::Elem::U8 => with!(u8),
            $crate::element::Elem::Tf32 => with!($crate::element::tf32),
            $crate::element::Elem::E4m3 => with!($crate::element::e4m3),
            $crate::element::Elem::E5m2 => with!($crate::element::e5m2),
            $crate::element::Elem::I64 => with!(i64),
            $crate::element::Elem::U64 => with!(u64),
            $crate::element::Elem::I16 => with!(i16),
            $crate::element::Elem::U16 => with!(u16),
            $crate::element::Elem::Bool => with!(bool),
        }
    }};
}

// One impl for each: the compiler then shows the line of the impl that would have fitted.
impl Elements<f64> for f64 {}
impl Elements<f32> for f32 {}
impl Elements<f16> for f16 {}
impl Elements<bf16> for bf16 {}
impl Elements<i32> for i32 {}
impl Elements<u32> for u32 {}
impl Elements<i8> for i8 {}
impl Elements<u8> for u8 {}
impl Elements<i64> for i64 {}
impl Elements<u64> for u64 {}
impl Elements<i16> for i16 {}
impl Elements<u16> for u16 {}
impl Elements<bool> for bool {}
impl Elements<tf32> for tf32 {}
impl Elements<e4m3> for e4m3 {}
impl Elements<e5m2> for e5m2 {}

impl f16 {
    /// The number of these bits.
    pub const fn from_bits(bits: u16) -> f16 {
        f16(bits)
    }

    /// Its bits.
    pub const fn to_bits(self) -> u16 {
        self.0
    }

    /// The nearest number, ties to even.
    ///
    /// ```
    /// use tilewright_program::element::f16;
    /// assert_eq!(f16::from_f32(1.0 / 3.0).to_f32(), 0.33325195);
    /// ```
    pub fn from_f32(value: f32) -> f16 {
        let bits = value.to_bits();
        let (sign, magnitude) = ((bits >> 16) as u16 & 0x8000, bits & 0x7fff_ffff);
        let rounded = match magnitude {
            // not a number: keep the upper bits of the payload, and make it quiet
            0x7f80_0001.. => 0x7e00 | (magnitude >> 13) as u16 & 0x1ff,
            // 65520 and more rounds to infinity
            0x477f_f000.. => 0x7c00,
            // normal: drop 13 bits of the fraction and shift the exponent's bias from 127 to 15
            0x3880_0000.. => (nearest(magnitude, 13) - (112 << 10)) as u16,
            // subnormal: multiples of 2^-24
            0x3300_0000.. => {
                let (exponent, fraction) = (magnitude >> 23, magnitude & 0x007f_ffff | 0x0080_0000);
                nearest(fraction, 126 - exponent) as u16
            }
            _ => 0,
        };
        f16(sign | rounded)
    }

    /// The same number.
    pub fn to_f32(self) -> f32 {
        let (sign, magnitude) = (u32::from(self.0 & 0x8000) << 16, u32::from(self.0 & 0x7fff));
        let bits = match magnitude {
            0x7c00.. => 0x7f80_0000 | (magnitude & 0x3ff) << 13,
            0x0400.. => (magnitude << 13) + (112 << 23),
            _ => (magnitude as f32 / 16_777_216.0).to_bits(),
        };
        f32::from_bits(sign | bits)
    }
}

impl bf16 {
    /// The number of these bits.
    pub const fn from_bits(bits: u16) -> bf16 {
        bf16(bits)
    }

    /// Its bits.
    pub const fn to_bits(self) -> u16 {
        self.0
    }

    /// The nearest number, ties to even.
    ///
    /// ```
    /// use tilewright_program::element::bf16;
    /// assert_eq!(bf16::from_f32(1.0 / 3.0).to_f32(), 0.33398438);
    /// ```
    pub fn from_f32(value: f32) -> bf16 {
        let bits = value.to_bits();
        if value.is_nan() {
            return bf16((bits >> 16) as u16 | 0x40);
        }
        let (sign, magnitude) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
        bf16((sign | nearest(magnitude, 16)) as u16)
    }

    /// The same number.
    pub fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
}

macro_rules! eight_bits {
    ($ty:ident, $third:literal, $elem:expr) => {
        impl $ty {
            /// The number of these bits.
            pub const fn from_bits(bits: u8) -> $ty {
                $ty(bits)
            }

            /// Its bits.
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// The nearest number, ties to even. A greater number than the greatest becomes the greatest.
            ///
            /// ```
            #[doc = concat!("use tilewright_program::element::", stringify!($ty), ";")]
            #[doc = concat!("assert_eq!(", stringify!($ty), "::from_f32(1.0 / 3.0).to_f32(), ", $third, ");")]
            /// ```
            pub fn from_f32(value: f32) -> $ty {
                $ty(fp8::bits(f64::from(value), $elem))
            }

            /// The same number.
            pub fn to_f32(self) -> f32 {
                fp8::value(self.0, $elem)
            }
        }
    };
}

eight_bits!(e4m3, "0.34375", Elem::E4m3);
eight_bits!(e5m2, "0.3125", Elem::E5m2);

impl tf32 {
    /// The number with these bits of an `f32`. The lower 13 bits are ignored.
    pub const fn from_bits(bits: u32) -> tf32 {
        tf32(bits & 0xffff_e000)
    }

    /// Its bits.
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// The nearest number, ties away from zero.
    ///
    /// ```
    /// use tilewright_program::element::tf32;
    /// assert_eq!(tf32::from_f32(1.0 / 3.0).to_f32(), 0.33325195);
    /// ```
    pub fn from_f32(value: f32) -> tf32 {
        tf32::from_bits(narrow::tf32_bits(f64::from(value)))
    }

    /// The same number.
    pub fn to_f32(self) -> f32 {
        f32::from_bits(self.0)
    }
}

/// Drops bits and rounds to nearest, ties to even.
fn nearest(bits: u32, dropped: u32) -> u32 {
    let (kept, rest, half) = (bits >> dropped, bits & ((1 << dropped) - 1), 1 << (dropped - 1));
    kept + u32::from(rest > half || rest == half && kept & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_round_trip() {
        for bits in 0..=u16::MAX {
            let (half, brain) = (f16(bits), bf16(bits));
            if half.to_f32().is_nan() {
                assert!(f16::from_f32(half.to_f32()).to_f32().is_nan(), "{bits:#x}");
            } else {
                assert_eq!(f16::from_f32(half.to_f32()), half, "{bits:#x}");
            }
            if brain.to_f32().is_nan() {
                assert!(bf16::from_f32(brain.to_f32()).to_f32().is_nan(), "{bits:#x}");
            } else {
                assert_eq!(bf16::from_f32(brain.to_f32()), brain, "{bits:#x}");
            }
        }
    }

    /// Between two neighbours, the nearer; in the middle, the even one.
    #[test]
    fn numbers_between_round_to_the_nearest() {
        for bits in 0..0x7bff_u16 {
            let (low, high) = (f16(bits).to_f32(), f16(bits + 1).to_f32());
            let middle = (low + high) / 2.0;
            let even = if bits % 2 == 0 { bits } else { bits + 1 };
            assert_eq!(f16::from_f32(middle).to_bits(), even, "{middle}");
            assert_eq!(f16::from_f32(middle.next_down()).to_bits(), bits, "{middle}");
            assert_eq!(f16::from_f32(middle.next_up()).to_bits(), bits + 1, "{middle}");
            assert_eq!(f16::from_f32(-middle).to_bits(), even | 0x8000);
        }
        assert_eq!(f16::from_f32(65519.99).to_f32(), 65504.0);
        assert_eq!(f16::from_f32(65520.0).to_f32(), f32::INFINITY);
        assert_eq!(f16::from_f32(f32::MAX).to_f32(), f32::INFINITY);
        assert_eq!(bf16::from_f32(f32::MAX).to_f32(), f32::INFINITY);
        assert_eq!(bf16::from_f32(-1.003_907).to_f32(), -1.007_812_5);
    }
}
