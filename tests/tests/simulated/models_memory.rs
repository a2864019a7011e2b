//! The memory-bound kernels of `examples/models`, compared with their text or with plain Rust in double precision: sizes that tiles do
//! not divide, rows at unaligned addresses, rows of one element. Gradients are compared with differences of losses.

use tilewright::KernelDef;
use tilewright::kernels::models::{
    adamw, conv1d, cross_entropy, dropout, embed_backward, gated, gated_linear_attention, norm_gradients,
    norms, rope, sample, selective_scan,
};
use tilewright::prelude::*;
use tilewright_fuzz::near;
use tilewright_sim::{Arg, Options, Outcome, run_every};
use tilewright_tests::number::{Number, Random};

use crate::inputs;

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
    let outcomes = run_every(&kernel, args, &Options::default())
        .unwrap_or_else(|fault| panic!("{}: {fault}", def.name()));
    assert!(!outcomes.is_empty(), "no variant of {} ran", def.name());
    outcomes
}

/// The outcomes of every variant, which are also compared with the kernel's text if outputs have no gaps. The evaluation of texts does not
/// know all of the language.
#[track_caller]
fn written_outcomes(def: &KernelDef, args: &[Arg], has_gaps: bool) -> Vec<Outcome> {
    if !has_gaps {
        near(def, args, 1e-2);
    }
    outcomes(def, args)
}

/// A result differs from the wanted numbers by at most `within`, relative to numbers greater than 1.
#[track_caller]
fn agrees<T: Number>(outcome: &Outcome, name: &str, wanted: &[f64], within: f64) {
    agrees_rows::<T>(outcome, name, wanted, [wanted.len(); 2], within);
}

/// [`agrees`], for rows of n elements that are `ld` apart.
#[track_caller]
fn agrees_rows<T: Number>(outcome: &Outcome, name: &str, wanted: &[f64], [n, ld]: [usize; 2], within: f64) {
    let got = wide(&outcome.get::<T>(name).unwrap());
    let got: Vec<f64> = got.chunks(ld).flat_map(|row| row[..n].to_vec()).collect();
    assert_eq!(got.len(), wanted.len(), "{name}");
    for (at, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        let is_near = (got - wanted).abs() <= within * wanted.abs().max(1.0);
        assert!(is_near, "variant {}: `{name}` at {at} is {got}, not {wanted}", outcome.variant() + 1);
    }
}

/// Numbers whose rows are `ld` apart, with a large number between them, and the same without.
fn matrix<T: Number>([m, n, ld]: [usize; 3], seed: u64) -> (Vec<T>, Vec<f64>) {
    let mut all: Vec<T> = numbers((m - 1) * ld + n, seed);
    all.iter_mut().enumerate().filter(|(at, _)| at % ld >= n).for_each(|(_, x)| *x = T::of(1e4));
    let packed = all.chunks(ld).flat_map(|row| wide(&row[..n])).collect();
    (all, packed)
}

/// The gradient of a function by central differences.
fn gradient(x: &[f64], function: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let step = 1e-4;
    let moved = |at: usize, by: f64| {
        let mut x = x.to_vec();
        x[at] += by;
        function(&x)
    };
    (0..x.len()).map(|at| (moved(at, step) - moved(at, -step)) / (2.0 * step)).collect()
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
    let (x, packed) = matrix::<bf16>([m, n, ld], 1);
    let x = x.into_iter().map(|x| bf16::of(8.0 * x.to())).collect();
    let packed = packed.into_iter().map(|x| 8.0 * x).collect();
    let labels =
        (0..m as i64).map(|i| [0, n as i64 - 1, -1, 1 << 40, IGNORED.into(), n as i64][i as usize % 6]);
    (packed, x, labels.collect())
}

