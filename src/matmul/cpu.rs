//! Products by loops over all cores of the CPU, for machines without a GPU. Sums are added in another order than in a kernel; all
//! other results are equal to the simulator's. This module knows values and strides; arguments have been checked before.

use std::thread;

use tilewright_program::Elem;
use tilewright_program::arithmetic::{bin, cast, fma, int, is_true, number, un};
use tilewright_program::number::Number;
use tilewright_program::thread::{Bin, Un};

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
        Elem::I32 | Elem::U32 => computed::<u32>(&form, [alpha, beta], &operands, modes, &mut stored),
        _ => computed::<f32>(&form, [alpha, beta], &operands, modes, &mut stored),
    };
    c.values.write(&mut stored.into_iter());
    Ok(threads)
}

/// A type of sums.
trait Sum: Copy + Send + Sync + 'static {
    const ZERO: Self;
    fn from_element(elem: Elem, bits: u64) -> Self;
    fn add_product(self, a: Self, b: Self) -> Self;
    fn add(self, other: Self) -> Self;
    fn bits(self) -> u64;
}

macro_rules! float {
    ($ty:ty) => {
        impl Sum for $ty {
            const ZERO: $ty = 0.0;
            fn from_element(elem: Elem, bits: u64) -> $ty {
                number(bits, elem) as $ty
            }
            fn add_product(self, a: $ty, b: $ty) -> $ty {
                self + a * b
            }
            fn add(self, other: $ty) -> $ty {
                self + other
            }
            fn bits(self) -> u64 {
                self.to_bits().into()
            }
        }
    };
}

float!(f64);
float!(f32);

/// Sums of integers wrap around, as on a device. Those of i32 have the same bits.
impl Sum for u32 {
    const ZERO: u32 = 0;
    fn from_element(elem: Elem, bits: u64) -> u32 {
        int(bits, elem) as u32
    }
    fn add_product(self, a: u32, b: u32) -> u32 {
        self.wrapping_add(a.wrapping_mul(b))
    }
    fn add(self, other: u32) -> u32 {
        self.wrapping_add(other)
    }
    fn bits(self) -> u64 {
        self.into()
    }
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
                all.push(S::from_element(modes.elem, stored[offset(&modes, at)]));
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

/// The epilogue: the operations of the kernel's, in their order, on the bits of elements of the type in which it computes.
struct Epilogue<'e> {
    form: &'e Form,
    elem: Elem,
    alpha: u64,
    beta: u64,
    others: Vec<(&'static str, Modes, Vec<u64>)>,
}

/// A number, or an exact product: kernels compute `x * y + z` by one instruction.
#[derive(Clone, Copy)]
enum Term {
    Number(u64),
    Product(u64, u64),
}

impl Epilogue<'_> {
    /// An element of another operand; `None` if there is none of this name.
    fn other(&self, name: &str, at: [usize; 3]) -> Option<u64> {
        let (_, modes, stored) = self.others.iter().find(|(known, ..)| *known == name)?;
        Some(cast(stored[offset(modes, at)], modes.elem, self.elem))
    }

    fn two(&self, function: Bin, x: u64, y: u64) -> u64 {
        bin(function, x, y, self.elem)
    }

    /// `x` as a number.
    fn rounded(&self, x: Term) -> u64 {
        match x {
            Term::Number(x) => x,
            Term::Product(x, y) => self.two(Bin::Mul, x, y),
        }
    }

    fn times(&self, x: Term, factor: Option<u64>) -> Term {
        factor.map_or(x, |factor| Term::Product(self.rounded(x), factor))
    }

    fn add(&self, x: Term, other: Option<u64>) -> Term {
        other.map_or(x, |other| {
            Term::Number(match x {
                Term::Number(x) => self.two(Bin::Add, x, other),
                Term::Product(x, y) => fma(x, y, other, self.elem),
            })
        })
    }

    /// An element of the result.
    fn result(&self, sum: u64, before: u64, [m, n, l]: [usize; 3]) -> u64 {
        let (options, elem, out) = (self.form.options, self.elem, self.form.out);
        let mut x = Term::Number(cast(sum, self.form.elem.accumulator(), elem));
        x = self.times(x, options.alpha_beta.then_some(self.alpha));
        for (name, at) in [("scale_rows", m), ("scale_columns", n)] {
            x = self.times(x, self.other(name, [at, 0, 0]));
        }
        if is_true(self.beta, elem) {
            x = Term::Number(fma(self.beta, cast(before, out, elem), self.rounded(x), elem));
        }
        if let Some(side) = options.bias {
            x = self.add(x, self.other("bias", [if side == Side::Rows { m } else { n }, 0, 0]));
        }
        let residual = self.other("residual", [m, n, l]);
        x = self.add(x, residual.filter(|_| options.residual == Some(When::Before)));
        if let Some(function) = options.activation {
            x = Term::Number(self.activated(function, self.rounded(x)));
        }
        x = self.add(x, residual.filter(|_| options.residual == Some(When::After)));
        cast(self.rounded(x), elem, out)
    }

    fn activated(&self, function: Activation, x: u64) -> u64 {
        let one = |function, x| un(function, false, x, self.elem);
        match function {
            Activation::Relu => self.two(Bin::Max, x, 0),
            Activation::Gelu => one(Un::Gelu, x),
            Activation::Silu => {
                let decay = one(Un::Exp, one(Un::Neg, x));
                self.two(Bin::Div, x, self.two(Bin::Add, Number::from(1).bits(self.elem), decay))
            }
        }
    }
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
    let others = others.iter().map(|(name, other)| (*name, other.modes, other.values.bits())).collect();
    let elem = form.scaled();
    let [alpha, beta] = [alpha, beta].map(|factor| Number::from(factor).bits(elem));
    let epilogue = Epilogue { form, elem, alpha, beta, others };
    let before = &*stored;
    let row = |at: usize| -> Vec<u64> {
        let (matrix, row) = (at / m, at % m);
        let a = &a[(matrix * m + row) * k..][..k];
        let column = |column: usize| {
            let b = &b[(matrix * n + column) * k..][..k];
            let at = [row, column, matrix];
            let sum = match epilogue.form.options.scale_blocks {
                true => scaled(&epilogue, a, b, at),
                false => dot(a, b).bits(),
            };
            epilogue.result(sum, before[offset(&c, at)], at)
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
fn scaled<S: Sum>(epilogue: &Epilogue<'_>, a: &[S], b: &[S], [m, n, _]: [usize; 3]) -> u64 {
    let blocks = a.chunks(128).zip(b.chunks(128)).enumerate();
    blocks.fold(S::ZERO.bits(), |sum, (block, (a, b))| {
        let scale_a = epilogue.other("scale_a", [m, block, 0]);
        let scale_b = epilogue.other("scale_b", [n / 128, block, 0]);
        match scale_a.zip(scale_b) {
            Some((a_factor, b_factor)) => {
                fma(dot(a, b).bits(), epilogue.two(Bin::Mul, a_factor, b_factor), sum, epilogue.elem)
            }
            None => epilogue.two(Bin::Add, dot(a, b).bits(), sum),
        }
    })
}
