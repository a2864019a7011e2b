//! Random products of the one call: all types, options and layouts, with hostile numbers in operands and epilogues. A product is
//! computed in two ways, which must agree.

use tilewright::matmul::{Activation, As, Error, Factor, Host, HostTensor, Matmul, Out, Ran};
use tilewright::{bf16, e4m3, e5m2, f16, tf32};
use tilewright_program::number::greatest;

use crate::number::{Number, Random};

/// The numbers of a drawn product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Numbers {
    /// Small whole numbers: sums are exact.
    Whole,
    /// One hostile number in each row of A: infinities, NaN, huge and subnormal numbers. Sums are exact.
    Hostile,
    /// Sums are rounded.
    Real,
}

/// A product with M rows or fewer.
pub struct Drawn<T, U> {
    numbers: Numbers,
    sizes: [usize; 3],
    rows: [bool; 3],
    a: Vec<T>,
    b: Vec<T>,
    old: Vec<U>,
    bias: Option<Vec<U>>,
    residual: Option<(Vec<f32>, bool)>,
    scales: Option<[Vec<f64>; 2]>,
    factors: Option<[f64; 2]>,
    activation: Option<Activation>,
}

/// What is done with drawn products.
pub trait Check {
    /// Runs and compares.
    fn check<T: Factor + Number, U: Number>(&self, drawn: &Drawn<T, U>, message: &str);
}

/// The type in which an epilogue computes.
fn scaled<T: Factor + Number, U: Number>() -> tilewright::Elem {
    let acc = T::ELEM.accumulator();
    if acc.is_float() || acc == U::ELEM { acc } else { tilewright::Elem::F32 }
}

impl Numbers {
    fn hostile(random: &mut Random, most: f64) -> f64 {
        let all = [
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            0.0,
            -0.0,
            most,
            -most,
            most / 2.0,
            1e20,
            -1e20,
            1e-40,
            -1e-40,
            1e-45,
            1e-30,
            100.0,
            -100.0,
            88.75,
            -88.75,
            12.5,
            -12.5,
            -6.0,
            -5.5,
            0.5,
        ];
        all[random.word() as usize % all.len()]
    }

    fn small(random: &mut Random) -> f64 {
        f64::from(random.word() % 7) - 3.0
    }

    fn number(self, random: &mut Random, most: f64) -> f64 {
        match self {
            Numbers::Whole => Numbers::small(random),
            Numbers::Hostile if random.word().is_multiple_of(2) => Numbers::hostile(random, most),
            Numbers::Hostile => Numbers::small(random),
            Numbers::Real => f64::from(random.word()) / 2f64.powi(31) - 1.0,
        }
    }
}

impl<T: Factor + Number, U: Number> Drawn<T, U> {
    fn new(random: &mut Random, numbers: Numbers, sizes: [usize; 3]) -> Self {
        let [m, k, n] = sizes;
        let mut coin = || random.word().is_multiple_of(2);
        let rows = [coin(), coin(), coin()];
        let (has_bias, has_residual, after, has_scales, has_factors) =
            (coin(), coin(), coin(), coin(), coin());
        let most = if T::ELEM.is_float() { greatest(T::ELEM) } else { 4e9 };
        let mut a = vec![T::ZERO; m * k];
        for row in 0..m {
            let at = random.word() as usize % k;
            for column in 0..k {
                a[row * k + column] = match numbers {
                    Numbers::Hostile if T::ELEM.is_float() && column != at => T::ZERO,
                    Numbers::Hostile => T::of(Numbers::hostile(random, most)),
                    _ => T::of(numbers.number(random, most)),
                };
            }
        }
        let plain = if numbers == Numbers::Hostile { Numbers::Whole } else { numbers };
        let b = (0..k * n).map(|_| T::of(plain.number(random, most))).collect();
        let elem = scaled::<T, U>();
        let limit = if elem.is_float() { greatest(elem) } else { 4e9 };
        let mut vector =
            |length: usize| (0..length).map(|_| U::of(numbers.number(random, limit))).collect::<Vec<U>>();
        let (old, bias) = (vector(m * n), has_bias.then(|| vector(n)));
        let residual =
            has_residual.then(|| ((0..m * n).map(|_| numbers.number(random, limit) as f32).collect(), after));
        let scales = has_scales
            .then(|| [m, n].map(|length| (0..length).map(|_| numbers.number(random, limit)).collect()));
        // Factors that the type does not represent are refused.
        let factors = has_factors.then(|| match elem.is_float() {
            true => [0, 1].map(|_| numbers.number(random, limit)),
            false => [0, 1].map(|_| f64::from(random.word() % 4)),
        });
        let functions = [None, Some(Activation::Relu), Some(Activation::Gelu), Some(Activation::Silu)];
        let functions = if elem.is_float() { &functions[..] } else { &functions[..2] };
        let activation = functions[random.word() as usize % functions.len()];
        Drawn { numbers, sizes, rows, a, b, old, bias, residual, scales, factors, activation }
    }