#[test]
fn losses_of_rows() {
    for (m, n, ld, smoothing) in
        [(6, 300, 300, 0.1), (7, 1001, 1003, 0.0), (2, 1, 1, 0.1), (3, 9000, 9008, 0.1)]
    {
        let (packed, x, labels) = logits(m, n, ld);
        let [losses, slopes, lse] = cross_entropies(&packed, n, &labels, smoothing);
        let given = [Arg::number(smoothing as f32), Arg::number(IGNORED)];
        let label = Arg::tensor(&labels, [m]);
        let of_rows = || Arg::output::<f32>([m]);
        let memory = rows(Arg::tensor(&x, [m, n]), ld);
        let args = [&given[..], &[label.clone(), memory.clone(), of_rows(), of_rows()]].concat();
        for l in [64, 128, 256, 1024] {
            let constants = [("L", l), ("LEAST", 1), ("MOST", 1 << 20)];
            let kernel = cross_entropy::cross_entropy().specialize(&constants).unwrap();
            for outcome in outcomes(kernel.def(), &args) {
                agrees::<f32>(&outcome, "loss", &losses, 1e-5);
                agrees::<f32>(&outcome, "lse", &lse, 1e-5);
            }
        }
        let d: Vec<f32> = numbers(m, 2);
        let scaled: Vec<f64> = slopes.iter().enumerate().map(|(at, slope)| slope * d[at / n].to()).collect();
        let lse: Vec<f32> = lse.iter().map(|x| *x as f32).collect();
        let d_logits = rows(Arg::output::<bf16>([m, n]), ld);
        let rest = [label.clone(), Arg::tensor(&lse, [m]), Arg::tensor(&d, [m]), memory, d_logits];
        let args = [&given[..], &rest].concat();
        for outcome in outcomes(cross_entropy::cross_entropy_backward().def(), &args) {
            agrees_rows::<bf16>(&outcome, "d_logits", &scaled, [n, ld], 4e-3);
        }
        let halved: Vec<f64> = slopes.iter().map(|slope| slope / 2.0).collect();
        let args = [&given[..], &[Arg::number(0.5f32), label, rows(Arg::in_out(&x, [m, n]), ld), of_rows()]]
            .concat();
        for [w, l, c] in
            [[1024, 128, 1], [4096, 128, 1], [6144, 192, 1], [8192, 256, 1], [16384, 512, 1], [16384, 512, 4]]
        {
            if n + 7 > w * c {
                continue;
            }
            let sizes = [("W", w), ("L", l), ("C", c)];
            let kernel = cross_entropy::cross_entropy_fused().specialize(&sizes).unwrap();
            for outcome in outcomes(kernel.def(), &args) {
                agrees::<f32>(&outcome, "loss", &losses, 1e-5);
                agrees_rows::<bf16>(&outcome, "logits", &halved, [n, ld], 4e-3);
            }
        }
    }
}

/// The row's mean, or 0; its factor 1 / √(mean of squares + epsilon) from there; normalised numbers.
fn normalised(row: &[f64], centred: bool) -> (f64, f64, Vec<f64>) {
    let n = row.len() as f64;
    let mean = if centred { row.iter().sum::<f64>() / n } else { 0.0 };
    let squares: f64 = row.iter().map(|x| (x - mean).powi(2)).sum();
    let scale = 1.0 / (squares / n + EPSILON).sqrt();
    (mean, scale, row.iter().map(|x| (x - mean) * scale).collect())
}

const EPSILON: f64 = 1e-3;

/// Constants of the norms: rows and columns of a tile, threads.
const NORMS: [[usize; 3]; 7] = [
    [16, 128, 128],
    [4, 512, 128],
    [1, 1024, 64],
    [1, 2048, 128],
    [1, 4096, 256],
    [1, 8192, 512],
    [1, 16384, 1024],
];

/// Constants of the gradients of norms.
const GRADIENTS: [[usize; 3]; 6] =
    [[8, 128, 256], [2, 512, 256], [1, 1024, 128], [1, 2048, 256], [1, 4096, 512], [1, 8192, 1024]];

/// The alternatives of a norm for rows of n elements.
fn alternatives(def: &KernelDef, n: usize, all: &[[usize; 3]]) -> Vec<KernelDef> {
    let fitting = all.iter().filter(|[_, w, _]| n <= *w);
    fitting.map(|[r, w, l]| def.specialize(&[("R", *r), ("W", *w), ("L", *l)], &[]).unwrap()).collect()
}

