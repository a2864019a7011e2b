//! Random tensors that are the same at all ranks, and layers by plain loops in double precision.

use tilewright::parallel::Float;
use tilewright::{HostTensor, bf16, f16};

/// Elements of the checks.
pub(crate) trait Value: Float {
    /// The largest relative error of rounding to this type.
    const UNIT: f64;
    fn of(value: f64) -> Self;
    fn f64(self) -> f64;
}

/// The largest relative error of rounding to f32, in which all kernels compute.
pub(crate) const F32_UNIT: f64 = 1.0 / (1 << 24) as f64;

macro_rules! values {
    ($($ty:ty: $unit:expr, |$x:ident| $of:expr, |$y:ident| $to:expr;)*) => {
        $(impl Value for $ty {
            const UNIT: f64 = $unit;
            fn of($x: f64) -> $ty { $of }
            fn f64(self) -> f64 { let $y = self; $to }
        })*
    };
}

values! {
    f32: F32_UNIT, |x| x as f32, |y| f64::from(y);
    f16: 1.0 / 2048.0, |x| f16::from_f32(x as f32), |y| f64::from(y.to_f32());
    bf16: 1.0 / 256.0, |x| bf16::from_f32(x as f32), |y| f64::from(y.to_f32());
}

/// A generator of numbers: SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// A number below this one.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    /// A number from -1 to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    pub(crate) fn values<T: Value>(&mut self, count: usize) -> Vec<T> {
        (0..count).map(|_| T::of(self.unit())).collect()
    }

    pub(crate) fn matrix<T: Value>(&mut self, [rows, columns]: [usize; 2]) -> HostTensor<T, 2> {
        HostTensor::row_major([rows, columns], self.values(rows * columns))
            .expect("as many values as elements")
    }
}

pub(crate) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// 1 - erf(x): by the series of erf, or for large x by a continued fraction, where the series cancels.
fn erfc(x: f64) -> f64 {
    if x < -2.0 {
        return 2.0 - erfc(-x);
    }
    if x > 2.0 {
        let fraction = (1..80).rev().fold(x, |rest, n| x + f64::from(n) / 2.0 / rest);
        return (-x * x).exp() / fraction * std::f64::consts::FRAC_2_SQRT_PI / 2.0;
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..100 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    1.0 - sum * std::f64::consts::FRAC_2_SQRT_PI
}

pub(crate) fn gelu(x: f64) -> f64 {
    0.5 * x * erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

/// The largest slope of gelu and of silu.
pub(crate) const SLOPE: f64 = 1.13;

/// A sum of products.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sum {
    pub(crate) value: f64,
    /// The sum of the sizes of partial sums, one for each rank.
    pub(crate) partial: f64,
    /// The sum of the sizes of all terms.
    pub(crate) terms: f64,
    count: usize,
}

impl Sum {
    /// A bound of the error of accumulating in f32. Rounding errors of n additions are independent, so their sum is at most
    /// λ·√n·u·Σ|terms| with a probability near 1 for λ = 4 (Higham and Mary, 2019).
    pub(crate) fn error(&self) -> f64 {
        4.0 * (self.count as f64).sqrt() * F32_UNIT * self.terms
    }
}

/// x·wᵀ, with partial sums over these parts of the inputs.
pub(crate) fn linear<T: Value>(
    x: &HostTensor<T, 2>,
    w: &HostTensor<T, 2>,
    parts: &[std::ops::Range<usize>],
) -> Vec<Sum> {
    let ([rows, inputs], [outputs, _]) = (x.shape(), w.shape());
    let values = |of: &HostTensor<T, 2>| of.values().iter().map(|value| value.f64()).collect::<Vec<_>>();
    let (a, b) = (values(x), values(w));
    let mut y = Vec::with_capacity(rows * outputs);
    for i in 0..rows {
        for j in 0..outputs {
            let (a, b) = (&a[i * inputs..(i + 1) * inputs], &b[j * inputs..(j + 1) * inputs]);
            let mut sum = Sum { count: inputs, ..Sum::default() };
            for part in parts {
                let partial: f64 = part.clone().map(|k| a[k] * b[k]).sum();
                sum.value += partial;
                sum.partial += partial.abs();
                sum.terms += part.clone().map(|k| (a[k] * b[k]).abs()).sum::<f64>();
            }
            y.push(sum);
        }
    }
    y
}

/// The largest error of results as a multiple of its bound, of expected values and their bounds.
pub(crate) fn worst<T: Value>(results: &[T], expected: impl Iterator<Item = (f64, f64)>) -> f64 {
    let errors = results.iter().zip(expected).map(|(result, (expected, bound))| {
        let error = (result.f64() - expected).abs() / (bound + f64::from(f32::MIN_POSITIVE));
        if error.is_nan() { f64::INFINITY } else { error }
    });
    errors.fold(0.0, f64::max)
}
