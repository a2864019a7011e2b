//! Elements as numbers of the host, and numbers that every type holds exactly.

use tilewright::runtime::Stored;
use tilewright::{Element, bf16, f16};

pub(crate) trait Number: Element + Stored<Elem = Self> {
    /// The nearest element; whole numbers beyond the range wrap.
    fn of(value: f64) -> Self;
    fn to(self) -> f64;
    /// What all bytes 255 are.
    fn is_poison(self) -> bool;
}

macro_rules! numbers {
    ($($ty:ty: $of:expr, $to:expr, $poison:expr;)*) => {
        $(impl Number for $ty {
            fn of(value: f64) -> $ty {
                let of: fn(f64) -> $ty = $of;
                of(value)
            }
            fn to(self) -> f64 {
                let to: fn($ty) -> f64 = $to;
                to(self)
            }
            fn is_poison(self) -> bool {
                let poison: fn($ty) -> bool = $poison;
                poison(self)
            }
        })*
    };
}

numbers! {
    f64: |x| x, |x| x, |x| x.to_bits() == u64::MAX;
    f32: |x| x as f32, f64::from, |x| x.to_bits() == u32::MAX;
    f16: |x| f16::from_f32(x as f32), |x| x.to_f32().into(), |x| x.to_bits() == u16::MAX;
    bf16: |x| bf16::from_f32(x as f32), |x| x.to_f32().into(), |x| x.to_bits() == u16::MAX;
    i32: |x| x as i64 as i32, f64::from, |x| x == -1;
    u32: |x| x as i64 as u32, f64::from, |x| x == u32::MAX;
    i8: |x| x as i64 as i8, f64::from, |x| x == -1;
    u8: |x| x as i64 as u8, f64::from, |x| x == u8::MAX;
}

/// Whole numbers from 0 to 16, as if at random.
pub(crate) fn whole(count: usize, seed: u64) -> Vec<i64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as i64 % 17
    };
    (0..count).map(|_| next()).collect()
}
