//! Rows that a cluster has in shared memory, all of them at once: each of its C blocks has K pieces of W elements, the
//! last of them in registers. Pieces are used as they arrive, that one first; one exchange within the cluster combines what its
//! threads know of the row, and a second pass over the pieces computes the results.

use tilewright::prelude::*;

/// y = exp(x - max x) / Σ exp(x - max x) along rows.
#[kernel(T = f32 | f16 | bf16)]
pub fn softmax_resident<
    T,
    const W: usize = 8192,
    const K: usize = 8,
    const L: usize = 1024,
    const V: usize = 4,
    const C: usize = 2,
>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
) {
    at_most(N, C * K * W);
    cluster(C);
    let (part, i) = walk((C, M), block.x);
    let threads = layout!((1, L));
    let from = parallelize(tile(x, (1, W), (i, _)), threads, thread.x, values = (1, V));
    let to = parallelize(tile(y, (1, W), (i, _)), threads, thread.x, values = (1, V));
    let kept = shared::<T>(layout!((1, (K - 1) * W) : (0, 1)));
    let kept = parallelize(tile(kept, (1, W), (0, _)), threads, thread.x, values = (1, V));
    let end = K * part + K - 1;
    let last = map(from[(_, _, end)], |x| x);
    for k in unroll(0..K - 1) {
        copy(from[(_, _, K * part + k)], kept[(_, _, k)]);
        cp_async_commit();
    }
    let inside = |x, _, at| if at.1 < N { x as f32 } else { f32::NEG_INFINITY };
    let last = map((last, to[(_, _, end)]), inside);

    // Maxima, and sums of exponentials relative to them.
    let power = |x, most| exp2(1.4426950408889634 * (x - most));
    let mut most = map(maximum(last, beyond = f32::NEG_INFINITY), |most| max(most, f32::MIN));
    let mut total = sum(map((last, most), power), beyond = 0.0);
    for k in unroll(0..K - 1) {
        cp_async_wait(K - 2 - k);
        let piece = map((kept[(_, _, k)], to[(_, _, K * part + k)]), inside);
        let next = map((most, maximum(piece, beyond = f32::NEG_INFINITY)), |a, b| max(a, b));
        let more = sum(map((piece, next), power), beyond = 0.0);
        (most, total) = map((most, next, total, more), |most, next, total, more| {
            (next, fma(total, power(most, next), more))
        });
    }
    let merge = |(m, s), (n, t)| {
        let less = power(-abs(m - n), 0.0);
        (max(m, n), if m > n { fma(t, less, s) } else { fma(s, less, t) })
    };
    let nothing = (f32::MIN, 0.0);
    let (most, total) = cluster_reduce((most, total), nothing, merge, beyond = nothing);

    let factor = map(total, |total| 1.0 / total);
    for k in unroll(0..K - 1) {
        let made = map((kept[(_, _, k)], most, factor), |x, most, factor| power(x as f32, most) * factor);
        copy(made, to[(_, _, K * part + k)]);
    }
    copy(map((last, most, factor), |x, most, factor| power(x, most) * factor), to[(_, _, end)]);
}

/// y = w · (x - mean x) / √(variance x + eps) + b along rows.
#[kernel(T = f32 | f16 | bf16)]
pub fn layernorm_resident<
    T,
    const W: usize = 8192,
    const K: usize = 8,
    const L: usize = 1024,
    const V: usize = 4,
    const C: usize = 2,
