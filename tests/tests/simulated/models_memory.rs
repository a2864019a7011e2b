//! The memory-bound kernels of `examples/models`, compared with plain Rust in double precision: sizes that tiles do not divide,
//! rows at unaligned addresses, rows of one element. Gradients are compared with differences of losses.

use tilewright::KernelDef;
use tilewright::kernels::models::cross_entropy;
use tilewright::prelude::*;
use tilewright_sim::{Arg, Options, Outcome, run_every};
use tilewright_tests::number::{Number, Random};

/// Numbers between -1 and 1, which `T` represents.
fn numbers<T: Number>(count: usize, seed: u64) -> Vec<T> {
    let mut random = Random::new(seed);
    (0..count).map(|_| T::of((random.word() % 2001) as f64 / 1000.0 - 1.0)).collect()
}

fn wide<T: Number>(numbers: &[T]) -> Vec<f64> {
    numbers.iter().map(|x| x.to()).collect()
}

/// A matrix whose rows are `ld` elements apart.
fn rows(of: Arg, ld: usize) -> Arg {
    of.strides([ld, 1])
}

/// The outcomes of every variant.
#[track_caller]
fn outcomes(def: &KernelDef, args: &[Arg]) -> Vec<Outcome> {
    let kernel = def.generate().unwrap_or_else(|error| panic!("{error:?}"));
    let outcomes =
        run_every(&kernel, args, &Options::default()).unwrap_or_else(|fault| panic!("{}: {fault}", def.name()));
    assert!(!outcomes.is_empty(), "no variant of {} ran", def.name());
    outcomes
}

/// A result differs from the wanted numbers by at most `within`, relative to numbers greater than 1.
#[track_caller]
fn near<T: Number>(outcome: &Outcome, name: &str, wanted: &[f64], within: f64) {
    near_rows::<T>(outcome, name, wanted, [wanted.len(); 2], within);
}

/// [`near`], for rows of n elements that are `ld` apart.
#[track_caller]
fn near_rows<T: Number>(outcome: &Outcome, name: &str, wanted: &[f64], [n, ld]: [usize; 2], within: f64) {
    let got = wide(&outcome.get::<T>(name).unwrap());
    let got: Vec<f64> = got.chunks(ld).flat_map(|row| row[..n].to_vec()).collect();
    assert_eq!(got.len(), wanted.len(), "{name}");
    for (at, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        let is_near = (got - wanted).abs() <= within * wanted.abs().max(1.0);
        assert!(is_near, "variant {}: `{name}` at {at} is {got}, not {wanted}", outcome.variant() + 1);
    }
}

/// Losses and gradients of rows of logits; log Σ exp(x).
fn cross_entropies(x: &[f64], n: usize, labels: &[i64], smoothing: f64) -> [Vec<f64>; 3] {
    let mut results = [vec![], vec![], vec![]];
    for (x, label) in x.chunks_exact(n).zip(labels) {
        let most = x.iter().copied().fold(f64::MIN, f64::max);
        let lse = most + x.iter().map(|x| (x - most).exp()).sum::<f64>().ln();
        let valid = usize::try_from(*label).ok().filter(|label| *label < n && *label != IGNORED as usize);
        let target = |at| smoothing / n as f64 + if valid == Some(at) { 1.0 - smoothing } else { 0.0 };
        let loss = x.iter().enumerate().map(|(at, x)| target(at) * (lse - x)).sum();
        results[0].push(if valid.is_some() { loss } else { 0.0 });
        let slopes = x.iter().enumerate().map(|(at, x)| (x - lse).exp() - target(at));
        results[1].extend(slopes.map(|slope| if valid.is_some() { slope } else { 0.0 }));
        results[2].push(lse);
    }
    results
}

const IGNORED: i32 = 7;

/// Logits, whose rows are `ld` apart, with a large number between them, and labels of all kinds.
fn logits(m: usize, n: usize, ld: usize) -> (Vec<f64>, Vec<bf16>, Vec<i64>) {
    let mut x: Vec<bf16> = numbers(m * ld, 1);
    x.iter_mut().enumerate().filter(|(at, _)| at % ld >= n).for_each(|(_, x)| *x = bf16::of(1e30));
    x.iter_mut().step_by(5).for_each(|x| *x = bf16::of(8.0 * x.to()));
    let packed = x.chunks_exact(ld).flat_map(|row| wide(&row[..n])).collect();
    let labels = (0..m as i64).map(|i| [0, n as i64 - 1, -1, 1 << 40, IGNORED.into(), n as i64][i as usize % 6]);
    (packed, x, labels.collect())
}

#[test]
fn losses_of_rows() {
    for (m, n, ld, smoothing) in [(6, 300, 300, 0.1), (7, 1001, 1003, 0.0), (2, 1, 1, 0.1), (3, 9000, 9008, 0.1)] {
        let (packed, x, labels) = logits(m, n, ld);
        let [losses, slopes, lse] = cross_entropies(&packed, n, &labels, smoothing);
        let given = [Arg::number(smoothing as f32), Arg::number(IGNORED)];
        let label = Arg::tensor(&labels, [m]);
        let of_rows = || Arg::output::<f32>([m]);
        let memory = rows(Arg::tensor(&x, [m, n]), ld);
        let args = [&given[..], &[label.clone(), memory.clone(), of_rows(), of_rows()]].concat();
        for [l, c] in [[128, 1], [512, 1], [512, 4], [512, 8]] {
            let kernel = cross_entropy::cross_entropy().specialize(&[("L", l), ("C", c)]).unwrap();
            for outcome in outcomes(kernel.def(), &args) {
                near::<f32>(&outcome, "loss", &losses, 1e-5);
                near::<f32>(&outcome, "lse", &lse, 1e-5);
            }
        }
        let d: Vec<f32> = numbers(m, 2);
        let scaled: Vec<f64> = slopes.iter().enumerate().map(|(at, slope)| slope * d[at / n].to()).collect();
        let lse: Vec<f32> = lse.iter().map(|x| *x as f32).collect();
        let d_logits = rows(Arg::output::<bf16>([m, n]), ld);
        let rest = [label.clone(), Arg::tensor(&lse, [m]), Arg::tensor(&d, [m]), memory, d_logits];
        let args = [&given[..], &rest].concat();
        for outcome in outcomes(cross_entropy::cross_entropy_backward().def(), &args) {
            near_rows::<bf16>(&outcome, "d_logits", &scaled, [n, ld], 4e-3);
        }
        let halved: Vec<f64> = slopes.iter().map(|slope| slope / 2.0).collect();
        let args = [&given[..], &[Arg::number(0.5f32), label, rows(Arg::in_out(&x, [m, n]), ld), of_rows()]].concat();
        for [w, l, c] in [[1024, 128, 1], [4096, 256, 1], [8192, 256, 1], [16384, 512, 1], [16384, 512, 4]] {
            if n + 7 > w * c {
                continue;
            }
            let sizes = [("W", w), ("L", l), ("C", c)];
            let kernel = cross_entropy::cross_entropy_in_place().specialize(&sizes).unwrap();
            for outcome in outcomes(kernel.def(), &args) {
                near::<f32>(&outcome, "loss", &losses, 1e-5);
                near_rows::<bf16>(&outcome, "logits", &halved, [n, ld], 4e-3);
            }
        }
    }
}
