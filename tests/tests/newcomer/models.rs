//! Kernels of models as they are trained and served: losses, optimisers, samplers, adapters, states.

use crate::{below, close, drawn, every, generated, near, right, rows, written};
use tilewright::prelude::*;
use tilewright_sim::Arg;

fn halves(of: &[f32]) -> Vec<bf16> {
    of.iter().map(|x| bf16::from_f32(*x)).collect()
}

/// A step of AdamW: parameters of 16 bits, moments of 32, gradients scaled to a norm.
#[kernel]
fn adamw(
    lr: f32,
    beta1: f32,
    beta2: f32,
    decay: f32,
    step: i32,
    scale: &Tensor<f32, _1>,
    g: &Tensor<bf16, N>,
    m: &mut Tensor<f32, N>,
    v: &mut Tensor<f32, N>,
    p: &mut Tensor<bf16, N>,
) {
    let (g, m, v, p) =
        (tile(g, 1024, block.x), tile(m, 1024, block.x), tile(v, 1024, block.x), tile(p, 1024, block.x));
    let (c1, c2) = (1.0 - pow(beta1, step as f32), 1.0 - pow(beta2, step as f32));
    let grad = g as f32 * scale[(0)];
    m = beta1 * m + (1.0 - beta1) * grad;
    v = beta2 * v + (1.0 - beta2) * grad * grad;
    let w = p as f32;
    p = (w - lr * (m / c1 / (sqrt(v / c2) + 1e-8) + decay * w)) as bf16;
}

#[test]
fn parameters_decay() {
    let (lr, beta1, beta2, decay, step) = (0.1f64, 0.9f64, 0.99f64, 0.05f64, 3);
    for n in [0, 1, 1024, 1500] {
        let (g, p) = (halves(&drawn(n, 1)), halves(&drawn(n, 2)));
        let (m, v) = (drawn(n, 3), drawn(n, 4).into_iter().map(f32::abs).collect::<Vec<_>>());

        let number = |x: f64| Arg::number(x as f32);
        let args = [
            number(lr),
            number(beta1),
            number(beta2),
            number(decay),
            Arg::number(step),
            Arg::tensor(&[0.25f32], [1]),
            Arg::tensor(&g, [n]),
            Arg::in_out(&m, [n]),
            Arg::in_out(&v, [n]),
            Arg::in_out(&p, [n]),
        ];
        written(adamw().def(), &args);
    }
}

/// Cross entropy of smoothed labels and its gradient; rows with the label `ignored` have neither.
#[kernel]
fn smoothed<const W: usize = 256>(
    smoothing: f32,
    ignored: i32,
    x: &Tensor<bf16, (M, N), (ldx, _1)>,
    labels: &Tensor<i32, M>,
    loss: &mut Tensor<f32, M>,
    dx: &mut Tensor<bf16, (M, N), (ldd, _1)>,
) {
    let label = labels[(block.x)];
    let (row, dx) = (tile(x, (1, W), (block.x, _))[(0, _, _)], tile(dx, (1, W), (block.x, _))[(0, _, _)]);
    let (mut most, mut total, mut all) = (full::<f32>(1, f32::MIN), full::<f32>(1, 0.0), full::<f32>(1, 0.0));
    for k in 0..row.size(1) {
        let here = row[(_, k)] as f32;
        let now = max(most, maximum(here));
        total = total * exp(most - now) + sum(exp(here - now));
        all += sum(here);
        most = now;
    }
    let lse = most + log(total);
    let used = if label == ignored { 0.0 } else { 1.0 };
    let nll = lse - x[(block.x, label)] as f32;
    let uniform = lse - all / N as f32;
    copy(used * ((1.0 - smoothing) * nll + smoothing * uniform), tile(loss, 1, block.x));
    for k in 0..row.size(1) {
        let d = map((row[(_, k)], lse), |x, lse, at| {
            let wanted = if at.0 == label { 1.0 - smoothing } else { 0.0 } + smoothing / N as f32;
            used * (exp(x as f32 - lse) - wanted)
        });
        copy(d, dx[(_, k)]);
    }
}

#[test]
fn labels_are_smoothed() {
    let (m, smoothing) = (5, 0.1);
    for n in [1, 256, 700] {
        let x = halves(&drawn(m * n, 1));
        let mut labels = below(n as i32, m, 2);
        labels[3] = -100;
        let args = [
            Arg::number(smoothing as f32),
            Arg::number(-100),
            Arg::tensor(&x, [m, n]).strides([n, 1]),
            Arg::tensor(&labels, [m]),
            Arg::output::<f32>([m]),
            Arg::output::<bf16>([m, n]).strides([n, 1]),
        ];
        near(smoothed().def(), &args, 1e-4);
    }
}

