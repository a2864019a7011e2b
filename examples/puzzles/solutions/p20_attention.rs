//! `total` and `out` are sums of the same weights, so both shrink by the same factor. `shrink` is 1 if the maximum
//! does not grow.

use tilewright::prelude::*;

/// o = softmax(q·kᵀ)·v
#[kernel]
pub fn attention(
    q: &Tensor<bf16, (M, D), (ldq, _1)>,
    k: &Tensor<bf16, (N, D), (ldk, _1)>,
    v: &Tensor<bf16, (N, D), (ldv, _1)>,
    o: &mut Tensor<f32, (M, D), (ldo, _1)>,
) {
    at_most(D, 16);
    let (q, o) = (tile(q, (32, 16), (block.x, 0)), tile(o, (32, 16), (block.x, 0)));
    let (k, v) = (tile(k, (16, 16), (_, 0)), tile(v, (16, 16), (_, 0)));
    let (sq, sk, sv) = (shared::<bf16>((32, 16)), shared::<bf16>((16, 16)), shared::<bf16>((16, 16)));
    copy(q, sq);
    let mma = tiled_mma("mma_m16n8k16_bf16", layout!((2, 1)));
    let mut out = mma.accumulators((32, 16), 0.0);
    let (mut most, mut total) = (full::<f32>((32, 1), f32::MIN), full::<f32>((32, 1), 0.0));
    for n in pipelined(0..k.size(2), stages = 2) {
        copy(k[(_, _, n)], sk);
        copy(v[(_, _, n)], sv);
        let mut scores = mma.accumulators((32, 16), 0.0);
        gemm(sq, sk, &mut scores);
        let now = max(most, maximum(scores, 1));
        let weights = exp(scores - now);
        let shrink = exp(most - now);
        total = total * shrink + sum(weights, 1);
        out = map((out, shrink), |o, c| o * c);
        gemm(map(weights, |w| w as bf16), permute(sv, (1, 0)), &mut out);
        most = now;
    }
    copy(out / total, o);
}
