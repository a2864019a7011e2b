//! Gradients of attention for Hopper, in three launches: `attention_delta`, then `attention_grad_keys` and `attention_grad_queries`.
//! They have the options of `attention_forward`, and read the logarithms of sums that it writes.

use tilewright::prelude::*;

/// delta = the sum of o · grad_o over each row.
#[kernel(T = f16 | bf16)]
pub fn attention_delta<T, const D: usize = 128>(
    o: &Tensor<T, (M, D, H, B), (ldo, _1, head_o, batch_o)>,
    grad_o: &Tensor<T, (M, D, H, B), (ldg, _1, head_g, batch_g)>,
    delta: &mut Tensor<f32, (M, H, B), (_1, head_d, batch_d)>,
) {
    let o = tile(o, (32, D, 1, 1), (block.x, 0, block.y, block.z))[(_, _, 0, 0)];
    let g = tile(grad_o, (32, D, 1, 1), (block.x, 0, block.y, block.z))[(_, _, 0, 0)];
    let to = tile(delta, (32, 1, 1), (block.x, block.y, block.z))[(_, _, 0)];
    copy(sum(map((o, g), |o, g| o as f32 * g as f32), 1), to);
}

/// Gradients of keys and values. A block has a tile of keys, and loops over the queries of all heads that share it. With D = 256 there are
/// registers for one of the two results only: launch the kernel for each.
///
/// With `EARLY = 1` the product for values starts before slopes are computed. With `OVERLAP = 1` both last products of a tile overlap the
/// first products and exponentials of the next one. Both need more registers.
#[kernel(T = f16 | bf16, arch = 90, allow(unused), choose((BM, BN, EARLY) in [(64, 128, 0), (96, 128, 1), (32, 128, 0), (64, 64, 1)]))]
pub fn attention_grad_keys<
    T,
    const BM: usize,
    const BN: usize,
    const EARLY: usize,
    const D: usize = 128,
    const CAUSAL: usize = 0,
    const WINDOW: usize = 0,
    const SOFTCAP: usize = 0,
    const OVERLAP: usize = 0,