/// Batch normalisation in training, channels contiguous: means and variances over all pixels of all images.
#[kernel]
fn batch_norm(
    momentum: f32,
    x: &Tensor<f32, (C, P)>,
    gamma: &Tensor<f32, C>,
    beta: &Tensor<f32, C>,
    means: &mut Tensor<f32, C>,
    variances: &mut Tensor<f32, C>,
    y: &mut Tensor<f32, (C, P)>,
) {
    let (x, y) = (tile(x, (32, 64), (block.x, _)), tile(y, (32, 64), (block.x, _)));
    let of = |v| tile(v, 32, block.x).along(0);
    let mut mean = full::<f32>((32, 1), 0.0);
    for k in 0..x.size(2) {
        mean += sum(x[(_, _, k)], 1);
    }
    mean /= P as f32;
    let mut variance = full::<f32>((32, 1), 0.0);
    for k in 0..x.size(2) {
        let d = x[(_, _, k)] - mean;
        variance += sum(d * d, 1);
    }
    variance /= P as f32;
    let scale = of(gamma) * rsqrt(variance + 1e-5);
    for k in 0..x.size(2) {
        copy((x[(_, _, k)] - mean) * scale + of(beta), y[(_, _, k)]);
    }
    let unbiased = variance * (P as f32 / (P - 1) as f32);
    of(means) = (1.0 - momentum) * of(means) + momentum * mean;
    of(variances) = (1.0 - momentum) * of(variances) + momentum * unbiased;
}

#[test]
fn batches_are_normal() {
    for (c, p) in [(1, 2), (32, 64), (45, 150)] {
        let (x, gamma, beta) = (drawn(c * p, 1), drawn(c, 2), drawn(c, 3));
        let (means, variances) = (drawn(c, 4), drawn(c, 5));
        let (mut y, mut m, mut v) = (vec![0.0; c * p], vec![], vec![]);
        for i in 0..c {
            let of = |j: usize| f64::from(x[i + j * c]);
            let mean = (0..p).map(of).sum::<f64>() / p as f64;
            let var = (0..p).map(|j| (of(j) - mean).powi(2)).sum::<f64>() / p as f64;
            for j in 0..p {
                y[i + j * c] =
                    (of(j) - mean) / (var + 1e-5).sqrt() * f64::from(gamma[i]) + f64::from(beta[i]);
            }
            m.push(0.9 * f64::from(means[i]) + 0.1 * mean);
            v.push(0.9 * f64::from(variances[i]) + 0.1 * var * p as f64 / (p - 1) as f64);
        }
        let args = [
            Arg::number(0.1f32),
            Arg::tensor(&x, [c, p]),
            Arg::tensor(&gamma, [c]),
            Arg::tensor(&beta, [c]),
            Arg::in_out(&means, [c]),
            Arg::in_out(&variances, [c]),
            Arg::output::<f32>([c, p]),
        ];
        for out in every(generated!(batch_norm()), &args) {
            close(&out.get::<f32>("y").unwrap(), &y, 1e-3);
            close(&out.get::<f32>("means").unwrap(), &m, 1e-4);
            close(&out.get::<f32>("variances").unwrap(), &v, 1e-4);
        }
    }
}

/// A token of each row, from the smallest set of tokens whose probabilities sum to `p`.
#[kernel]
fn top_p<const W: usize = 512>(
    p: f32,
    temperature: f32,
    chance: &Tensor<f32, M>,
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    token: &mut Tensor<i32, M>,
) {
    at_most(N, W);
    let row = tile(x, (1, W), (block.x, 0)) / temperature;
    let grown = exp(row - maximum(row));
    let probability = grown / sum(grown);
    let (mut low, mut high) = (full::<f32>(1, 0.0), full::<f32>(1, 1.0));
    for _ in 0..30 {
        let middle = 0.5 * (low + high);
        let enough = sum(if probability >= middle { probability } else { 0.0 }) >= p;
        (low, high) = if enough { (middle, high) } else { (low, middle) };
    }
    let kept = if probability >= low { probability } else { 0.0 };
    let running = scan(kept, 0.0, |a, b| a + b, mode = 1);
    let before = sum((running <= chance[(block.x)] * sum(kept)) as i32);
    copy(min(before, N - 1), tile(token, 1, block.x));
}

