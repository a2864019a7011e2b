//! 20. Attention
//!
//! o = softmax(q·kᵀ)·v, without a matrix of all scores. A block has 32 queries, and loops over tiles of 16 keys. For each
//! query it keeps the maximum of the scores in `most`, the sum of weights in `total`, and the weighted sum of values in
//! `out`. Weights are relative to the maximum. If it grows, earlier weights must shrink:
//!
//! ```text
//! exp(s - most) · exp(most - now) = exp(s - now)
//! ```

use super::check::{Check, Goal, Writer, input, output};
use tilewright::KernelDef;
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
        // HOLE: out has weights relative to the earlier maximum.
        gemm(map(weights, |w| w as bf16), permute(sv, (1, 0)), &mut out);
        most = now;
    }
    copy(out / total, o);
}

pub(super) fn check(kernel: &KernelDef) -> Check {
    let (q, k, o) = (layout!((40, 16) : (16, 1)), layout!((50, 16) : (16, 1)), layout!((40, 16) : (16, 1)));
    let x = |[i, d]: [usize; 2]| (i * (d + 3) % 53) as f32 / 16.0;
    let half = |at| bf16::from_f32(x(at));
    let done = kernel.simulate(&[input(&q, half), input(&k, half), input(&k, half), output(&o)])?;
    let dot = |i, j| (0..16).map(|d| x([i, d]) * x([j, d])).sum::<f32>();
    let expected = |[i, d]: [usize; 2]| {
        let weights = || (0..50).map(|j| dot(i, j).exp());
        weights().enumerate().map(|(j, w)| w * x([j, d])).sum::<f32>() / weights().sum::<f32>()
    };
    Goal { tensor: "o", layout: o, writer: Writer::Block([32, 16]) }.compare_within(0.01, &done, expected)
}