#[test]
fn norms_of_rows() {
    for (m, n, ld) in [(5, 100, 100), (3, 520, 528), (1, 1, 3), (2, 2100, 2101)] {
        let (x, packed) = matrix::<bf16>([m, n, ld], 1);
        let (branch, added) = matrix::<bf16>([m, n, ld], 2);
        let (w, b): (Vec<bf16>, Vec<bf16>) = (numbers(n, 3), numbers(n, 4));
        let (given, w_of, b_of) = (rows(Arg::tensor(&x, [m, n]), ld), wide(&w), wide(&b));
        let (weights, biases) = (Arg::tensor(&w, [n]), Arg::tensor(&b, [n]));
        let (y, of_rows) = (rows(Arg::output::<bf16>([m, n]), ld), || Arg::output::<f32>([m]));
        let epsilon = Arg::number(EPSILON as f32);
        let wanted = |x: &[f64], centred: bool| {
            let mut results = [vec![], vec![], vec![]];
            for row in x.chunks(n) {
                let (mean, scale, normal) = normalised(row, centred);
                let biased = |at: usize| normal[at] * w_of[at] + if centred { b_of[at] } else { 0.0 };
                results[0].extend((0..n).map(biased));
                results[1].push(mean);
                results[2].push(scale);
            }
            results
        };
        let args = [epsilon.clone(), given.clone(), weights.clone(), y.clone(), of_rows()];
        let [results, _, scales] = wanted(&packed, false);
        if ld == n {
            near(norms::rms_norm_with_rstd!(R = 16, W = 128, L = 256).def(), &args, 1e-2);
        }
        for def in alternatives(norms::rms_norm_with_rstd().def(), n, &NORMS) {
            for outcome in outcomes(&def, &args) {
                agrees_rows::<bf16>(&outcome, "y", &results, [n, ld], 4e-3);
                agrees::<f32>(&outcome, "rstd", &scales, 1e-5);
            }
        }
        let args = [epsilon.clone(), given, weights.clone(), biases, y.clone(), of_rows(), of_rows()];
        let [results, means, scales] = wanted(&packed, true);
        if ld == n {
            near(norms::layer_norm!(R = 16, W = 128, L = 256).def(), &args, 1e-2);
        }
        for def in alternatives(norms::layer_norm().def(), n, &NORMS) {
            for outcome in outcomes(&def, &args) {
                agrees_rows::<bf16>(&outcome, "y", &results, [n, ld], 4e-3);
                agrees::<f32>(&outcome, "mean", &means, 1e-5);
                agrees::<f32>(&outcome, "rstd", &scales, 1e-5);
            }
        }
        let sums: Vec<f64> = packed.iter().zip(&added).map(|(x, b)| x + b).collect();
        let rounded: Vec<f64> = sums.iter().map(|x| bf16::of(*x).to()).collect();
        let branch = rows(Arg::tensor(&branch, [m, n]), ld);
        let streams = [
            (norms::add_rms_norm().def().clone(), rows(Arg::in_out(&x, [m, n]), ld), rounded),
            (
                norms::add_rms_norm!(X = f32, rstd = None).def().clone(),
                rows(Arg::in_out(&x.iter().map(|x| x.to() as f32).collect::<Vec<_>>(), [m, n]), ld),
                sums,
            ),
        ];
        for (at, (def, stream, sums)) in streams.into_iter().enumerate() {
            let [results, _, scales] = wanted(&sums, false);
            let mut args = vec![epsilon.clone(), branch.clone(), weights.clone(), stream, y.clone()];
            args.extend((at == 0).then(of_rows));
            for def in alternatives(&def, n, &NORMS) {
                for outcome in outcomes(&def, &args) {
                    agrees_rows::<bf16>(&outcome, "y", &results, [n, ld], 4e-3);
                    match at {
                        0 => {
                            agrees_rows::<bf16>(&outcome, "x", &sums, [n, ld], 0.0);
                            agrees::<f32>(&outcome, "rstd", &scales, 1e-5);
                        }
                        _ => agrees_rows::<f32>(&outcome, "x", &sums, [n, ld], 1e-6),
                    }
                }
            }
        }
    }
}

#[test]
fn gradients_of_norms() {
    for (m, n, ld, p) in [(37, 30, 30, 2), (3, 520, 528, 5), (2, 1, 3, 1), (2, 1030, 1033, 2)] {
        let (x, packed) = matrix::<f32>([m, n, ld], 1);
        let (dy, slopes) = matrix::<f32>([m, n, ld], 2);
        let w: Vec<f32> = numbers(n, 3);
        for centred in [false, true] {
            let mut statistics = [vec![], vec![]];
            let (mut dx, mut dw, mut db) = (vec![], vec![0.0; n], vec![0.0; n]);
            for (x, dy) in packed.chunks(n).zip(slopes.chunks(n)) {
                let (mean, scale, normal) = normalised(x, centred);
                statistics[0].push(mean as f32);
                statistics[1].push(scale as f32);
                dx.extend(gradient(x, |x| {
                    let y = normalised(x, centred).2;
                    y.iter().zip(&w).zip(dy).map(|((y, w), dy)| y * w.to() * dy).sum()
                }));
                (0..n).for_each(|at| dw[at] += normal[at] * dy[at]);
                (0..n).for_each(|at| db[at] += dy[at]);
            }
            let [mean, rstd] = statistics.map(|of| Arg::tensor(&of, [m]));
            let (memory, weights) = (rows(Arg::tensor(&x, [m, n]), ld), Arg::tensor(&w, [n]));
            let (dy, d_x) = (rows(Arg::tensor(&dy, [m, n]), ld), rows(Arg::output::<f32>([m, n]), ld));
            let parts = rows(Arg::output::<f32>([p, n]), ld);
            let (def, args) = match centred {
                false => (
                    norm_gradients::rms_norm_backward!(T = f32).def().clone(),
                    vec![memory, weights, rstd, dy, d_x, parts],
                ),
                true => (
                    norm_gradients::layer_norm_backward!(T = f32).def().clone(),
                    vec![memory, weights, mean, rstd, dy, d_x, parts.clone(), parts],
                ),
            };
            for def in alternatives(&def, n, &GRADIENTS) {
                for outcome in outcomes(&def, &args) {
                    agrees_rows::<f32>(&outcome, "dx", &dx, [n, ld], 2e-4);
                    let results = [("dw_parts", &dw), ("db_parts", &db)];
                    for (name, wanted) in &results[..1 + usize::from(centred)] {
                        let parts = outcome.get::<f32>(name).unwrap();
                        let args = [rows(Arg::tensor(&parts, [p, n]), ld), Arg::output::<f32>([n])];
                        let sum = norm_gradients::sum_parts!(T = f32).simulate(&args).unwrap();
                        agrees::<f32>(&sum, "total", wanted, 1e-4);
                    }
                }
            }
        }
    }
}