#[test]
fn tokens_of_the_nucleus() {
    let (m, p, temperature) = (7, 0.8, 0.7);
    for n in [1, 100, 512] {
        let (x, chance) =
            (drawn(m * n, 1), drawn(m, 2).into_iter().map(|x| (x + 4.0) / 8.01).collect::<Vec<_>>());
        let args = [
            Arg::number(p as f32),
            Arg::number(temperature as f32),
            Arg::tensor(&chance, [m]),
            rows(&x, m, n),
            Arg::output::<i32>([m]),
        ];
        for out in every(generated!(top_p()), &args) {
            for (i, token) in out.get::<i32>("token").unwrap().into_iter().enumerate() {
                let grown: Vec<f64> =
                    x[i * n..][..n].iter().map(|x| (f64::from(*x) / temperature).exp()).collect();
                let total: f64 = grown.iter().sum();
                let above: f64 = grown.iter().filter(|g| **g > grown[token as usize]).sum();
                assert!(above <= (p + 1e-3) * total, "{token} is not of the nucleus");
                let mut sorted = grown.clone();
                sorted.sort_by(|a, b| b.total_cmp(a));
                let mut sums = sorted.iter().scan(0.0, |sum, g| {
                    *sum += g;
                    Some((*sum, *g))
                });
                let least = sums.find(|(sum, _)| *sum >= p * total).map_or(0.0, |(_, g)| g);
                let kept = |j: usize| if grown[j] >= least * (1.0 - 1e-9) { grown[j] } else { 0.0 };
                let target = f64::from(chance[i]) * (0..n).map(kept).sum::<f64>();
                let upto = |token: usize| (0..token).map(kept).sum::<f64>();
                let slack = 1e-4 * total;
                assert!(upto(token as usize) <= target + slack && upto(token as usize + 1) >= target - slack);
            }
        }
    }
}

/// A linear layer and its adapter of low rank: y = x·wᵀ + s·(x·aᵀ)·bᵀ.
#[kernel]
fn lora(
    s: f32,
    x: &Tensor<bf16, (M, K), (ldx, _1)>,
    w: &Tensor<bf16, (N, K), (ldw, _1)>,
    a: &Tensor<bf16, (R, K), (lda, _1)>,
    b: &Tensor<bf16, (N, R), (ldb, _1)>,
    y: &mut Tensor<bf16, (M, N), (ldy, _1)>,
) {
    at_most(R, 16);
    let (gx, gw, ga) =
        (tile(x, (64, 32), (block.x, _)), tile(w, (64, 32), (block.y, _)), tile(a, (16, 32), (0, _)));
    let (sx, sw, sa) = (shared::<bf16>((64, 32)), shared::<bf16>((64, 32)), shared::<bf16>((16, 32)));
    let mma = tiled_mma::<bf16, f32>(warps = 4);
    let (mut acc, mut low) = (mma.accumulators((64, 64), 0.0), mma.accumulators((64, 16), 0.0));
    for k in pipelined(0..gx.size(2), stages = 3) {
        copy(gx[(_, _, k)], sx);
        copy(gw[(_, _, k)], sw);
        copy(ga[(_, _, k)], sa);
        gemm(sx, sw, &mut acc);
        gemm(sx, sa, &mut low);
    }
    let (sl, sb) = (shared::<bf16>((64, 16)), shared::<bf16>((64, 16)));
    copy(s * low, sl);
    copy(tile(b, (64, 16), (block.y, 0)), sb);
    gemm(sl, sb, &mut acc);
    copy(acc, tile(y, (64, 64), (block.x, block.y)));
}

#[test]
fn layers_have_adapters() {
    for (m, n, k, r) in [(1, 1, 1, 1), (64, 64, 64, 16), (70, 80, 45, 12)] {
        let (x, w, a, b) = (drawn(m * k, 1), drawn(n * k, 2), drawn(r * k, 3), drawn(n * r, 4));
        let [x, w, a, b] = [x, w, a, b].map(|t| halves(&t));
        let rows = |t: &[bf16], m: usize, n: usize| Arg::tensor(t, [m, n]).strides([n, 1]);
        let args = [
            Arg::number(0.5f32),
            rows(&x, m, k),
            rows(&w, n, k),
            rows(&a, r, k),
            rows(&b, n, r),
            Arg::output::<bf16>([m, n]).strides([n, 1]),
        ];
        near(lora().def(), &args, 1e-3);
    }
}

