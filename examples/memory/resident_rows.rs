//! Few long rows, all at once: each of the C blocks of a cluster has W elements of one row, in P pieces. The first piece is in
//! registers. The others are in shared memory, and take nearly all of it. All copies are in flight at once, and each piece is
//! reduced when it arrives. The blocks exchange their results once.

use tilewright::prelude::*;

/// A thread's part of the pieces of a row that a block has: the first in registers, and the others in shared memory, each copied
/// by a separate commit group. There are `pieces` pieces of `width` elements.
#[device]
fn begun<T>(
    from: View,
    part: usize,
    pieces: usize,
    width: usize,
    threads: Arrangement,
    values: usize,
) -> (View, View) {
    let rest = tile(shared::<T>(layout!((1, (pieces - 1) * width))), (1, width), (0, _));
    let rest = parallelize(rest, threads, thread.x, values = (1, values));
    let first = map(from[(_, _, pieces * part)], |x| x);
    for p in 1..pieces {
        copy(from[(_, _, pieces * part + p)], rest[(_, _, p - 1)]);
        cp_async_commit();
    }
    (first, rest)
}

/// y = exp(x - max x) / Σ exp(x - max x) along rows.
#[kernel(T = f32 | f16 | bf16, arch = sm_90, overlaps)]
pub fn softmax_resident<
    T,
    const W: usize = 65536,
    const L: usize = 512,
    const V: usize = 4,
    const C: usize = 2,
    const P: usize = 8,
    const Q: usize = 1,
>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
) {
    use self::begun;
    use super::reductions::{merged, power};
    at_most(N, C * W);
    blocks_per_sm(Q);
    cluster(C);
    let (part, i) = walk((C, M), block.x);
    let threads = layout!((1, L));
    let from = parallelize(tile(x, (1, W / P), (i, _)), threads, thread.x, values = (1, V));
    let to = parallelize(tile(y, (1, W / P), (i, _)), threads, thread.x, values = (1, V));
    let (first, rest) = begun::<T>(from, part, P, W / P, threads, V);
    let inside = |x, _, at| if at.1 < N { x as f32 } else { f32::NEG_INFINITY };
    let piece = map((first, to[(_, _, P * part)]), inside);
    let mut most = max(maximum(piece, out_of_bounds = f32::NEG_INFINITY), f32::MIN);
    let mut total = sum(map((piece, most), |x, most| power(x, most)), out_of_bounds = 0.0);
    for p in 1..P {
        // This piece is in the oldest of the last P - 1 commit groups; an empty group keeps their number.
        cp_async_wait(P - 2);
        cp_async_commit();
        let piece = map((rest[(_, _, p - 1)], to[(_, _, P * part + p)]), inside);
        let next = max(most, maximum(piece, out_of_bounds = f32::NEG_INFINITY));
        let more = sum(map((piece, next), |x, most| power(x, most)), out_of_bounds = 0.0);
        (most, total) = map((most, next, total, more), |most, next, total, more| {
            (next, fma(total, power(most, next), more))
        });
    }
    let here = block_reduce(most, f32::MIN, |a, b| max(a, b), out_of_bounds = f32::MIN);
    let total = map((total, most, here), |total, most, here| total * power(most, here));
    let total = block_sum(total, out_of_bounds = 0.0);
    let merge = |(a, s), (b, t)| merged(a, s, b, t);
    let (most, total) = cluster_reduce(
        (here, total),
        (f32::MIN, 0.0),
        merge,
        out_of_bounds = (f32::MIN, 0.0),
        per_block = true,
    );
    let scale = map(total, |total| log2(total));
    let result = |x, most, scale| exp2(fma(1.4426950408889634, x as f32 - most, -scale));
    copy(map((first, most, scale), result), to[(_, _, P * part)]);
    for p in 1..P {
        copy(map((rest[(_, _, p - 1)], most, scale), result), to[(_, _, P * part + p)]);
    }
}

/// y = w · (x - mean x) / √(variance x + eps) + b along rows.
#[kernel(T = f32 | f16 | bf16, arch = sm_90)]
pub fn layernorm_resident<
    T,
    const W: usize = 65536,
    const L: usize = 512,
    const V: usize = 4,
    const C: usize = 2,
    const P: usize = 8,
    const Q: usize = 1,
