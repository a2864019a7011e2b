//! Two products; the first computes an operand of the second.

use crate::inputs;
use tilewright::prelude::*;

/// o = softmax(q·kᵀ / 8)·v, one tile of keys at a time, with an online softmax.
#[kernel]
fn attention<const BM: usize = 64, const BN: usize = 32>(
    q: &Tensor<bf16, { (128, 64) }, (_64, _1)>,
    k: &Tensor<bf16, { (96, 64) }, (_64, _1)>,
    v: &Tensor<bf16, { (64, 96) }, (_1, _64)>,
    o: &mut Tensor<f32, { (128, 64) }, (_64, _1)>,
) {
    let gk = tile(k, (BN, 64), (_, 0));
    let gv = tile(v, (64, BN), (0, _));
    let sq = shared::<bf16>((BM, 64));
    let (sk, sv) = (shared::<bf16>((BN, 64)), shared::<bf16>((64, BN)));
    copy(tile(q, (BM, 64), (block.x, 0)), sq);

    let mma = tiled_mma::<bf16, f32>(warps = 4);
    let mut out = mma.accumulators((BM, 64), 0.0);
    let mut most = full::<f32>((BM, 1), -1.0e30);
    let mut total = full::<f32>((BM, 1), 0.0);
    for n in 0..gk.size(2) {
        copy(gk[(_, _, n)], sk);
        copy(gv[(_, _, n)], sv);
        let mut scores = mma.accumulators((BM, BN), 0.0);
        gemm(sq, sk, &mut scores);
        let now = map((most, maximum(scores, 1)), |m, s| max(m, 0.125 * s));
        let weights = map((scores, now), |s, m| exp(0.125 * s - m));
        let shrink = map((most, now), |m, now| exp(m - now));
        total = map((total, shrink, sum(weights, 1)), |t, c, w| t * c + w);
        out = map((out, shrink), |o, c| o * c);
        gemm(map(weights, |w| w as bf16), sv, &mut out);
        most = now;
    }
    copy(map((out, total), |o, t| o / t), tile(o, (BM, 64), (block.x, 0)));
}

#[test]
fn attention_is_right() {
    inputs(attention().def()).near(0.01, [""]);
}
