//! Random tensors that are the same at all ranks, and layers by plain loops in double precision.

use tilewright::parallel::Float;
use tilewright::{HostTensor, bf16, f16};

/// Elements of the checks.
pub(crate) trait Value: Float {
    /// The error of rounding, relative.
    const EPSILON: f64;
    fn of(value: f64) -> Self;
    fn f64(self) -> f64;
}

macro_rules! values {
    ($($ty:ty: $epsilon:expr, |$x:ident| $of:expr, |$y:ident| $to:expr;)*) => {
        $(impl Value for $ty {
            const EPSILON: f64 = $epsilon;
            fn of($x: f64) -> $ty { $of }
            fn f64(self) -> f64 { let $y = self; $to }
        })*
    };
}

values! {
    f32: 1e-5, |x| x as f32, |y| f64::from(y);
    f16: 1.0 / 1024.0, |x| f16::from_f32(x as f32), |y| f64::from(y.to_f32());
    bf16: 1.0 / 128.0, |x| bf16::from_f32(x as f32), |y| f64::from(y.to_f32());
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

/// The error function, by its series.
fn erf(x: f64) -> f64 {
    if x.abs() > 5.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

pub(crate) fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))
}

/// x·wᵀ with the sum of the sizes of partial sums over these parts of the inputs.
pub(crate) fn linear<T: Value>(
    x: &HostTensor<T, 2>,
    w: &HostTensor<T, 2>,
    parts: &[std::ops::Range<usize>],
) -> Vec<(f64, f64)> {
    let ([rows, inputs], [outputs, _]) = (x.shape(), w.shape());
    let (a, b): (Vec<f64>, Vec<f64>) =
        (x.values().iter().map(|v| v.f64()).collect(), w.values().iter().map(|v| v.f64()).collect());
    let mut y = Vec::with_capacity(rows * outputs);
    for i in 0..rows {
        for j in 0..outputs {
            let (a, b) = (&a[i * inputs..(i + 1) * inputs], &b[j * inputs..(j + 1) * inputs]);
            let sums = parts.iter().map(|part| part.clone().map(|k| a[k] * b[k]).sum::<f64>());
            y.push(sums.fold((0.0, 0.0), |(sum, size), part| (sum + part, size + part.abs())));
        }
    }
    y
}

/// The largest error of results as a multiple of the bound; values are expected, each with the size of what was rounded on the way.
pub(crate) fn worst<T: Value>(actual: &[T], expected: impl Iterator<Item = (f64, f64)>) -> f64 {
    let errors = actual.iter().zip(expected).map(|(actual, (expected, size))| {
        let error = (actual.f64() - expected).abs() / (T::EPSILON * (expected.abs() + size) + 1e-9);
        if error.is_nan() { f64::INFINITY } else { error }
    });
    errors.fold(0.0, f64::max)
}
