//! Products by loops over all cores of the CPU, for machines without a GPU. This module knows values and strides; arguments
//! have been checked before.

use std::thread;

use tilewright_program::Elem;
use tilewright_program::number::{Number, value};

use super::host::{Host, Operands};
use super::operand::Modes;
use super::product::{Form, Product, Side, When};
use super::{Activation, Error};

/// Elements of a sum that are added side by side, so that the processor adds vectors.
const LANES: usize = 16;

/// Multiplies, and returns the number of threads.
pub(super) fn multiply(product: Product<'_, Host>) -> Result<usize, Error> {
    let Product { form, alpha, beta, mut operands } = product;
    let (_, mut c) = operands.remove(2);
    let modes = c.modes;
    let mut stored = c.values.bits();
    let threads = match form.elem.accumulator() {
        Elem::F64 => computed::<f64>(&form, [alpha, beta], &operands, modes, &mut stored),
        Elem::I32 | Elem::U32 => computed::<i32>(&form, [alpha, beta], &operands, modes, &mut stored),
        _ => computed::<f32>(&form, [alpha, beta], &operands, modes, &mut stored),
    };
    c.values.write(&mut stored.into_iter());
    Ok(threads)
}

/// A type of sums.
trait Sum: Copy + Send + Sync + 'static {
    const ZERO: Self;
    fn of(elem: Elem, bits: u64) -> Self;
    fn add_product(self, a: Self, b: Self) -> Self;
    fn add(self, other: Self) -> Self;
    /// Its value, which is exact.
    fn value(self) -> f64;
}

macro_rules! float {
    ($ty:ty) => {
        impl Sum for $ty {
            const ZERO: $ty = 0.0;
            fn of(elem: Elem, bits: u64) -> $ty {
                value(elem, bits) as $ty
            }
            fn add_product(self, a: $ty, b: $ty) -> $ty {
                self + a * b
            }
            fn add(self, other: $ty) -> $ty {
                self + other
            }
            fn value(self) -> f64 {
                f64::from(self)
            }
        }
    };
}

float!(f64);
float!(f32);

/// Sums of integers wrap around, as on a device. Sums of u32 have the same bits.
impl Sum for i32 {
    const ZERO: i32 = 0;
    fn of(elem: Elem, bits: u64) -> i32 {
        value(elem, bits) as i64 as i32
    }
    fn add_product(self, a: i32, b: i32) -> i32 {
        self.wrapping_add(a.wrapping_mul(b))
    }
    fn add(self, other: i32) -> i32 {
        self.wrapping_add(other)
    }
    fn value(self) -> f64 {
        f64::from(self)
    }
}

/// The bits of the nearest number. Sums of integers wrap around.
fn bits(elem: Elem, value: f64) -> u64 {
    let number = match elem {
        Elem::I32 | Elem::U32 => Number::Int((value as i64).into()),
        Elem::F64 | Elem::I8 | Elem::U8 => Number::Float(value),
        // As on a device, where sums are f32.
        _ => Number::Float((value as f32).into()),
    };
    number.bits(elem)
}

/// The offset of a coordinate.
fn offset(modes: &Modes, at: [usize; 3]) -> usize {
    at.iter().zip(modes.strides).map(|(at, stride)| at * stride as usize).sum()
}

/// An operand as sums: a row for each of its other mode's indices, along K, and so for each matrix of a batch.
fn rows<S: Sum>(operand: &Operands<'_>, along: usize) -> Vec<S> {
    let (modes, stored) = (operand.modes, operand.values.bits());
    let [rows, length, batch] = [modes.extents[1 - along], modes.extents[along], modes.extents[2]];
    let mut all = Vec::with_capacity((rows * length * batch) as usize);
    for matrix in 0..batch as usize {
        for row in 0..rows as usize {
            for k in 0..length as usize {
                let at = if along == 1 { [row, k, matrix] } else { [k, row, matrix] };
                all.push(S::of(modes.elem, stored[offset(&modes, at)]));
            }
        }
    }
    all
}

fn dot<S: Sum>(a: &[S], b: &[S]) -> S {
    let mut lanes = [S::ZERO; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            lanes[lane] = lanes[lane].add_product(a[lane], b[lane]);
        }
    }
    let rest = a_rest.iter().zip(b_rest).fold(S::ZERO, |sum, (a, b)| sum.add_product(*a, *b));
    lanes.into_iter().fold(rest, S::add)
}

/// The epilogue: numbers that multiply the sums or are added to them.
struct Epilogue<'e> {
    form: &'e Form,
    alpha: f64,
    beta: f64,
    vectors: Vec<(&'static str, Modes, Vec<u64>)>,
}

