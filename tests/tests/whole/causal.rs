//! Attention of any size, with a causal mask.

use tilewright::prelude::*;
use tilewright_sim::{Arg, run_every};

use crate::elements::{bits, numbers, options};

/// o = softmax(q·kᵀ·scale)·v for each head, where a query sees the keys up to its own, counted from the end.
#[kernel]
fn causal<const BM: usize = 64, const BN: usize = 32, const D: usize = 64>(
    q: &Tensor<bf16, (M, D, H), (ldq, _1, headq)>,
    k: &Tensor<bf16, (N, D, H), (ldk, _1, headk)>,
    v: &Tensor<bf16, (N, D, H), (ldv, _1, headv)>,
    o: &mut Tensor<f32, (M, D, H), (ldo, _1, heado)>,
    scale: f32,
) {
    let gk = tile(k, (BN, D, 1), (_, 0, block.y));
    let gv = tile(v, (BN, D, 1), (_, 0, block.y));
    let sq = shared::<bf16>((BM, D));
    let (sk, sv) = (shared::<bf16>((BN, D)), shared::<bf16>((BN, D)));
    copy(tile(q, (BM, D, 1), (block.x, 0, block.y))[(_, _, 0)], sq);

    let mma = tiled_mma("mma_m16n8k16_bf16", layout!((4, 1)));
    let mut out = mma.accumulators((BM, D), 0.0);
    let mut most = full::<f32>((BM, 1), -1.0e30);
    let mut total = full::<f32>((BM, 1), 0.0);
    // Tiles of keys that no query of this block sees are not visited.
    let end = min(ceil_div(N, BN), ceil_div(max(0, (block.x + 1) * BM + N - M), BN));
    for n in pipelined(0..end, stages = 2) {
        copy(gk[(_, _, 0, n)], sk);
        copy(gv[(_, _, 0, n)], sv);
        let mut scores = mma.accumulators((BM, BN), 0.0);
        gemm(sq, sk, &mut scores);
        let seen = map(scores, |s, at| if (at.1 > at.0 + N - M) | (at.1 >= N) { -1.0e30 } else { s * scale });
        let now = map((most, maximum(seen, 1)), |m, s| max(m, s));
        let weights = map((seen, now), |s, m| if s > -1.0e30 { exp(s - m) } else { 0.0 });
        let shrink = map((most, now), |m, now| exp(m - now));
        total = map((total, shrink, sum(weights, 1)), |t, c, w| t * c + w);
        out = map((out, shrink), |o, c| o * c);
        gemm(map(weights, |w| w as bf16), permute(sv, (1, 0)), &mut out);
        most = now;
    }
    copy(
        map((out, total), |o, t| if t > 0.0 { o / t } else { 0.0 }),
        tile(o, (BM, D, 1), (block.x, 0, block.y))[(_, _, 0)],
    );
}

fn scaled(count: usize, seed: usize) -> Vec<f32> {
    numbers(count, seed).iter().map(|x| x / 8.0).collect()
}

/// Sizes that tiles do not divide, queries before and after keys, in every variant whose facts hold.
#[test]
fn attention_of_any_size_is_right() {
    const D: usize = 64;
    let kernel = causal().def().generate().unwrap();
    let mut ran = vec![false; kernel.variants.len()];
    for (m, n, heads, gap) in [(64, 64, 2, 0), (70, 45, 1, 8), (33, 101, 2, 8), (1, 1, 1, 0), (5, 130, 1, 3)]
    {
        let ld = D + gap;
        let (q, k, v) = (scaled(m * ld * heads, 1), scaled(n * ld * heads, 2), scaled(n * ld * heads, 3));
        let (bits_of_q, bits_of_k, bits_of_v) = (bits(&q), bits(&k), bits(&v));
        let args = [
            Arg::tensor(&bits_of_q, [m, D, heads]).strides([ld, 1, m * ld]),
            Arg::tensor(&bits_of_k, [n, D, heads]).strides([ld, 1, n * ld]),
            Arg::tensor(&bits_of_v, [n, D, heads]).strides([ld, 1, n * ld]),
            Arg::output::<f32>([m, D, heads]).strides([ld, 1, m * ld]),
            Arg::number(0.125f32),
        ];
        for outcome in run_every(&kernel, &args, &options()).unwrap_or_else(|e| panic!("{m} {n}: {e}")) {
            ran[outcome.variant()] = true;
            let got = outcome.get::<f32>("o").unwrap();
            for (head, i) in (0..heads).flat_map(|head| (0..m).map(move |i| (head, i))) {
                let at = |all: &[f32], rows: usize, row: usize, l: usize| {
                    f64::from(all[head * rows * ld + row * ld + l])
                };
                let seen = (i + 1 + n).saturating_sub(m).min(n);
                let scores: Vec<f64> = (0..seen)
                    .map(|j| (0..D).map(|l| at(&q, m, i, l) * at(&k, n, j, l)).sum::<f64>() * 0.125)
                    .collect();
                let most = scores.iter().fold(f64::NEG_INFINITY, |m, x| m.max(*x));
                let grown: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
                let total: f64 = grown.iter().sum();
                for l in 0..D {
                    let sum: f64 = (0..seen).map(|j| grown[j] * at(&v, n, j, l)).sum();
                    let wanted = if seen == 0 { 0.0 } else { sum / total };
                    let got = f64::from(got[head * m * ld + i * ld + l]);
                    assert!(
                        (got - wanted).abs() < 0.02,
                        "{m} {n}, variant {}: ({i}, {l}): {got} {wanted}",
                        outcome.variant()
                    );
                }
            }
        }
    }
    assert!(ran.iter().all(|ran| *ran), "{ran:?}");
}