>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    w: &Tensor<T, (_1, N), (ldw, _1)>,
    b: &Tensor<T, (_1, N), (ldb, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
    eps: f32,
) {
    at_most(N, C * K * W);
    cluster(C);
    let (part, i) = walk((C, M), block.x);
    let threads = layout!((1, L));
    let from = parallelize(tile(x, (1, W), (i, _)), threads, thread.x, values = (1, V));
    let scale = parallelize(tile(w, (1, W), (0, _)), threads, thread.x, values = (1, V));
    let bias = parallelize(tile(b, (1, W), (0, _)), threads, thread.x, values = (1, V));
    let to = parallelize(tile(y, (1, W), (i, _)), threads, thread.x, values = (1, V));
    let kept = shared::<T>(layout!((1, (K - 1) * W) : (0, 1)));
    let kept = parallelize(tile(kept, (1, W), (0, _)), threads, thread.x, values = (1, V));
    let end = K * part + K - 1;
    let last = map(from[(_, _, end)], |x| x);
    for k in unroll(0..K - 1) {
        copy(from[(_, _, K * part + k)], kept[(_, _, k)]);
        cp_async_commit();
    }
    let last = map(last, |x| x as f32);

    // Counts, means, and sums of squared differences from them.
    let is_inside = |_, at| (at.1 < N) as f32;
    let square = |x, mean, _, at| if at.1 < N { (x as f32 - mean) * (x as f32 - mean) } else { 0.0 };
    let merge = |(n, mean, s), (k, other, t)| {
        let (off, part) = (other - mean, k / max(n + k, 1.0));
        (n + k, fma(off, part, mean), fma(off * off, n * part, s + t))
    };
    let mut count = sum(map(to[(_, _, end)], is_inside), beyond = 0.0);
    let mut mean = map((sum(last, beyond = 0.0), count), |total, n| total / max(n, 1.0));
    let mut squares = sum(map((last, mean, to[(_, _, end)]), square), beyond = 0.0);
    for k in unroll(0..K - 1) {
        cp_async_wait(K - 2 - k);
        let piece = map(kept[(_, _, k)], |x| x as f32);
        let more = sum(map(to[(_, _, K * part + k)], is_inside), beyond = 0.0);
        let other = map((sum(piece, beyond = 0.0), more), |total, n| total / max(n, 1.0));
        let off = sum(map((piece, other, to[(_, _, K * part + k)]), square), beyond = 0.0);
        (count, mean, squares) =
            map((count, mean, squares, more, other, off), |n, m, s, k, o, t| merge((n, m, s), (k, o, t)));
    }
    let nothing = (0.0, 0.0, 0.0);
    let (_, mean, squares) = cluster_reduce((count, mean, squares), nothing, merge, beyond = nothing);

    let factor = map(squares, |squares| rsqrt(squares / N as f32 + eps));
    let made = |x, mean, f, w, b| (x as f32 - mean) * f * (w as f32) + (b as f32);
    for k in unroll(0..K - 1) {
        let (w, b) = (scale[(_, _, K * part + k)], bias[(_, _, K * part + k)]);
        copy(map((kept[(_, _, k)], mean, factor, w, b), made), to[(_, _, K * part + k)]);
    }
    copy(map((last, mean, factor, scale[(_, _, end)], bias[(_, _, end)]), made), to[(_, _, end)]);
}

/// y = w · x / √(mean x² + eps) along rows.
#[kernel(T = f32 | f16 | bf16)]
pub fn rmsnorm_resident<
    T,
    const W: usize = 8192,
    const K: usize = 8,
    const L: usize = 1024,
    const V: usize = 4,
    const C: usize = 2,
>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    w: &Tensor<T, (_1, N), (ldw, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
    eps: f32,
) {
    at_most(N, C * K * W);
    cluster(C);
    let (part, i) = walk((C, M), block.x);
    let threads = layout!((1, L));
    let from = parallelize(tile(x, (1, W), (i, _)), threads, thread.x, values = (1, V));
    let scale = parallelize(tile(w, (1, W), (0, _)), threads, thread.x, values = (1, V));
    let to = parallelize(tile(y, (1, W), (i, _)), threads, thread.x, values = (1, V));
    let kept = shared::<T>(layout!((1, (K - 1) * W) : (0, 1)));
    let kept = parallelize(tile(kept, (1, W), (0, _)), threads, thread.x, values = (1, V));
    let end = K * part + K - 1;
    let last = map(from[(_, _, end)], |x| x);
    for k in unroll(0..K - 1) {
        copy(from[(_, _, K * part + k)], kept[(_, _, k)]);
        cp_async_commit();
    }
    let last = map(last, |x| x as f32);
    let square = |x| (x as f32) * (x as f32);
    let mut total = sum(map(last, square), beyond = 0.0);
    for k in unroll(0..K - 1) {
        cp_async_wait(K - 2 - k);
        total += sum(map(kept[(_, _, k)], square), beyond = 0.0);
    }
    let factor = map(cluster_sum(total, beyond = 0.0), |total| rsqrt(total / N as f32 + eps));
    let made = |x, f, w| x as f32 * f * (w as f32);
    for k in unroll(0..K - 1) {
        let w = scale[(_, _, K * part + k)];
        copy(map((kept[(_, _, k)], factor, w), made), to[(_, _, K * part + k)]);
    }
    copy(map((last, factor, scale[(_, _, end)]), made), to[(_, _, end)]);
}