/// Linear attention with decay, in chunks: o(i) = Σ over j ≤ i of γ^(i-j) (q(i)·k(j)) v(j).
#[kernel(allow(bank_conflicts))]
fn retention<const C: usize = 32, const D: usize = 32>(
    decay: f32,
    q: &Tensor<f32, (L, D, H), (D, _1, hq)>,
    k: &Tensor<f32, (L, D, H), (D, _1, hk)>,
    v: &Tensor<f32, (L, D, H), (D, _1, hv)>,
    o: &mut Tensor<f32, (L, D, H), (D, _1, ho)>,
) {
    let chunks = |t| tile(t, (C, D, 1), (_, 0, block.x))[(_, _, 0, _)];
    let (q, k, v, o) = (chunks(q), chunks(k), chunks(v), chunks(o));
    let (sq, sk, sv) = (shared::<f32>((C, D)), shared::<f32>((C, D)), shared::<f32>((C, D)));
    let (sp, ss, sd) = (shared::<f32>((C, C)), shared::<f32>((D, D)), shared::<f32>((C, D)));
    let mut state = full::<f32>((D, D), 0.0); // (v, k)
    for c in 0..q.size(2) {
        copy(q[(_, _, c)], sq);
        copy(k[(_, _, c)], sk);
        copy(v[(_, _, c)], sv);
        let mut p = full::<f32>((C, C), 0.0);
        gemm(sq, sk, &mut p);
        let (i, j) = (iota((C, C), 0), iota((C, C), 1));
        copy(if j <= i { p * pow(decay, (i - j) as f32) } else { 0.0 }, sp);
        let row = iota((C, D), 0) as f32;
        copy(state, ss);
        let mut out = full::<f32>((C, D), 0.0);
        gemm(sq, ss, &mut out);
        out = out * pow(decay, row + 1.0);
        gemm(sp, permute(sv, (1, 0)), &mut out);
        copy(out, o[(_, _, c)]);
        copy(sk * pow(decay, C as f32 - 1.0 - row), sd);
        state = state * pow(decay, C as f32);
        gemm(permute(sv, (1, 0)), permute(sd, (1, 0)), &mut state);
    }
}

#[test]
fn memories_fade() {
    let (d, gamma) = (32, 0.9f64);
    for (l, h) in [(1, 1), (32, 2), (75, 2)] {
        let n = l * d * h;
        let (q, k, v) = (drawn(n, 1), drawn(n, 2), drawn(n, 3));
        let heads = |t: Arg| t.strides([d, 1, l * d]);
        let args = [
            Arg::number(gamma as f32),
            heads(Arg::tensor(&q, [l, d, h])),
            heads(Arg::tensor(&k, [l, d, h])),
            heads(Arg::tensor(&v, [l, d, h])),
            heads(Arg::output::<f32>([l, d, h])),
        ];
        written(retention().def(), &args);
    }
}

/// Likelihoods of sequences under a hidden Markov model: a block for each sequence, its states in shared memory.
#[kernel]
fn hidden_markov(
    start: &Tensor<f32, _32>,
    moves: &Tensor<f32, (_32, _32)>,
    emits: &Tensor<f32, (_32, V)>,
    lengths: &Tensor<i32, B>,
    seen: &Tensor<i32, (T, B)>,
    likelihood: &mut Tensor<f32, B>,
) {
    let moves = map(tile(moves, (32, 32), (0, 0)), |x| x);
    let emits = |t| tile(emits, (32, 1), (0, seen[(t, block.x)]))[(_, 0)];
    let alpha = shared::<f32>(32);
    copy(tile(start, 32, 0) + emits(0), alpha);
    for t in 1..lengths[(block.x)] {
        let paths = alpha.along(0) + moves;
        let most = maximum(paths, 0);
        let next = most + log(sum(exp(paths - most), 0));
        copy(next[(0, _)] + emits(t), alpha);
    }
    let most = maximum(alpha);
    copy(most + log(sum(exp(alpha - most))), tile(likelihood, 1, block.x));
}

#[test]
fn sequences_are_likely() {
    let (s, v, t, b) = (32, 5, 9, 3);
    let (start, moves, emits) = (drawn(s, 1), drawn(s * s, 2), drawn(s * v, 3));
    let (lengths, seen) = ([1, 9, 4], below(v as i32, t * b, 4));
    let mut wanted = vec![];
    for i in 0..b {
        let emit = |t: usize, j: usize| f64::from(emits[j + s * seen[t + 9 * i] as usize]);
        let mut alpha: Vec<f64> = (0..s).map(|j| f64::from(start[j]) + emit(0, j)).collect();
        for t in 1..lengths[i] as usize {
            let into = |j: usize| (0..s).map(|k| (alpha[k] + f64::from(moves[k + s * j])).exp()).sum::<f64>();
            alpha = (0..s).map(|j| into(j).ln() + emit(t, j)).collect();
        }
        wanted.push(alpha.iter().map(|a| a.exp()).sum::<f64>().ln());
    }
    let args = [
        Arg::tensor(&start, [s]),
        Arg::tensor(&moves, [s, s]),
        Arg::tensor(&emits, [s, v]),
        Arg::tensor(&lengths, [b]),
        Arg::tensor(&seen, [t, b]),
        Arg::output::<f32>([b]),
    ];
    right(generated!(hidden_markov()), &args, "likelihood", &wanted, 1e-4);
}