>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    w: &Tensor<T, (_1, N), (ldw, _1)>,
    b: &Tensor<T, (_1, N), (ldb, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
    eps: f32,
) {
    use self::begun;
    use super::reductions::moments;
    at_most(N, C * W);
    blocks_per_sm(Q);
    cluster(C);
    let (part, i) = walk((C, M), block.x);
    let threads = layout!((1, L));
    let from = parallelize(tile(x, (1, W / P), (i, _)), threads, thread.x, values = (1, V));
    let scale = parallelize(tile(w, (1, W / P), (0, _)), threads, thread.x, values = (1, V));
    let bias = parallelize(tile(b, (1, W / P), (0, _)), threads, thread.x, values = (1, V));
    let to = parallelize(tile(y, (1, W / P), (i, _)), threads, thread.x, values = (1, V));
    let (first, rest) = begun::<T>(from, part, P, W / P, threads, V);
    // Differences from the mean of the first piece, so that their sums do not suffer from cancellation.
    let near = block_sum(sum(map(first, |x| x as f32), out_of_bounds = 0.0), out_of_bounds = 0.0);
    let near = map(near, |total| total / (max(min(N - W * part, W / P), 1) as f32));
    let off = |x, near, _, at| if at.1 < N { x as f32 - near } else { 0.0 };
    let far = map((first, near, to[(_, _, P * part)]), off);
    let (mut total, mut squares) = moments(far);
    for p in 1..P {
        // This piece is in the oldest of the last P - 1 commit groups; an empty group keeps their number.
        cp_async_wait(P - 2);
        cp_async_commit();
        let far = map((rest[(_, _, p - 1)], near, to[(_, _, P * part + p)]), off);
        total += sum(far, out_of_bounds = 0.0);
        squares += sum(map(far, |d| d * d), out_of_bounds = 0.0);
    }
    let add = |(a, s), (b, t)| (a + b, s + t);
    let (total, squares) = block_reduce((total, squares), (0.0, 0.0), add, out_of_bounds = (0.0, 0.0));
    let merge = |(n, mean, s), (k, other, t)| {
        let (off, part) = (other - mean, k / max(n + k, 1.0));
        (n + k, fma(off, part, mean), fma(off * off, n * part, s + t))
    };
    let here = map((near, total, squares), |near, total, squares| {
        let (n, off) = (max(min(N - W * part, W), 0) as f32, total / (max(min(N - W * part, W), 1) as f32));
        (n, near + off, max(fma(-off, total, squares), 0.0))
    });
    let (count, mean, squares) =
        cluster_reduce(here, (0.0, 0.0, 0.0), merge, out_of_bounds = (0.0, 0.0, 0.0), per_block = true);
    let factor = map((squares, count), |squares, n| rsqrt(squares / n + eps));
    let result = |x, mean, f, w, b| (x as f32 - mean) * f * (w as f32) + (b as f32);
    let (w, b) = (scale[(_, _, P * part)], bias[(_, _, P * part)]);
    copy(map((first, mean, factor, w, b), result), to[(_, _, P * part)]);
    for p in 1..P {
        let (w, b) = (scale[(_, _, P * part + p)], bias[(_, _, P * part + p)]);
        copy(map((rest[(_, _, p - 1)], mean, factor, w, b), result), to[(_, _, P * part + p)]);
    }
}

/// y = w · x / √(mean x² + eps) along rows.
#[kernel(T = f32 | f16 | bf16, arch = sm_90, overlaps)]
pub fn rmsnorm_resident<
    T,
    const W: usize = 65536,
    const L: usize = 512,
    const V: usize = 4,
    const C: usize = 2,
    const P: usize = 8,
    const Q: usize = 1,
>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    w: &Tensor<T, (_1, N), (ldw, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
    eps: f32,
) {
    use self::begun;
    at_most(N, C * W);
    blocks_per_sm(Q);
    cluster(C);
    let (part, i) = walk((C, M), block.x);
    let threads = layout!((1, L));
    let from = parallelize(tile(x, (1, W / P), (i, _)), threads, thread.x, values = (1, V));
    let scale = parallelize(tile(w, (1, W / P), (0, _)), threads, thread.x, values = (1, V));
    let to = parallelize(tile(y, (1, W / P), (i, _)), threads, thread.x, values = (1, V));
    let (first, rest) = begun::<T>(from, part, P, W / P, threads, V);
    let square = |x| (x as f32) * (x as f32);
    let mut squares = sum(map(first, square), out_of_bounds = 0.0);
    for p in 1..P {
        // This piece is in the oldest of the last P - 1 commit groups; an empty group keeps their number.
        cp_async_wait(P - 2);
        cp_async_commit();
        squares += sum(map(rest[(_, _, p - 1)], square), out_of_bounds = 0.0);
    }
    let factor = map(cluster_sum(squares, out_of_bounds = 0.0), |squares| rsqrt(squares / N as f32 + eps));
    let result = |x, f, w| x as f32 * f * (w as f32);
    copy(map((first, factor, scale[(_, _, P * part)]), result), to[(_, _, P * part)]);
    for p in 1..P {
        let made = map((rest[(_, _, p - 1)], factor, scale[(_, _, P * part + p)]), result);
        copy(made, to[(_, _, P * part + p)]);
    }
}
