//! Attention for Hopper: the same as [`attention.rs`](attention.rs), but by wgmma, with keys and values copied in bulk
//! by a producer warp.
//!
//! ```console
//! $ cargo run --release --example attention_hopper
//! ```

use tilewright::prelude::*;

/// o = softmax(scale · q·kᵀ) · v for each head. A query sees the keys up to its own position, counted from the end; with
/// `CAUSAL = 0` it sees all.
///
/// `OVERLAP` is the schedule of products. 0 waits for each product. With 1 the next product of queries and keys overlaps this
/// softmax. With 2 that product starts before this product with values, which overlaps the next softmax. On an H200, 1 is
/// 1.08 times as fast as 0 at D = 128, and no faster at D = 64.
#[kernel(arch = 90)]
pub fn attention_hopper<
    const BM: usize = 128,
    const BN: usize = 128,
    const D: usize = 64,
    const CAUSAL: usize = 1,
    const OVERLAP: usize = 0,
>(
    q: &Tensor<bf16, (M, D, L), (ldq, _1, head_q)>,
    k: &Tensor<bf16, (N, D, L), (ldk, _1, head_k)>,
    v: &Tensor<bf16, (N, D, L), (ldv, _1, head_v)>,
    o: &mut Tensor<bf16, (M, D, L), (ldo, _1, head_o)>,
    scale: f32,
) {
    let head = block.y;
    let gq = tile(q, (BM, D, 1), (block.x, 0, head));
    let (gk, gv) = (tile(k, (BN, D, 1), (_, 0, head)), tile(v, (BN, D, 1), (_, 0, head)));
    let go = tile(o, (BM, D, 1), (block.x, 0, head));
    let (sq, sk, sv) = (shared::<bf16>((BM, D)), shared::<bf16>((BN, D)), shared::<bf16>((BN, D)));
    copy(gq[(_, _, 0)], sq);

    // Each warpgroup has whole rows of scores, so four lanes reduce each row, and the scores remain in registers as the left
    // operand of the second product.
    let mma = tiled_mma::<bf16, f32>(warpgroups = 2);
    let mut out = mma.accumulators((BM, D), 0.0);
    let mut most = full::<f32>((BM, 1), f32::MIN);
    let mut total = full::<f32>((BM, 1), 0.0);

    // exp(scale · s) is exp2(unit · s).
    let unit = scale * 1.442695;

    // Query i sees keys up to i + last. Without a mask, last is larger by M, so that each query sees all keys. Keys that no
    // query of this block sees are not loaded.
    let last = N - M + (1 - CAUSAL) * M;
    let seen = max(0, (block.x + 1) * BM + last);
    for n in pipelined(0..min(ceil_div(N, BN), ceil_div(seen, BN)), stages = 2, producer = warp) {
        copy(gk[(_, _, 0, n)], sk);
        copy(gv[(_, _, 0, n)], sv);
        let mut scores = mma.accumulators((BM, BN), 0.0);
        gemm(sq, sk, &mut scores);

        if OVERLAP == 1 {
            stage(1);
        }
        if OVERLAP == 2 {
            stage(0, order = 2);
        }
        // Only the last tiles have keys that some query of this block does not see.
        if (n + 1) * BN > min(N, block.x * BM + last + 1) {
            scores =
                map(scores, |s, at| if (at.1 <= at.0 + last) & (at.1 < N) { s } else { f32::NEG_INFINITY });
        }
        let now = map((most, maximum(scores, 1, out_of_bounds = f32::NEG_INFINITY)), |m, s| max(m, s));
        let weights = map((scores, now), |s, m| exp2((s - m) * unit));
        let shrink = map((most, now), |m, now| exp2((m - now) * unit));
        total = map((total, shrink, sum(weights, 1, out_of_bounds = 0.0)), |t, c, w| t * c + w);
        out = map((out, shrink), |o, c| o * c);
        let weights_bf16 = map(weights, |w| w as bf16);
        if OVERLAP == 2 {
            stage(1, order = 1);
        }
        gemm(weights_bf16, permute(sv, (1, 0)), &mut out);
        most = now;
    }
    // A query that sees no key gets 0.
    copy(map((out, total), |o, t| if t > 0.0 { o / t } else { 0.0 }), go[(_, _, 0)]);
}

fn main() {
    println!("{}", attention_hopper().source());
    println!("{}", attention_hopper().report());
}
