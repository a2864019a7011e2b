//! Attention of a training step or of a prompt, for Hopper: wgmma, and a producer warp that copies keys and values in bulk.

use tilewright::prelude::*;

/// o = softmax(scale · q·kᵀ) · v for each head and batch, with a positive scale, and lse, the natural logarithms of the sums of exponentials.
///
/// H / J heads of queries share a head of keys. Query i has the position i + N - M. With `CAUSAL = 1` it sees no later key, and with
/// `WINDOW = 1` no key more than `left` before its position. With `SOFTCAP = 1` a score s becomes cap · tanh(s / cap), with the error of
/// `fast_tanh`. Each sum has the exponential of the head's number of `sinks` too. A query that sees no key gets 0.
///
/// `OVERLAP` is the schedule of products. 0 waits for each product. With 1 the next product of queries and keys overlaps this softmax.
/// With 2 that product starts before this product with values, which overlaps the next softmax.
#[kernel(T = f16 | bf16, arch = 90, allow(unused), choose((BM, BN) in [(128, 128), (128, 176), (128, 80), (64, 128)]))]
pub fn attention_forward<
    T,
    const BM: usize,
    const BN: usize,
    const D: usize = 128,
    const CAUSAL: usize = 0,
    const WINDOW: usize = 0,
    const SOFTCAP: usize = 0,
    const OVERLAP: usize = 2,
>(
    scale: f32,
    left: i32,
    cap: f32,
    q: &Tensor<T, (M, D, H, B), (ldq, _1, head_q, batch_q)>,
    k: &Tensor<T, (N, D, J, B), (ldk, _1, head_k, batch_k)>,
    v: &Tensor<T, (N, D, J, B), (ldv, _1, head_v, batch_v)>,
    sinks: Option<&Tensor<f32, H>>,
    o: &mut Tensor<T, (M, D, H, B), (ldo, _1, head_o, batch_o)>,
    lse: Option<&mut Tensor<f32, (M, H, B), (_1, head_l, batch_l)>>,
) {
    // With a mask the last queries see the most keys: these blocks begin first.
    let row = ceil_div(M, BM) - 1 - walk(ceil_div(M, BM), block.x);
    let (head, batch) = (block.y, block.z);
    let shared_head = head * J / H;
    let gq = tile(q, (BM, D, 1, 1), (row, 0, head, batch))[(_, _, 0, 0)];
    let gk = tile(k, (BN, D, 1, 1), (_, 0, shared_head, batch));
    let gv = tile(v, (BN, D, 1, 1), (_, 0, shared_head, batch));
    let (sq, sk, sv) = (shared::<T>((BM, D)), shared::<T>((BN, D)), shared::<T>((BN, D)));
    copy(gq, sq);

    let mma = tiled_mma::<T, f32>(warpgroups = BM / 64);
    let mut out = mma.accumulators((BM, D), 0.0);
    // Scores are compared as powers of two: exp(scale · s) is exp2(unit · s).
    let unit = if SOFTCAP == 1 { cap * 1.442695 } else { scale * 1.442695 };
    let mut most = full::<f32>((BM, 1), f32::MIN);
    let mut total = full::<f32>((BM, 1), 0.0);
    if let Some(sinks) = sinks {
        let sink = sinks[(head)];
        fill(most, max(sink * 1.442695, f32::MIN));
        fill(total, 1.0);
    }

    // Query i sees keys up to i + last. Keys that no query of this block sees are not loaded.
    let last = N - M;
    let seen = if CAUSAL == 1 { min(N, max(0, (row + 1) * BM + last)) } else { N };
    let first = if WINDOW == 1 { max(0, row * BM + last - left) / BN } else { 0 };
    for n in pipelined(first..ceil_div(seen, BN), stages = 2, producer = warp) {
        copy(gk[(_, _, 0, 0, n)], sk);
        copy(gv[(_, _, 0, 0, n)], sv);
        let mut scores = mma.accumulators((BM, BN), 0.0);
        gemm(sq, sk, &mut scores);
        if OVERLAP == 1 {
            stage(1);
        }
        if OVERLAP == 2 {
            stage(0, order = 2);
        }
        if SOFTCAP == 1 {
            scores = map(scores, |s| fast_tanh(s * (scale / cap)));
        }
        // Only the last tiles, and with a window the first ones, have keys that some query of this block does not see.
        let until = if CAUSAL == 1 { min(N, row * BM + last + 1) } else { N };
        if (n + 1) * BN > until || (WINDOW == 1 && n * BN < (row + 1) * BM + last - left) {
            scores = map(scores, |s, at| {
                let no_later = (CAUSAL == 0) | (at.1 <= at.0 + last);
                let in_window = (WINDOW == 0) | (at.1 >= at.0 + last - left);
                if (at.1 < N) & no_later & in_window { s } else { f32::NEG_INFINITY }
            });
        }
        let mut shrink = full::<f32>((BM, 1), 1.0);
        // The condition is always true. It keeps the compiler from moving the wait for the previous product before the softmax.
        if scale > 0.0 {
            let now =
                map((most, maximum(scores, 1, out_of_bounds = f32::NEG_INFINITY)), |m, s| max(m, s * unit));
            scores = map((scores, now), |s, m| exp2(s * unit - m));
            shrink = map((most, now), |m, now| exp2(m - now));
            total = map((total, shrink, sum(scores, 1, out_of_bounds = 0.0)), |t, c, w| t * c + w);
            most = now;
        }
        out = map((out, shrink), |o, c| o * c);
        let weights_half = map(scores, |w| w as T);
        if OVERLAP == 2 {
            stage(1, order = 1);
        }
        gemm(weights_half, permute(sv, (1, 0)), &mut out);
    }
    let go = tile(o, (BM, D, 1, 1), (row, 0, head, batch))[(_, _, 0, 0)];
    let inverse = map(total, |t| if t > 0.0 { 1.0 / t } else { 0.0 });
    copy(map((out, inverse), |o, i| o * i), go);
    if let Some(lse) = lse {
        let to = tile(lse, (BM, 1, 1), (row, head, batch))[(_, _, 0)];
        copy(map((most, total), |m, t| (m + log2(t)) * 0.6931472), to);
    }
}
