//! Kernels of models as they are trained and served: norms, samplers, adapters, states, centres.

use tilewright::prelude::*;
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
    inputs(batch_norm().def())
        .set("momentum = 0.1")
        .with("means", |x| x)
        .with("variances", |x| x)
        .near(1e-3, ["C = 1, P = 2", "C = 32, P = 64", "C = 45, P = 150"]);
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
    inputs(top_p().def())
        .set("p = 0.8, temperature = 0.7")
        .with("chance", |x| (x + 4.0) / 8.01)
        .near(1e-6, ["M = 7, N = 1", "M = 7, N = 100", "M = 7, N = 512"]);
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
    let emitted = |t| tile(emits, (32, 1), (0, seen[(t, block.x)]))[(_, 0)];
    let alpha = shared::<f32>(32);
    copy(tile(start, 32, 0) + emitted(0), alpha);
    for t in 1..lengths[(block.x)] {
        let paths = alpha.along(0) + moves;
        let most = maximum(paths, 0);
        let next = most + log(sum(exp(paths - most), 0));
        copy(next[(0, _)] + emitted(t), alpha);
    }
    let most = maximum(alpha);
    copy(most + log(sum(exp(alpha - most))), tile(likelihood, 1, block.x));
}

#[test]
fn sequences_are_likely() {
    inputs(hidden_markov().def())
        .list("lengths", [1, 9, 4])
        .below("seen", 5)
        .near(1e-4, ["V = 5, T = 9, B = 3"]);
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
    inputs(pack_four_bits().def()).with("x", f64::sin).near(1e-6, ["G = 1", "G = 64", "G = 77"]);
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