>(
    scale: f32,
    left: i32,
    cap: f32,
    q: &Tensor<T, (M, D, H, B), (ldq, _1, head_q, batch_q)>,
    k: &Tensor<T, (N, D, J, B), (ldk, _1, head_k, batch_k)>,
    v: &Tensor<T, (N, D, J, B), (ldv, _1, head_v, batch_v)>,
    grad_o: &Tensor<T, (M, D, H, B), (ldg, _1, head_g, batch_g)>,
    lse: &Tensor<f32, (M, H, B), (_1, head_l, batch_l)>,
    delta: &Tensor<f32, (M, H, B), (_1, head_d, batch_d)>,
    grad_k: Option<&mut Tensor<T, (N, D, J, B), (lddk, _1, head_dk, batch_dk)>>,
    grad_v: Option<&mut Tensor<T, (N, D, J, B), (lddv, _1, head_dv, batch_dv)>>,
) {
    let (column, shared_head, batch) = (block.x, block.y, block.z);
    let gk = tile(k, (BN, D, 1, 1), (column, 0, shared_head, batch))[(_, _, 0, 0)];
    let gv = tile(v, (BN, D, 1, 1), (column, 0, shared_head, batch))[(_, _, 0, 0)];
    let (sk, sv, sq, sg) =
        (shared::<T>((BN, D)), shared::<T>((BN, D)), shared::<T>((BM, D)), shared::<T>((BM, D)));
    let (sl, sd) = (shared::<f32>(BM), shared::<f32>(BM));
    copy(gk, sk);
    if let Some(_) = grad_k {
        copy(gv, sv);
    }
    let mma = tiled_mma::<T, f32>(warpgroups = BN / 64);
    let mut dk = mma.accumulators((BN, D), 0.0);
    let mut dv = mma.accumulators((BN, D), 0.0);

    let unit = if SOFTCAP == 1 { cap * 1.442695 } else { scale * 1.442695 };
    let last = N - M;
    let first = if CAUSAL == 1 { max(0, column * BN - last) / BM } else { 0 };
    let seen = if WINDOW == 1 { min(M, max(0, (column + 1) * BN - last + left)) } else { M };
    let count = max(0, ceil_div(seen, BM) - first);
    let group = H / J;
    for n in pipelined(0..group * count, stages = 2 + OVERLAP, producer = warp) {
        let head = shared_head * group + min(n / max(1, count), group - 1);
        let row = first + n % max(1, count);
        copy(tile(q, (BM, D, 1, 1), (row, 0, head, batch))[(_, _, 0, 0)], sq);
        copy(tile(grad_o, (BM, D, 1, 1), (row, 0, head, batch))[(_, _, 0, 0)], sg);
        copy(tile(lse, (BM, 1, 1), (row, head, batch))[(_, 0, 0)], sl);
        copy(tile(delta, (BM, 1, 1), (row, head, batch))[(_, 0, 0)], sd);
        let mut scores = mma.accumulators((BN, BM), 0.0);
        let mut grads = mma.accumulators((BN, BM), 0.0);
        gemm(sk, sq, &mut scores);
        if let Some(_) = grad_k {
            gemm(sv, sg, &mut grads);
        }
        stage(0, order = 2);
        if SOFTCAP == 1 {
            scores = map(scores, |s| fast_tanh(s * (scale / cap)));
        }
        let slopes = if SOFTCAP == 1 { map(scores, |t| 1.0 - t * t) } else { full::<f32>((1, 1), 1.0) };
        let until = if CAUSAL == 1 { row * BM + last + 1 } else { N + BN };
        // The condition is always true. It keeps the compiler from moving the wait for `grads` before the exponentials.
        if scale > 0.0 {
            scores = map((scores, sl.along(1)), |s, l| exp2(s * unit - l * 1.442695));
            if (column + 1) * BN > until || (WINDOW == 1 && column * BN < (row + 1) * BM + last - left) {
                scores = map(scores, |p, at| {
                    let no_later = (CAUSAL == 0) | (at.0 <= at.1 + last);
                    let in_window = (WINDOW == 0) | (at.0 >= at.1 + last - left);
                    if no_later & in_window { p } else { 0.0 }
                });
            }
        }
        let weights = map(scores, |p| p as T);
        if EARLY == 1 {
            if let Some(_) = grad_v {
                gemm(weights, permute(sg, (1, 0)), &mut dv);
            }
        }
        let slopes = map((scores, grads, sd.along(1), slopes), |p, g, d, s| (p * (g - d) * s) as T);
        if OVERLAP == 1 {
            stage(1, order = 1);
        }
        if EARLY == 0 {
            if let Some(_) = grad_v {
                gemm(weights, permute(sg, (1, 0)), &mut dv);
            }
        }
        if let Some(_) = grad_k {
            gemm(slopes, permute(sq, (1, 0)), &mut dk);
        }
    }
    if let Some(grad_v) = grad_v {
        copy(dv, tile(grad_v, (BN, D, 1, 1), (column, 0, shared_head, batch))[(_, _, 0, 0)]);
    }
    if let Some(grad_k) = grad_k {
        copy(dk * scale, tile(grad_k, (BN, D, 1, 1), (column, 0, shared_head, batch))[(_, _, 0, 0)]);
    }
}

/// Gradients of queries. A block has a tile of queries, and loops over the keys that they see. With `OVERLAP = 1` the last product of a tile
/// overlaps the first products and exponentials of the next one.
#[kernel(T = f16 | bf16, arch = 90, allow(unused), choose((BM, BN) in [(128, 128), (128, 48), (64, 128)]))]
pub fn attention_grad_queries<
    T,
    const BM: usize,
    const BN: usize,
    const D: usize = 128,
    const CAUSAL: usize = 0,
    const WINDOW: usize = 0,
    const SOFTCAP: usize = 0,
    const OVERLAP: usize = 0,
