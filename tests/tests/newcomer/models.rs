//! Kernels of models as they are trained and served: norms, samplers, adapters, states.

use crate::{below, close, drawn, every, generated, right, rows};
use tilewright::prelude::*;
use tilewright_sim::Arg;
use tilewright_tests::inputs::inputs;

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
    inputs(lora().def()).set("s = 0.5").near(
        1e-3,
        ["M = 1, N = 1, K = 1, R = 1", "M = 64, N = 64, K = 64, R = 16", "M = 70, N = 80, K = 45, R = 12"],
    );
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
    inputs(retention().def()).set("decay = 0.9").written(["L = 1, H = 1", "L = 32, H = 2", "L = 75, H = 2"]);
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
        tilewright_fuzz::near(pack_four_bits().def(), &args, 1e-6);
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
    let integers = |x: f64| x.round();
    inputs(nearest_by_product().def()).with("x", integers).with("c", integers).written([
        "M = 1, N = 1, K = 1",
        "M = 64, N = 64, K = 16",
        "M = 70, N = 150, K = 20",
    ]);
}