#[test]
fn rotary_embedding() {
    for (def, heads) in [
        (rope::rope().def(), 4),
        (rope::rope!(x = None).def(), 32),
        (rope::rope_pairs().def(), 16),
        (rope::rope_pairs!(x = None).def(), 8),
    ] {
        let check = |d: usize, sizes: &str| {
            let def = def.specialize(&[("H", heads), ("D", d)], &[]).unwrap();
            inputs(&def).below("positions", 9).with("y", |y| y).near(1e-2, [sizes]);
        };
        check(128, "sign = 1, M = 3, J = 5, C = 9");
        check(64, "sign = -1, M = 2, J = 33, C = 9, hx = 72, ldx = 2384, hy = 72, ldy = 2384");
        check(128, "sign = -1, M = 1, J = 1, C = 9, hx = 131, ldx = 134, hy = 131, ldy = 134");
    }
}

/// Random words of counters.
#[kernel]
fn words(
    key: u64,
    a: &Tensor<u32, N>,
    b: &Tensor<u32, N>,
    c: &Tensor<u32, N>,
    d: &Tensor<u32, N>,
    words: &mut Tensor<u32, (N, _4)>,
) {
    use tilewright::kernels::models::dropout::philox;
    let counter = |x| map(tile(x, 32, block.x), |x| x);
    let (a, b, c, d) = philox(counter(a), counter(b), counter(c), counter(d), key);
    for (k, x) in ((0, a), (1, b), (2, c), (3, d)) {
        copy(x, tile(words, (32, 1), (block.x, k))[(_, 0)]);
    }
}