>(
    scale: f32,
    left: i32,
    cap: f32,
    q: &Tensor<T, (M, D, H, B), (ldq, _1, head_q, batch_q)>,
    k: &Tensor<T, (N, D, J, B), (ldk, _1, head_k, batch_k)>,
    v: &Tensor<T, (N, D, J, B), (ldv, _1, head_v, batch_v)>,
    grad_o: &Tensor<T, (M, D, H, B), (ldg, _1, head_g, batch_g)>,
    lse: &Tensor<f32, (M, H, B), (_1, head_l, batch_l)>,
    delta: &Tensor<f32, (M, H, B), (_1, head_d, batch_d)>,
    grad_q: &mut Tensor<T, (M, D, H, B), (lddq, _1, head_dq, batch_dq)>,
) {
    let row = ceil_div(M, BM) - 1 - walk(ceil_div(M, BM), block.x);
    let (head, batch) = (block.y, block.z);
    let shared_head = head * J / H;
    let gk = tile(k, (BN, D, 1, 1), (_, 0, shared_head, batch));
    let gv = tile(v, (BN, D, 1, 1), (_, 0, shared_head, batch));
    let (sq, sg, sk, sv) =
        (shared::<T>((BM, D)), shared::<T>((BM, D)), shared::<T>((BN, D)), shared::<T>((BN, D)));
    copy(tile(q, (BM, D, 1, 1), (row, 0, head, batch))[(_, _, 0, 0)], sq);
    copy(tile(grad_o, (BM, D, 1, 1), (row, 0, head, batch))[(_, _, 0, 0)], sg);
    let lse = map(tile(lse, (BM, 1, 1), (row, head, batch))[(_, _, 0)], |l| l * 1.442695);
    let delta = map(tile(delta, (BM, 1, 1), (row, head, batch))[(_, _, 0)], |d| d);
    let mma = tiled_mma::<T, f32>(warpgroups = BM / 64);
    let mut dq = mma.accumulators((BM, D), 0.0);

    let unit = if SOFTCAP == 1 { cap * 1.442695 } else { scale * 1.442695 };
    let last = N - M;
    let seen = if CAUSAL == 1 { min(N, max(0, (row + 1) * BM + last)) } else { N };
    let first = if WINDOW == 1 { max(0, row * BM + last - left) / BN } else { 0 };
    for n in pipelined(first..ceil_div(seen, BN), stages = 2 + OVERLAP, producer = warp) {
        copy(gk[(_, _, 0, 0, n)], sk);
        copy(gv[(_, _, 0, 0, n)], sv);
        let mut scores = mma.accumulators((BM, BN), 0.0);
        let mut grads = mma.accumulators((BM, BN), 0.0);
        gemm(sq, sk, &mut scores);
        gemm(sg, sv, &mut grads);
        stage(0, order = 2);
        if SOFTCAP == 1 {
            scores = map(scores, |s| fast_tanh(s * (scale / cap)));
        }
        let slopes = if SOFTCAP == 1 { map(scores, |t| 1.0 - t * t) } else { full::<f32>((1, 1), 1.0) };
        let until = if CAUSAL == 1 { min(N, row * BM + last + 1) } else { N };
        // The condition is always true. It keeps the compiler from moving the wait for `grads` before the exponentials.
        if scale > 0.0 {
            scores = map((scores, lse), |s, l| exp2(s * unit - l));
            if (n + 1) * BN > until || (WINDOW == 1 && n * BN < (row + 1) * BM + last - left) {
                scores = map(scores, |p, at| {
                    let no_later = (CAUSAL == 0) | (at.1 <= at.0 + last);
                    let in_window = (WINDOW == 0) | (at.1 >= at.0 + last - left);
                    if (at.1 < N) & no_later & in_window { p } else { 0.0 }
                });
            }
        }
        let slopes = map((scores, grads, delta, slopes), |p, g, d, s| (p * (g - d) * s) as T);
        if OVERLAP == 1 {
            stage(1, order = 1);
        }
        gemm(slopes, permute(sk, (1, 0)), &mut dq);
    }
    copy(dq * scale, tile(grad_q, (BM, D, 1, 1), (row, 0, head, batch))[(_, _, 0, 0)]);
}
