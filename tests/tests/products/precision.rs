//! Products of f32 on tensor cores: errors against double precision, beside the errors of strict multiply-adds.

use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_sim::{Arg, Options, run_every};
use tilewright_tests::number::Random;
use tilewright_tests::sweep;

/// Rows and columns of C.
const ROWS: usize = 40;

/// Inputs on which sums are hard.
#[derive(Clone, Copy, Debug)]
enum Inputs {
    /// Between -1 and 1.
    Even,
    /// Positive: rounding errors of sums that grow do not cancel.
    Positive,
    /// Of 40 binary orders of magnitude.
    Wide,
    /// The second half of K cancels the first but for small differences.
    Cancelling,
    /// Large terms, whose sum cancels, among small ones.
    Spikes,
}

const ALL: [Inputs; 5] = [Inputs::Even, Inputs::Positive, Inputs::Wide, Inputs::Cancelling, Inputs::Spikes];

impl Inputs {
    /// A matrix of `ROWS` rows, K-major.
    fn matrix(self, k: usize, seed: u64, left: bool) -> Vec<f32> {
        let mut random = Random::new(seed);
        let mut even = || f64::from(random.word()) / 2f64.powi(31) - 1.0;
        let mut all = vec![0f32; ROWS * k];
        for row in 0..ROWS {
            for step in 0..k {
                let x = even();
                let half = k / 2;
                all[row * k + step] = match self {
                    Inputs::Even => x,
                    Inputs::Positive => x.abs() + 0.5,
                    Inputs::Wide => x * (even() * 20.0).exp2(),
                    Inputs::Cancelling if left && step >= half => {
                        -f64::from(all[row * k + step - half]) * (1.0 + x * 2f64.powi(-12))
                    }
                    Inputs::Cancelling if step >= half => f64::from(all[row * k + step - half]),
                    Inputs::Spikes if step % 64 == 0 => x.signum() * 1e4 + x,
                    Inputs::Cancelling | Inputs::Spikes => x,
                } as f32;
            }
        }
        all
    }
}

/// The greatest error of the elements of a result, as a fraction of |A|·|B|.
fn error(a: &[f32], b: &[f32], k: usize, c: impl Fn(usize, usize) -> f32) -> f64 {
    let mut most = 0f64;
    for row in 0..ROWS {
        for column in 0..ROWS {
            let terms = a[row * k..][..k].iter().zip(&b[column * k..][..k]);
            let terms = terms.map(|(a, b)| f64::from(*a) * f64::from(*b));
            let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()));
            most = most.max((f64::from(c(row, column)) - sum).abs() / size);
        }
    }
    most
}

/// The errors of a kernel in the simulator, the greatest of all variants.
fn simulated(keys: &str, a: &[f32], b: &[f32], k: usize) -> f64 {
    let keys = format!("bm=64 bn=64 a=k_major b=k_major {keys}");
    let kernel =
        Words::read(&keys).and_then(|words| words.matmul()).unwrap_or_else(|why| panic!("{keys}: {why}"));
    let rows = |x: &[f32]| Arg::tensor(x, [ROWS, k]).strides([k, 1]);
    let args = [rows(a), rows(b), Arg::output::<f32>([ROWS, ROWS])];
    let outcomes = run_every(&kernel, &args, &Options { races: false, ..Options::default() });
    let outcomes = outcomes.unwrap_or_else(|error| panic!("{keys}: {error}"));
    let errors = outcomes.iter().map(|outcome| {
        let c = outcome.get::<f32>("c").expect("a result");
        error(a, b, k, |row, column| c[row + column * ROWS])
    });
    errors.fold(0.0, f64::max)
}

/// The error of multiply-adds, one after the other, as threads do them.
fn strict(a: &[f32], b: &[f32], k: usize) -> f64 {
    error(a, b, k, |row, column| {
        (0..k).fold(0f32, |sum, step| a[row * k + step].mul_add(b[column * k + step], sum))
    })
}

#[test]
fn errors_of_three_products_are_bounded() {
    check_bounds("precision=f32x3", &[256, 512, 2048]);
}

/// Sums of 8 products, where a slot has more than 16 of K.
#[test]
fn errors_of_three_products_in_long_slots_are_bounded() {
    check_bounds("precision=f32x3 bk=32 stages=2", &[256, 512]);
}

/// Sums of 32 products, longer ones than by mma.sync, are promoted.
#[test]
fn errors_of_three_products_by_wgmma_are_bounded() {
    check_bounds("precision=f32x3 arch=90", &[256, 512]);
}

#[track_caller]
fn check_bounds(keys: &str, lengths: &[usize]) {
    for &k in sweep::share(lengths, 2) {
        for inputs in sweep::share(ALL, 4) {
            // The mean of a few matrices: the greatest error of one is a matter of luck, more so of short sums.
            let seeds = (2048 / k as u64).max(2);
            let (mut got, mut least) = (0.0, 0.0);
            for seed in 0..seeds {
                let (a, b) = (inputs.matrix(k, seed, true), inputs.matrix(k, seed + 100, false));
                let one = simulated(keys, &a, &b, k);
                // Less than the documented bound, which assumes that every term is cut off next to the greatest.
                let bound = (14.0 + k as f64 / 16.0) * 2f64.powi(-23);
                assert!(one <= bound, "{inputs:?}, K = {k}: {one:e}, and the bound is {bound:e}");
                got += one / seeds as f64;
                least += strict(&a, &b, k) / seeds as f64;
            }
            // A few terms dominate spikes, so strict sums round few times, and the lost parts of terms are visible.
            let allowed = if matches!(inputs, Inputs::Spikes) { 2f64.powi(-22) } else { least };
            assert!(got <= allowed, "{inputs:?}, K = {k}: {got:e}, and strict products have {least:e}");
        }
    }
}

#[test]
fn rounded_operands_have_eleven_bits() {
    for inputs in ALL {
        let k = 256;
        let (a, b) = (inputs.matrix(k, 7, true), inputs.matrix(k, 8, false));
        let got = simulated("precision=tf32", &a, &b, k);
        assert!(got <= 2f64.powi(-10), "{inputs:?}: {got:e}");
        assert!(got > strict(&a, &b, k), "{inputs:?}: {got:e} is too good to be rounded");
    }
}

#[test]
fn strict_is_the_default() {
    let kernel = |keys: &str| Words::read(keys).and_then(|words| words.matmul()).expect("a kernel");
    for keys in ["", "bm=128", "precision=strict"] {
        assert!(!kernel(keys).source().contains("mma_"), "{keys}");
    }
    for keys in ["precision=tf32 arch=80", "precision=f32x3 arch=80", "precision=f32x3 arch=90"] {
        assert!(kernel(keys).source().contains("mma_m16n8k8_tf32"), "{keys}");
    }
    let keys = "precision=f32x3 arch=90 a=k_major b=k_major";
    assert!(kernel(keys).source().contains("k8_ra_tf32"), "{keys}");
}