impl Epilogue<'_> {
    /// An element of another operand; `None` if there is none of this name.
    fn other(&self, name: &str, at: [usize; 3]) -> Option<f64> {
        let (_, modes, stored) = self.vectors.iter().find(|(known, ..)| *known == name)?;
        Some(value(modes.elem, stored[offset(modes, at)]))
    }

    /// An element of the result.
    fn at(&self, sum: f64, before: u64, [m, n, l]: [usize; 3]) -> u64 {
        let options = self.form.options;
        let scale = |name, at| self.other(name, [at, 0, 0]).unwrap_or(1.0);
        let mut x = sum * scale("scale_rows", m) * scale("scale_columns", n);
        if options.alpha_beta {
            x *= self.alpha;
            if self.beta != 0.0 {
                x += self.beta * value(self.form.out, before);
            }
        }
        x += match options.bias {
            Some(Side::Rows) => self.other("bias", [m, 0, 0]).unwrap_or(0.0),
            Some(Side::Columns) => self.other("bias", [n, 0, 0]).unwrap_or(0.0),
            None => 0.0,
        };
        let residual = self.other("residual", [m, n, l]).unwrap_or(0.0);
        if options.residual == Some(When::Before) {
            x += residual;
        }
        x = match options.activation {
            Some(Activation::Relu) => x.max(0.0),
            Some(Activation::Gelu) => gelu(x),
            Some(Activation::Silu) => x / (1.0 + (-x).exp()),
            None => x,
        };
        if options.residual == Some(When::After) {
            x += residual;
        }
        bits(self.form.out, x)
    }
}

/// x times the normal distribution at x, by Simpson's rule over the density: its error is below 1e-12.
fn gelu(x: f64) -> f64 {
    const STEPS: u32 = 128;
    let end = x.abs().min(9.0);
    let density = |t: f64| (-0.5 * t * t).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let step = end / f64::from(STEPS);
    let weight = |at: u32| match at {
        0 | STEPS => 1.0,
        at if at % 2 == 1 => 4.0,
        _ => 2.0,
    };
    let half: f64 =
        (0..=STEPS).map(|at| weight(at) * density(f64::from(at) * step)).sum::<f64>() * step / 3.0;
    x * (0.5 + half.copysign(x))
}

/// The elements of C, each at its index among the stored elements.
fn computed<S: Sum>(
    form: &Form,
    [alpha, beta]: [f64; 2],
    operands: &[(&'static str, Operands<'_>)],
    c: Modes,
    stored: &mut [u64],
) -> usize {
    let [(_, a), (_, b), others @ ..] = operands else { unreachable!("a product has two factors") };
    let [m, n, l] = c.extents.map(|extent| extent as usize);
    let k = a.modes.extents[1] as usize;
    let (a, b) = (rows::<S>(a, 1), rows::<S>(b, 0));
    let vectors = others.iter().map(|(name, other)| (*name, other.modes, other.values.bits())).collect();
    let epilogue = Epilogue { form, alpha, beta, vectors };
    let before = &*stored;
    let row = |at: usize| -> Vec<u64> {
        let (matrix, row) = (at / m, at % m);
        let a = &a[(matrix * m + row) * k..][..k];
        let column = |column: usize| {
            let b = &b[(matrix * n + column) * k..][..k];
            let at = [row, column, matrix];
            let sum = match epilogue.form.options.scale_blocks {
                true => scaled(&epilogue, a, b, at),
                false => dot(a, b).value(),
            };
            epilogue.at(sum, before[offset(&c, at)], at)
        };
        (0..n).map(column).collect()
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(m * l);
    let part = (m * l).div_ceil(threads);
    let some =
        |thread: usize| (thread * part..((thread + 1) * part).min(m * l)).map(&row).collect::<Vec<_>>();
    let some = &some;
    let all: Vec<Vec<u64>> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || some(thread))).collect();
        let first = some(0);
        let joined = others.into_iter().map(|thread| match thread.join() {
            Ok(rows) => rows,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        std::iter::once(first).chain(joined).flatten().collect()
    });
    for (at, row) in all.into_iter().enumerate() {
        for (column, element) in row.into_iter().enumerate() {
            stored[offset(&c, [at % m, column, at / m])] = element;
        }
    }
    threads
}

/// The sum of sums over 128 elements, each times the scales of its blocks.
fn scaled<S: Sum>(epilogue: &Epilogue<'_>, a: &[S], b: &[S], [m, n, _]: [usize; 3]) -> f64 {
    let blocks = a.chunks(128).zip(b.chunks(128)).enumerate();
    let scale = |name, at| epilogue.other(name, at).unwrap_or(1.0);
    blocks.fold(0.0, |sum, (block, (a, b))| {
        sum + dot(a, b).value() * scale("scale_a", [m, block, 0]) * scale("scale_b", [n / 128, block, 0])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gelu_is_x_times_the_normal_distribution() {
        let check = |x: f64, expected: f64| assert!((gelu(x) - expected).abs() < 1e-9, "{x}: {}", gelu(x));
        check(0.0, 0.0);
        check(1.0, 0.841_344_746_068_5);
        check(-1.0, -0.158_655_253_931_5);
        check(2.5, 2.484_475_836_6);
        check(-20.0, 0.0);
        check(20.0, 20.0);
    }

    #[test]
    fn numbers_keep_their_values() {
        for (elem, number) in [
            (Elem::F64, 0.1),
            (Elem::F32, 0.5),
            (Elem::F16, -2.0),
            (Elem::Bf16, 3.0),
            (Elem::I32, -7.0),
            (Elem::U32, 7.0),
            (Elem::I8, -128.0),
            (Elem::U8, 255.0),
            (Elem::Tf32, 1.5),
            (Elem::E4m3, 448.0),
            (Elem::E5m2, -0.25),
        ] {
            assert_eq!(value(elem, bits(elem, number)), number, "{elem}");
        }
    }
}