/// Known words of Random123, the reference implementation of Philox 4x32-10: a key, a counter and its words.
const KNOWN: [(u64, [u32; 4], [u32; 4]); 3] = [
    (0, [0; 4], [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]),
    (u64::MAX, [u32::MAX; 4], [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]),
    (
        0x299f31d0_a4093822,
        [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
        [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
    ),
];

/// Philox 4x32-10.
fn philox(key: u64, mut counter: [u32; 4]) -> [u32; 4] {
    for step in 0..10u32 {
        let key = [key as u32, (key >> 32) as u32];
        let key = [
            key[0].wrapping_add(0x9e3779b9u32.wrapping_mul(step)),
            key[1].wrapping_add(0xbb67ae85u32.wrapping_mul(step)),
        ];
        let products = [0xd2511f53 * u64::from(counter[0]), 0xcd9e8d57 * u64::from(counter[2])];
        let high = products.map(|of| (of >> 32) as u32);
        counter = [
            high[1] ^ counter[1] ^ key[0],
            products[1] as u32,
            high[0] ^ counter[3] ^ key[1],
            products[0] as u32,
        ];
    }
    counter
}

#[test]
fn dropped_elements() {
    for (key, counter, known) in KNOWN {
        assert_eq!(philox(key, counter), known);
        let given = counter.map(|word| Arg::tensor(&[word; 3], [3]));
        let args = [&[Arg::number(key)], &given[..], &[Arg::output::<u32>([3, 4])]].concat();
        let done = self::words().simulate(&args).unwrap().get::<u32>("words").unwrap();
        assert!(done.chunks(3).zip(known).all(|(got, word)| got == [word; 3]));
    }
    let (seed, offset) = (0x1234_5678_9abc_def0u64, 0x7_0000_0003u64);
    for (m, n, ld, p) in [(2, 4100, 4104, 0.25f32), (3, 5, 7, 0.5), (1, 1, 1, 0.0), (1, 9, 9, 1.0)] {
        let (x, packed) = matrix::<bf16>([m, n, ld], 1);
        let wanted: Vec<f64> = (0..m * n)
            .map(|at| {
                let (row, column) = (at / n, at % n);
                let counter = [(column / 8) as u32, row as u32, offset as u32, (offset >> 32) as u32];
                let half = philox(seed, counter)[column / 2 % 4] >> (16 * (column % 2)) & 0xffff;
                let is_kept = f64::from(half) >= (f64::from(p) * 65536.0).round();
                if is_kept { packed[at] / (1.0 - f64::from(p)) } else { 0.0 }
            })
            .collect();
        let kept = wanted.iter().filter(|y| **y != 0.0).count() as f64 / wanted.len() as f64;
        assert!(n < 100 || (kept - 0.75).abs() < 0.02, "{kept}");
        let (x, y) = (rows(Arg::tensor(&x, [m, n]), ld), rows(Arg::output::<bf16>([m, n]), ld));
        let args = [Arg::number(p), Arg::number(seed), Arg::number(offset), x, y];
        for outcome in outcomes(dropout::dropout().def(), &args) {
            agrees_rows::<bf16>(&outcome, "y", &wanted, [n, ld], 4e-3);
        }
    }
}

#[test]
fn steps_of_adamw() {
    let settings = "rate = 0.01, beta1 = 0.9, beta2 = 0.95, epsilon = 0.00000001, decay = 0.1, correction1 = 0.271, correction2 = 0.142625";
    for def in [adamw::adamw().def(), adamw::adamw!(T = bf16, rounded = None).def()] {
        let inputs = inputs(def).set(settings).with("m", |m| m).with("v", f64::abs).with("weights", |w| w);
        inputs.near(1e-6, ["scale = 0.5, N = 1500"]);
    }
}

#[test]
fn gradients_of_embeddings() {
    for (m, v, d, ld) in [(6, 4, 1100, 1100), (6, 4, 1100, 1104), (4, 3, 1, 1)] {
        let tokens = [2i64, 0, 2, -1, 1 << 33, 2];
        let (dx, packed) = matrix::<bf16>([m, d, ld], 1);
        let before: Vec<f32> = numbers(v * d, 2);
        let mut wanted = wide(&before);
        for (token, dx) in
            tokens.iter().zip(packed.chunks(d)).filter(|(token, _)| (0..v as i64).contains(token))
        {
            dx.iter().enumerate().for_each(|(at, dx)| wanted[*token as usize * d + at] += dx);
        }
        let table = rows(Arg::in_out(&before, [v, d]), d);
        let args = [Arg::tensor(&tokens[..m], [m]), rows(Arg::tensor(&dx, [m, d]), ld), table];
        for outcome in outcomes(embed_backward::embed_backward().def(), &args) {
            agrees::<f32>(&outcome, "d_table", &wanted, 1e-6);
        }
    }
}

/// The error function: its series.
fn erf(x: f64) -> f64 {
    let terms = (0..60).scan(x, |term, n| {
        let this = *term / f64::from(2 * n + 1);
        *term *= -x * x / f64::from(n + 1);
        Some(this)
    });
    terms.sum::<f64>() * std::f64::consts::FRAC_2_SQRT_PI
}

#[test]
fn gates() {
    let functions: [fn(f64) -> f64; 3] = [
        |x| x / (1.0 + (-x).exp()),
        |x| 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        |x| 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh()),
    ];
    for (m, f, ldy) in [(2, 2100, 2104), (3, 5, 5), (1, 1, 1)] {
        let x: Vec<f32> = numbers::<f32>(m * 2 * f, 1).into_iter().map(|x| 4.0 * x).collect();
        let (dy, slopes) = matrix::<f32>([m, f, ldy], 2);
        let both = |of: Arg| of.strides([2 * f, 1, f]);
        for (kind, function) in functions.iter().enumerate() {
            let row = |at: usize| at / f * 2 * f + at % f;
            let y: Vec<f64> = (0..m * f).map(|at| function(x[row(at)].to()) * x[row(at) + f].to()).collect();
            let given = both(Arg::tensor(&x, [m, f, 2]));
            let forward = gated::gated!(T = f32).def().specialize(&[("KIND", kind)], &[]).unwrap();
            let args = [given.clone(), rows(Arg::output::<f32>([m, f]), ldy)];
            for outcome in outcomes(&forward, &args) {
                agrees_rows::<f32>(&outcome, "y", &y, [f, ldy], 1e-5);
            }
            let mut wanted = vec![0.0; m * 2 * f];
            for at in 0..m * f {
                let pair = [x[row(at)].to(), x[row(at) + f].to()];
                let slope = gradient(&pair, |pair| function(pair[0]) * pair[1] * slopes[at]);
                (wanted[row(at)], wanted[row(at) + f]) = (slope[0], slope[1]);
            }
            let backward = gated::gated_backward!(T = f32).def().specialize(&[("KIND", kind)], &[]).unwrap();
            let dy = rows(Arg::tensor(&dy, [m, f]), ldy);
            let args = [given, dy, both(Arg::output::<f32>([m, f, 2]))];
            for outcome in outcomes(&backward, &args) {
                agrees::<f32>(&outcome, "d_gate_up", &wanted, 2e-5);
            }
        }
    }
}

/// The probabilities of tokens, 0 for those that are left out.
fn likely(x: &[f64], temperature: f64, top_k: usize, top_p: f64) -> Vec<f64> {
    let most = x.iter().copied().fold(f64::MIN, f64::max);
    let weight = |x: &f64| match temperature == 0.0 {
        true => f64::from(*x == most),
        false => ((x - most) / temperature).exp(),
    };
    let mut weights: Vec<f64> = x.iter().map(weight).collect();
    let mut sorted = weights.clone();
    sorted.sort_by(|a, b| b.total_cmp(a));
    if top_k > 0 {
        let least = sorted[top_k.min(x.len()) - 1];
        for of in [&mut weights, &mut sorted] {
            of.iter_mut().filter(|w| **w < least).for_each(|w| *w = 0.0);
        }
    }
    let all: f64 = sorted.iter().sum();
    let upto = sorted.iter().scan(0.0, |sum, w| {
        *sum += w;
        Some((*sum, *w))
    });
    let least = upto.filter(|(sum, _)| *sum >= top_p * all * (1.0 - 1e-6)).map(|(_, w)| w).next().unwrap();
    weights.iter_mut().filter(|w| **w < least).for_each(|w| *w = 0.0);
    let all: f64 = weights.iter().sum();
    weights.into_iter().map(|w| w / all).collect()
}

#[test]
fn sampled_tokens() {
    for (m, n, ld, sizes) in
        [(40, 50, 51, [512, 64, 1]), (20, 700, 703, [512, 64, 2]), (2, 1, 1, [2048, 256, 1])]
    {
        let row: Vec<bf16> = numbers::<bf16>(n, 1).into_iter().map(|x| bf16::of(6.0 * x.to())).collect();
        let mut x = row.clone();
        x.resize(ld, bf16::of(1e9));
        let x = x.repeat(m);
        // A stratum of random numbers for each row: a token of probability p has m·p of them, up to rounding.
        let random: Vec<f32> = (0..m).map(|i| (i as f32 + 0.5) / m as f32).collect();
        for (temperature, top_k, top_p) in
            [(1.0, 0, 0.9), (0.5, 7, 1.0), (2.0, 20, 0.53), (0.0, 0, 0.9), (0.7, 1, 0.0), (1.0, 0, 1.0)]
        {
            let wanted = likely(&wide(&row), temperature, top_k, top_p);
            let each = |x: f64| Arg::tensor(&vec![x as f32; m], [m]);
            let rest = [
                each(top_p),
                Arg::tensor(&random, [m]),
                rows(Arg::tensor(&x, [m, n]), ld),
                Arg::output::<i32>([m]),
            ];
            let few = Arg::tensor(&vec![top_k as i32; m], [m]);
            let with = (sample::sample_top_p().def().clone(), vec![each(temperature), few]);
            let without = (sample::sample_top_p!(top_k = None).def().clone(), vec![each(temperature)]);
            for (def, first) in [Some(with), (top_k == 0).then_some(without)].into_iter().flatten() {
                let def = def.specialize(&[("W", sizes[0]), ("L", sizes[1]), ("C", sizes[2])], &[]).unwrap();
                for outcome in outcomes(&def, &[&first[..], &rest].concat()) {
                    let mut counts = vec![0.0; n];
                    outcome
                        .get::<i32>("tokens")
                        .unwrap()
                        .iter()
                        .for_each(|token| counts[*token as usize] += 1.0);
                    for (at, (count, wanted)) in counts.iter().zip(&wanted).enumerate() {
                        let is_right =
                            (count - m as f64 * wanted).abs() < 1.001 && (*wanted > 0.0 || *count == 0.0);
                        assert!(
                            is_right,
                            "{n} {temperature} {top_k} {top_p}: {count} of {at}, not {}",
                            wanted * m as f64
                        );
                    }
                }
            }
        }
    }
}

/// Causal convolution of one channel with silu.
fn convolved(x: &[f64], w: &[f64], bias: f64) -> Vec<f64> {
    let taps = w.len();
    let z = (0..x.len()).map(|t| {
        let terms = w.iter().enumerate().filter(|(k, _)| t + k + 1 >= taps);
        bias + terms.map(|(k, w)| w * x[t + k + 1 - taps]).sum::<f64>()
    });
    z.map(|z| z / (1.0 + (-z).exp())).collect()
}

#[test]
fn convolutions_over_time() {
    for (taps, b, l, d, space, p) in [(4, 2, 37, 70, 0, 2), (3, 1, 70, 128, 8, 1), (2, 2, 1, 3, 5, 3)] {
        let ld = d + space;
        let strides = |of: Arg| of.strides([l * ld, ld, 1]);
        let (x, dy): (Vec<f32>, Vec<f32>) = (numbers(b * l * ld, 1), numbers(b * l * ld, 2));
        let (w, bias): (Vec<f32>, Vec<f32>) = (numbers(taps * d, 3), numbers(d, 4));
        let channel = |of: &[f32], at: usize, c: usize| -> Vec<f64> {
            (0..l).map(|t| of[(at * l + t) * ld + c].to()).collect()
        };
        let mut wanted = [vec![0.0; b * l * ld], vec![0.0; b * l * ld], vec![0.0; (taps + 1) * d]];
        for c in 0..d {
            let of_c: Vec<f64> = (0..taps).map(|k| w[k * d + c].to()).chain([bias[c].to()]).collect();
            for at in 0..b {
                let (x, dy) = (channel(&x, at, c), channel(&dy, at, c));
                let loss = |x: &[f64], w: &[f64]| {
                    convolved(x, &w[..taps], w[taps]).iter().zip(&dy).map(|(y, dy)| y * dy).sum::<f64>()
                };
                let (y, dx) = (convolved(&x, &of_c[..taps], of_c[taps]), gradient(&x, |x| loss(x, &of_c)));
                for t in 0..l {
                    wanted[0][(at * l + t) * ld + c] = y[t];
                    wanted[1][(at * l + t) * ld + c] = dx[t];
                }
                for (k, slope) in gradient(&of_c, |w| loss(&x, w)).into_iter().enumerate() {
                    wanted[2][k * d + c] += slope;
                }
            }
        }
        let size = (b * l - 1) * ld + d;
        let of_rows =
            |at: usize| wanted[at][..size].chunks(ld).flat_map(|row| row[..d].to_vec()).collect::<Vec<_>>();
        let given = [
            rows(Arg::tensor(&w, [taps, d]), d),
            Arg::tensor(&bias, [d]),
            strides(Arg::tensor(&x, [b, l, d])),
        ];
        let result = strides(Arg::output::<f32>([b, l, d]));
        let forward = conv1d::conv1d_causal!(T = f32).def().specialize(&[("K", taps)], &[]).unwrap();
        for outcome in outcomes(&forward, &[&given[..], std::slice::from_ref(&result)].concat()) {
            agrees_rows::<f32>(&outcome, "y", &of_rows(0), [d, ld], 1e-5);
        }
        let parts = Arg::output::<f32>([p, taps + 1, d]).strides([(taps + 1) * d, d, 1]);
        let args = [&given[..], &[strides(Arg::tensor(&dy, [b, l, d])), result, parts]].concat();
        let backward =
            conv1d::conv1d_causal_backward!(T = f32).def().specialize(&[("K", taps)], &[]).unwrap();
        for outcome in outcomes(&backward, &args) {
            agrees_rows::<f32>(&outcome, "dx", &of_rows(1), [d, ld], 1e-5);
            let parts = outcome.get::<f32>("parts").unwrap();
            let sums: Vec<f64> = (0..(taps + 1) * d)
                .map(|at| parts[at..].iter().step_by((taps + 1) * d).map(|x| x.to()).sum())
                .collect();
            for (got, wanted) in sums.iter().zip(&wanted[2]) {
                assert!((got - wanted).abs() < 1e-4, "{got}, not {wanted}");
            }
        }
    }
}

#[test]
fn selective_scans() {
    const S: usize = 16;
    for (b, l, d, space) in [(2, 37, 70, 2), (1, 1, 128, 0), (1, 18, 3, 1)] {
        let ld = d + space;
        let strides = |of: Arg| of.strides([l * ld, ld, 1]);
        let a: Vec<f32> = numbers::<f32>(d * S, 1).iter().map(|a| -4.0 * a.abs()).collect();
        let (skip, state): (Vec<f32>, Vec<f32>) = (numbers(d, 2), numbers(b * d * S, 3));
        let [x, mut dt]: [Vec<bf16>; 2] = [4, 5].map(|seed| numbers(b * l * ld, seed));
        dt.iter_mut().for_each(|dt| *dt = bf16::of(dt.to().abs()));
        let [in_b, in_c]: [Vec<bf16>; 2] = [6, 7].map(|seed| numbers(b * l * S, seed));
        let mut h = wide(&state);
        let mut y = vec![0.0; b * l * d];
        for at in 0..b * l {
            for channel in 0..d {
                let (x, dt) = (x[at * ld + channel].to(), dt[at * ld + channel].to());
                let h = &mut h[(at / l * d + channel) * S..][..S];
                for (n, h) in h.iter_mut().enumerate() {
                    *h = (dt * a[channel * S + n].to()).exp() * *h + dt * x * in_b[at * S + n].to();
                    y[at * d + channel] += *h * in_c[at * S + n].to();
                }
                y[at * d + channel] += skip[channel].to() * x;
            }
        }
        let of_states = |of: &[bf16]| Arg::tensor(of, [b, l, S]).strides([l * S, S, 1]);
        let args = [
            rows(Arg::tensor(&a, [d, S]), S),
            Arg::tensor(&skip, [d]),
            strides(Arg::tensor(&x, [b, l, d])),
            strides(Arg::tensor(&dt, [b, l, d])),
            of_states(&in_b),
            of_states(&in_c),
            Arg::in_out(&state, [b, d, S]).strides([d * S, S, 1]),
            strides(Arg::output::<bf16>([b, l, d])),
        ];
        for lanes in [1, 2, 4] {
            let def = selective_scan::selective_scan().specialize(&[("G", lanes)]).unwrap();
            for outcome in outcomes(def.def(), &args) {
                agrees_rows::<bf16>(&outcome, "y", &y, [d, ld], 4e-3);
                agrees::<f32>(&outcome, "state", &h, 1e-4);
            }
        }
    }
}

/// Linear attention, one time after the other: the final state and the results.
fn linear_attention(
    [b, l, heads, e, dk]: [usize; 5],
    [q, k, v]: [&[bf16]; 3],
    gate: impl Fn(usize, usize) -> f64,
    state: &[f32],
) -> [Vec<f64>; 2] {
    let (mut s, mut out) = (wide(state), vec![0.0; b * l * heads * e]);
    for at in 0..b * l * heads {
        let (batch, head) = (at / (l * heads), at % heads);
        for row in 0..e {
            let s = &mut s[((batch * heads + head) * e + row) * dk..][..dk];
            for (c, s) in s.iter_mut().enumerate() {
                *s = gate(at, c).exp() * *s + v[at * e + row].to() * k[at * dk + c].to();
                out[at * e + row] += 0.125 * *s * q[at * dk + c].to();
            }
        }
    }
    [s, out]
}

#[test]
fn linear_attention_with_gates() {
    for (dk, dv, b, l, heads, e) in [(64, 64, 1, 130, 2, 70), (32, 64, 2, 1, 1, 16), (64, 128, 1, 64, 1, 5)] {
        let (size, values) = (b * l * heads * dk, b * l * heads * e);
        let [q, k]: [Vec<bf16>; 2] = [1, 2].map(|seed| numbers(size, seed));
        let v: Vec<bf16> = numbers(values, 3);
        let gates: Vec<f32> = numbers::<f32>(size, 4).iter().map(|g| -0.2 * g.abs()).collect();
        let state: Vec<f32> = numbers(b * heads * e * dk, 5);
        let of_heads = |of: Arg, d: usize| of.strides([l * heads * d, heads * d, d, 1]);
        let args = |gates: Arg| {
            let of_keys = |of: &[bf16]| of_heads(Arg::tensor(of, [b, l, heads, dk]), dk);
            [
                Arg::number(0.125f32),
                gates,
                of_keys(&q),
                of_keys(&k),
                of_heads(Arg::tensor(&v, [b, l, heads, e]), e),
                Arg::in_out(&state, [b, heads, e, dk]).strides([heads * e * dk, e * dk, dk, 1]),
                of_heads(Arg::output::<bf16>([b, l, heads, e]), e),
            ]
        };
        let attention = |gate: &dyn Fn(usize, usize) -> f64| {
            linear_attention([b, l, heads, e, dk], [&q, &k, &v], gate, &state)
        };
        let [s, out] = attention(&|at, _| gates[at].to());
        let of_times = &gates[..b * l * heads];
        let given = args(Arg::tensor(of_times, [b, l, heads]).strides([l * heads, heads, 1]));
        let kernel = gated_linear_attention::gated_linear_attention();
        let def = kernel.specialize(&[("DK", dk), ("DV", dv)]).unwrap();
        for outcome in written_outcomes(def.def(), &given, false) {
            agrees::<bf16>(&outcome, "out", &out, 0.03);
            agrees::<f32>(&outcome, "state", &s, 0.03);
        }
        let [s, out] = attention(&|at, c| gates[at * dk + c].to());
        let given = args(of_heads(Arg::tensor(&gates, [b, l, heads, dk]), dk));
        let kernel = gated_linear_attention::gated_linear_attention_by_keys();
        for outcome in outcomes(kernel.specialize(&[("DK", dk)]).unwrap().def(), &given) {
            agrees::<bf16>(&outcome, "out", &out, 4e-3);
            agrees::<f32>(&outcome, "state", &s, 1e-4);
        }
    }
}