/// Weights of 4 bits: groups of 32 with a scale and a zero, two weights in a byte.
#[kernel(allow(bank_conflicts))]
fn pack_four_bits(
    x: &Tensor<f32, (_32, G)>,
    packed: &mut Tensor<u8, (_16, G)>,
    scales: &mut Tensor<f32, G>,
    zeros: &mut Tensor<u8, G>,
) {
    let x = map(tile(x, (32, 64), (0, block.x)), |x| x);
    let (least, most) = (min(minimum(x, 0), 0.0), max(maximum(x, 0), 0.0));
    let scale = max((most - least) / 15.0, 1e-8);
    let zero = round_ties_even(-least / scale);
    let q = min(max(round_ties_even(x / scale) + zero, 0.0), 15.0);
    let codes = shared::<u8>((32, 64));
    copy(q, codes);
    let pairs = regroup(codes, (2, 16, 64));
    copy(pairs[(0, _, _)] | (pairs[(1, _, _)] << 4), tile(packed, (16, 64), (0, block.x)));
    copy(scale[(0, _)], tile(scales, 64, block.x));
    copy(zero[(0, _)], tile(zeros, 64, block.x));
}

#[test]
fn weights_are_packed() {
    for g in [1, 64, 77] {
        let x = drawn(32 * g, 1);
        let args = [
            Arg::tensor(&x, [32, g]),
            Arg::output::<u8>([16, g]),
            Arg::output::<f32>([g]),
            Arg::output::<u8>([g]),
        ];
        near(pack_four_bits().def(), &args, 1e-6);
    }
}

/// The nearest centre of each row, by a product in tf32: the least |c|² - 2 x·c.
#[kernel]
fn nearest_by_product(
    x: &Tensor<f32, (M, K), (ldx, _1)>,
    c: &Tensor<f32, (N, K), (ldc, _1)>,
    nearest: &mut Tensor<i32, M>,
    distance: &mut Tensor<f32, M>,
) {
    let gx = tile(x, (64, 16), (block.x, _));
    let (sx, sc) = (shared::<tf32>((64, 16)), shared::<tf32>((64, 16)));
    let mma = tiled_mma::<tf32, f32>(warps = 4);
    let mut best = (full::<f32>((64, 1), f32::INFINITY), full::<i32>((64, 1), 0));
    let lesser = |(a, i), (b, j)| if (b < a) | ((b == a) & (j < i)) { (b, j) } else { (a, i) };
    for first in 0..ceil_div(N, 64) {
        let gc = tile(c, (64, 16), (first, _));
        let mut acc = mma.accumulators((64, 64), 0.0);
        let mut squares = full::<f32>((64, 1), 0.0);
        for k in 0..gx.size(2) {
            copy(gx[(_, _, k)], sx);
            copy(gc[(_, _, k)], sc);
            gemm(sx, sc, &mut acc);
            squares += sum(gc[(_, _, k)] * gc[(_, _, k)], 1);
        }
        let near = map((acc, squares[(_, 0)].along(1)), |dot, square, at| {
            if at.1 < N { (square - 2.0 * dot, at.1) } else { (f32::INFINITY, i32::MAX) }
        });
        let identity = (f32::INFINITY, i32::MAX);
        best = lesser(best, reduce(near, identity, lesser, mode = 1, out_of_bounds = identity));
    }
    copy(best.1[(_, 0)], tile(nearest, 64, block.x));
    copy(best.0[(_, 0)], tile(distance, 64, block.x));
}

#[test]
fn centres_by_products() {
    for (m, n, k) in [(1, 1, 1), (64, 64, 16), (70, 150, 20)] {
        let (x, c) = (below(7, m * k, 1), below(7, n * k, 2));
        let (x, c): (Vec<f32>, Vec<f32>) =
            (x.iter().map(|x| *x as f32).collect(), c.iter().map(|x| *x as f32).collect());
        let args = [rows(&x, m, k), rows(&c, n, k), Arg::output::<i32>([m]), Arg::output::<f32>([m])];
        written(nearest_by_product().def(), &args);
    }
}