    /// Multiply-adds of a row.
    pub fn row_work(&self) -> usize {
        self.sizes[1] * self.sizes[2]
    }

    /// The first rows of the result, row-major, and how they were computed.
    pub fn run(&self, host: &Host, m: usize) -> Result<(Ran, Vec<U>), Error> {
        match scaled::<T, U>() {
            tilewright::Elem::F64 => self.run_with::<f64>(host, m),
            tilewright::Elem::F32 => self.run_with::<f32>(host, m),
            tilewright::Elem::U32 => self.run_with::<u32>(host, m),
            _ => self.run_with::<i32>(host, m),
        }
    }

    fn run_with<S: Number>(&self, host: &Host, m: usize) -> Result<(Ran, Vec<U>), Error> {
        let [_, k, n] = self.sizes;
        let vector = |of: &[f64], length: usize| {
            HostTensor::column_major([length], of[..length].iter().map(|x| S::of(*x)).collect())
        };
        let a = tensor([m, k], self.rows[0], &self.a)?;
        let b = tensor([k, n], self.rows[1], &self.b)?;
        let mut c = tensor([m, n], self.rows[2], &self.old)?;
        let bias = self.bias.as_ref().map(|bias| HostTensor::column_major([n], bias.clone())).transpose()?;
        let residual = self.residual.as_ref().map(|(of, _)| tensor([m, n], self.rows[2], of)).transpose()?;
        let scales = match &self.scales {
            Some([rows, columns]) => Some([vector(rows, m)?, vector(columns, n)?]),
            None => None,
        };
        let mut product = Matmul::new().out::<U>();
        if let Some([alpha, beta]) = self.factors {
            product = product.alpha(alpha).beta(beta);
        }
        if let Some(bias) = &bias {
            product = product.bias(bias);
        }
        if let (Some(residual), Some((_, after))) = (&residual, &self.residual) {
            product =
                if *after { product.residual_after(residual) } else { product.residual_before(residual) };
        }
        if let Some([rows, columns]) = &scales {
            product = product.scale_rows(rows).scale_columns(columns);
        }
        if let Some(activation) = self.activation {
            product = product.activation(activation);
        }
        let ran = product.run_into(host, &a, &b, &mut c)?;
        Ok((ran, (0..m * n).map(|at| c.at([at / n, at % n])).collect()))
    }

    /// How an element of two results differs, if by more than the bound: (K + 8)·2⁻²² of the magnitudes of all terms where sums
    /// are rounded, and `slack` such units anywhere. 0 demands equal bits.
    pub fn difference(&self, [one, other]: [&[U]; 2], slack: f64) -> Option<String> {
        let [_, k, n] = self.sizes;
        let unit = if scaled::<T, U>() == tilewright::Elem::F64 { 2f64.powi(-51) } else { 2f64.powi(-22) };
        let terms = if self.numbers == Numbers::Real { k as f64 + 8.0 } else { 0.0 } + slack;
        one.iter().zip(other).enumerate().find_map(|(at, (one, other))| {
            let (x, y, magnitude) = (one.to(), other.to(), self.magnitude(at / n, at % n));
            // A device may add a term before it rounds.
            let overflows = slack > 0.0 && magnitude.is_finite() && magnitude > f64::from(f32::MAX);
            let equal = x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan() || overflows;
            let bound =
                terms * unit * magnitude.max(1.0) + step(terms, U::ELEM) * x.abs().max(y.abs()).max(1.0);
            let near = equal || terms > 0.0 && ((x - y).abs() <= bound || self.is_rounded_to_limit(x, y));
            (!near).then(|| {
                format!("{:?}: {x:e} and {y:e}, bound {bound:e}, magnitude {magnitude:e}", [at / n, at % n])
            })
        })
    }

