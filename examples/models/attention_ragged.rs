//! Attention of sequences of several lengths, packed one after the other, for Hopper.

use tilewright::prelude::*;

/// [`attention_forward`](attention_forward.rs) for S sequences, with its options. The queries of sequence s are the rows from
/// `starts_q[s]` to `starts_q[s + 1]`, and its keys the rows from `starts_k[s]` on. Each block has BM queries of one sequence: an entry of
/// `tiles` has the sequence and the number of the tile in it. List the tiles with the most keys first, so that no long tile is last.
#[kernel(T = f16 | bf16, arch = 90, allow(unused), choose(BN in [128, 176, 80]))]
pub fn attention_ragged<
    T,
    const BN: usize,
    const BM: usize = 128,
    const D: usize = 128,
    const CAUSAL: usize = 0,
    const WINDOW: usize = 0,
    const SOFTCAP: usize = 0,
>(
    scale: f32,
    left: i32,
    cap: f32,
    tiles: &Tensor<i32, (W, _2), (_2, _1)>,
    starts_q: &Tensor<i32, { S + 1 }>,
    starts_k: &Tensor<i32, { S + 1 }>,
    q: &Tensor<T, (M, D, H), (ldq, _1, head_q)>,
    k: &Tensor<T, (N, D, J), (ldk, _1, head_k)>,
    v: &Tensor<T, (N, D, J), (ldv, _1, head_v)>,
    sinks: Option<&Tensor<f32, H>>,
    o: &mut Tensor<T, (M, D, H), (ldo, _1, head_o)>,
    lse: Option<&mut Tensor<f32, (M, H), (_1, head_l)>>,
) {
    let _ = walk(W, block.x);
    let (sequence, row, head) = (tiles[(block.x, 0)], tiles[(block.x, 1)], block.y);
    let (start_q, start_k) = (starts_q[(sequence)], starts_k[(sequence)]);
    let (end_q, end_k) = (starts_q[(sequence + 1)], starts_k[(sequence + 1)]);
    let shared_head = head * J / H;
    let (sq, sk, sv) = (shared::<T>((BM, D)), shared::<T>((BN, D)), shared::<T>((BN, D)));
    copy(shift(tile(q, (BM, D, 1), (row, 0, head))[(_, _, 0)], (start_q, 0)), sq);

    let mma = tiled_mma::<T, f32>(warpgroups = BM / 64);
    let mut out = mma.accumulators((BM, D), 0.0);
    let unit = if SOFTCAP == 1 { cap * 1.442695 } else { scale * 1.442695 };
    let mut most = full::<f32>((BM, 1), f32::MIN);
    let mut total = full::<f32>((BM, 1), 0.0);
    if let Some(sinks) = sinks {
        let sink = sinks[(head)];
        fill(most, max(sink * 1.442695, f32::MIN));
        fill(total, 1.0);
    }

    // Rows of all sequences are counted, so row i of q sees rows of k up to i + last.
    let (last, first_row) = (end_k - end_q, start_q + row * BM);
    let seen = if CAUSAL == 1 { min(end_k, first_row + BM + last) } else { end_k };
    let count = max(0, ceil_div(seen - start_k, BN));
    let first = if WINDOW == 1 { max(0, first_row + last - left - start_k) / BN } else { 0 };
    for n in pipelined(first..count, stages = 2, producer = warp) {
        copy(shift(tile(k, (BN, D, 1), (n, 0, shared_head))[(_, _, 0)], (start_k, 0)), sk);
        copy(shift(tile(v, (BN, D, 1), (n, 0, shared_head))[(_, _, 0)], (start_k, 0)), sv);
        let mut scores = mma.accumulators((BM, BN), 0.0);
        gemm(sq, sk, &mut scores);
        stage(0, order = 2);
        if SOFTCAP == 1 {
            scores = map(scores, |s| fast_tanh(s * (scale / cap)));
        }
        let column = start_k + n * BN;
        let until = if CAUSAL == 1 { min(end_k, first_row + last + 1) } else { end_k };
        if column + BN > until || (WINDOW == 1 && column < first_row + BM + last - left) {
            scores = map(scores, |s, at| {
                let no_later = (CAUSAL == 0) | (at.1 <= at.0 + last);
                let in_window = (WINDOW == 0) | (at.1 >= at.0 + last - left);
                if (at.1 < end_k) & no_later & in_window { s } else { f32::NEG_INFINITY }
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
        stage(1, order = 1);
        gemm(weights_half, permute(sv, (1, 0)), &mut out);
    }
    let inverse = map(total, |t| if t > 0.0 { 1.0 / t } else { 0.0 });
    copy(map((out, inverse), |o, i| (o * i) as T), sq);
    // Rows after the last query belong to another sequence.
    let rows = max(0, min(BM, end_q - first_row));
    for part in 0..rows / 16 {
        let to = tile(o, (16, D, 1), (row * (BM / 16) + part, 0, head))[(_, _, 0)];
        copy(tile(sq, (16, D), (part, 0)), shift(to, (start_q, 0)));
    }
    for r in rows / 16 * 16..rows {
        let to = tile(o, (1, D, 1), (row * BM + r, 0, head))[(_, _, 0)];
        copy(tile(sq, (1, D), (r, 0)), shift(to, (start_q, 0)));
    }
    if let Some(lse) = lse {
        let store = |m, t, i| {
            ((if first_row + i < end_q { first_row + i } else { -1 }, head), (m + log2(t)) * 0.6931472)
        };
        scatter((most, total, iota((BM, 1), 0)), lse, store, out_of_bounds = -1);
    }
}
