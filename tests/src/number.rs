//! Elements of any type as numbers on the host, and as bits.

use tilewright::runtime::Stored;
use tilewright::{Elem, Element, bf16, e4m3, e5m2, f16, tf32};
pub use tilewright_fuzz::number::{bits, poison, value};

/// Element types as numbers.
pub trait Number: Element + Stored<Elem = Self> {
    /// The nearest element; integers out of range wrap.
    fn of(value: f64) -> Self;
    /// Its exact value.
    fn to(self) -> f64;
}

macro_rules! numbers {
    ($($ty:ty: $of:expr, $to:expr;)*) => {
        $(impl Number for $ty {
            fn of(value: f64) -> $ty {
                let of: fn(f64) -> $ty = $of;
                of(value)
            }
            fn to(self) -> f64 {
                let to: fn($ty) -> f64 = $to;
                to(self)
            }
        })*
    };
}

numbers! {
    f64: |x| x, |x| x;
    f32: |x| x as f32, f64::from;
    f16: |x| f16::from_f32(x as f32), |x| x.to_f32().into();
    bf16: |x| bf16::from_f32(x as f32), |x| x.to_f32().into();
    tf32: |x| tf32::from_f32(x as f32), |x| x.to_f32().into();
    e4m3: |x| e4m3::from_f32(x as f32), |x| x.to_f32().into();
    e5m2: |x| e5m2::from_f32(x as f32), |x| x.to_f32().into();
    i32: |x| x as i64 as i32, f64::from;
    u32: |x| x as i64 as u32, f64::from;
    i8: |x| x as i64 as i8, f64::from;
    u8: |x| x as i64 as u8, f64::from;
    i64: |x| x as i64, |x| x as f64;
    u64: |x| x as u64, |x| x as f64;
    i16: |x| x as i64 as i16, f64::from;
    u16: |x| x as i64 as u16, f64::from;
    bool: |x| x != 0.0, |x| f64::from(u8::from(x));
}

/// The nearest element's value.
pub fn rounded(elem: Elem, number: f64) -> f64 {
    value(elem, bits(elem, number))
}

/// Pseudo-random bits: xorshift.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A different sequence for each seed.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next 32 bits.
    pub fn word(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32
    }
}