    /// Types with few bits: a sum just below the greatest number may become infinite.
    fn is_rounded_to_limit(&self, x: f64, y: f64) -> bool {
        U::ELEM.is_float() && x.abs().min(y.abs()) >= greatest(U::ELEM) && x.signum() == y.signum()
    }

    /// The sum of the absolute values of all terms of an element.
    fn magnitude(&self, row: usize, column: usize) -> f64 {
        let [_, k, n] = self.sizes;
        let sum: f64 =
            (0..k).map(|at| (self.a[row * k + at].to() * self.b[at * n + column].to()).abs()).sum();
        let [alpha, beta] = self.factors.unwrap_or([1.0, 0.0]);
        let scale = self.scales.as_ref().map_or(1.0, |[rows, columns]| rows[row] * columns[column]);
        let old = if beta == 0.0 { 0.0 } else { beta * self.old[row * n + column].to() };
        let bias = self.bias.as_ref().map_or(0.0, |bias| bias[column].to());
        let residual = self.residual.as_ref().map_or(0.0, |(of, _)| f64::from(of[row * n + column]));
        (sum * alpha * scale).abs() + old.abs() + bias.abs() + residual.abs()
    }
}

/// The distance of two neighbours of a type, relative to their size, where results are rounded differently.
fn step(terms: f64, elem: tilewright::Elem) -> f64 {
    use tilewright::Elem::{Bf16, E4m3, E5m2, F16, F32, F64};
    match elem {
        _ if terms == 0.0 => 0.0,
        F64 | F32 => 0.0,
        F16 => 2f64.powi(-10),
        Bf16 => 2f64.powi(-7),
        E4m3 => 2f64.powi(-3),
        E5m2 => 2f64.powi(-2),
        _ => 1.0,
    }
}

/// A tensor of the first elements, with rows or columns contiguous.
fn tensor<E: Number>([m, n]: [usize; 2], rows: bool, of: &[E]) -> Result<HostTensor<E, 2>, Error> {
    match rows {
        true => HostTensor::row_major([m, n], of[..m * n].to_vec()),
        false => HostTensor::column_major([m, n], (0..m * n).map(|at| of[at % m * n + at / m]).collect()),
    }
}

/// The kinds of drawn products: pairs of an operand's type and a result's.
pub const PAIRS: u64 = 21;

/// Draws a product and checks it. The number of rows depends on the multiply-adds of a row.
pub fn check(seed: u64, rows: fn(usize) -> usize, check: &impl Check) {
    fn one<T: Factor + Number, U: Number>(seed: u64, rows: fn(usize) -> usize, check: &impl Check)
    where
        As<U>: Out<T, Elem = U>,
    {
        let mut random = Random::new(seed);
        let [k, n] = [20, 30].map(|most| 1 + random.word() as usize % most);
        let sizes = [rows(k * n), k, n];
        let numbers = [Numbers::Whole, Numbers::Hostile, Numbers::Real][(seed / PAIRS % 3) as usize];
        let drawn = Drawn::<T, U>::new(&mut random, numbers, sizes);
        let Drawn { factors, activation, scales, residual, bias, .. } = &drawn;
        let options = format!(
            "factors {factors:?}, {activation:?}, scales: {}, residual: {}, bias: {}",
            scales.is_some(),
            residual.is_some(),
            bias.is_some()
        );
        check.check(&drawn, &format!("{seed}: {} to {}, {numbers:?} {sizes:?}, {options}", T::ELEM, U::ELEM));
    }
    type Run<C> = fn(u64, fn(usize) -> usize, &C);
    let all: [Run<_>; PAIRS as usize] = [
        one::<f64, f64>,
        one::<f64, f32>,
        one::<f32, f32>,
        one::<f32, f16>,
        one::<f32, i32>,
        one::<f16, f16>,
        one::<f16, f32>,
        one::<bf16, bf16>,
        one::<bf16, f32>,
        one::<i32, i32>,
        one::<i32, f32>,
        one::<u32, u32>,
        one::<u32, f32>,
        one::<tf32, f32>,
        one::<i8, i32>,
        one::<i8, i8>,
        one::<i8, f16>,
        one::<u8, i32>,
        one::<u8, f32>,
        one::<e4m3, e4m3>,
        one::<e5m2, bf16>,
    ];
    all[(seed % PAIRS) as usize](seed, rows, check);
}
