//! Rows of any length: each of the C blocks of a cluster reads every C-th tile of W elements twice: first to reduce the row, then
//! to write the result. The second time most of the row is in the L2 cache.

use tilewright::prelude::*;

/// y = exp(x - max x) / Σ exp(x - max x) along rows.
#[kernel(T = f32 | f16 | bf16)]
pub fn softmax_streamed<
    T,
    const W: usize = 4096,
    const L: usize = 512,
    const V: usize = 4,
    const C: usize = 16,
    const Q: usize = 2,
>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
) {
    use super::reductions::power;
    blocks_per_sm(Q);
    cluster(C);
    let (part, i) = walk((C, M), block.x);
    let threads = layout!((1, L));
    let from = parallelize(tile(x, (1, W), (i, _)), threads, thread.x, values = (1, V));
    let to = parallelize(tile(y, (1, W), (i, _)), threads, thread.x, values = (1, V));
    let (mut most, mut total) = (registers::<f32>((1, 1), f32::MIN), registers::<f32>((1, 1), 0.0));
    for k in 0..ceil_div(from.size(2), C) {
        let piece = registers_like::<f32>(from[(_, _, C * k + part)], 0.0);
        copy(from[(_, _, C * k + part)], piece, fill = f32::NEG_INFINITY);
        let next = map((most, maximum(piece, out_of_bounds = f32::NEG_INFINITY)), |a, b| max(a, b));
        let more = sum(map((piece, next), |x, most| power(x, most)), out_of_bounds = 0.0);
        (most, total) = map((most, next, total, more), |most, next, total, more| {
            (next, fma(total, power(most, next), more))
        });
    }
    let all = cluster_reduce(most, f32::MIN, |a, b| max(a, b), out_of_bounds = f32::MIN);
    let total = map((total, most, all), |total, most, all| total * power(most, all));
    let total = cluster_sum(total, out_of_bounds = 0.0);
    let factor = map(total, |total| 1.0 / total);
    for k in 0..ceil_div(from.size(2), C) {
        let at = C * k + part;
        copy(map((from[(_, _, at)], all, factor), |x, most, f| power(x as f32, most) * f), to[(_, _, at)]);
    }
}

/// y = w · (x - mean x) / √(variance x + eps) + b along rows.
#[kernel(T = f32 | f16 | bf16)]
pub fn layernorm_streamed<
    T,
    const W: usize = 4096,
    const L: usize = 512,
    const V: usize = 4,
    const C: usize = 16,
    const Q: usize = 2,
>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    w: &Tensor<T, (_1, N), (ldw, _1)>,
    b: &Tensor<T, (_1, N), (ldb, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
    eps: f32,
) {
    blocks_per_sm(Q);
    cluster(C);
    let (part, i) = walk((C, M), block.x);
    let threads = layout!((1, L));
    let from = parallelize(tile(x, (1, W), (i, _)), threads, thread.x, values = (1, V));
    let scale = parallelize(tile(w, (1, W), (0, _)), threads, thread.x, values = (1, V));
    let bias = parallelize(tile(b, (1, W), (0, _)), threads, thread.x, values = (1, V));
    let to = parallelize(tile(y, (1, W), (i, _)), threads, thread.x, values = (1, V));
    let merge = |(n, mean, s), (k, other, t)| {
        let (off, part) = (other - mean, k / max(n + k, 1.0));
        (n + k, fma(off, part, mean), fma(off * off, n * part, s + t))
    };
    let (mut count, mut mean) = (registers::<f32>((1, 1), 0.0), registers::<f32>((1, 1), 0.0));
    let mut squares = registers::<f32>((1, 1), 0.0);
    for k in 0..ceil_div(from.size(2), C) {
        let at = C * k + part;
        let piece = registers_like::<f32>(from[(_, _, at)], 0.0);
        copy(from[(_, _, at)], piece, fill = 0.0);
        let more = sum(map(to[(_, _, at)], |_, at| (at.1 < N) as f32), out_of_bounds = 0.0);
        let other = map((sum(piece, out_of_bounds = 0.0), more), |total, n| total / max(n, 1.0));
        let off = |x, mean, _, at| if at.1 < N { (x - mean) * (x - mean) } else { 0.0 };
        let off = sum(map((piece, other, to[(_, _, at)]), off), out_of_bounds = 0.0);
        (count, mean, squares) =
            map((count, mean, squares, more, other, off), |n, m, s, k, o, t| merge((n, m, s), (k, o, t)));
    }
    let total = map((mean, count), |mean, n| mean * n);
    let all = map(cluster_sum(total, out_of_bounds = 0.0), |total| total / N as f32);
    let squares = map((squares, count, mean, all), |s, n, mean, all| fma((mean - all) * (mean - all), n, s));
    let factor = map(cluster_sum(squares, out_of_bounds = 0.0), |squares| rsqrt(squares / N as f32 + eps));
    for k in 0..ceil_div(from.size(2), C) {
        let at = C * k + part;
        let made = |x, mean, f, w, b| (x as f32 - mean) * f * (w as f32) + (b as f32);
        copy(map((from[(_, _, at)], all, factor, scale[(_, _, at)], bias[(_, _, at)]), made), to[(_, _, at)]);
    }
}

/// y = w · x / √(mean x² + eps) along rows.
#[kernel(T = f32 | f16 | bf16)]
pub fn rmsnorm_streamed<
    T,
    const W: usize = 4096,
    const L: usize = 512,
    const V: usize = 4,
    const C: usize = 16,
    const Q: usize = 2,
>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    w: &Tensor<T, (_1, N), (ldw, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
    eps: f32,
) {
    blocks_per_sm(Q);
    cluster(C);
    let (part, i) = walk((C, M), block.x);
    let threads = layout!((1, L));
    let from = parallelize(tile(x, (1, W), (i, _)), threads, thread.x, values = (1, V));
    let scale = parallelize(tile(w, (1, W), (0, _)), threads, thread.x, values = (1, V));
    let to = parallelize(tile(y, (1, W), (i, _)), threads, thread.x, values = (1, V));
    let mut squares = registers::<f32>((1, 1), 0.0);
    for k in 0..ceil_div(from.size(2), C) {
        let piece = registers_like::<f32>(from[(_, _, C * k + part)], 0.0);
        copy(from[(_, _, C * k + part)], piece, fill = 0.0);
        squares += sum(map(piece, |x| x * x), out_of_bounds = 0.0);
    }
    let factor = map(cluster_sum(squares, out_of_bounds = 0.0), |squares| rsqrt(squares / N as f32 + eps));
    for k in 0..ceil_div(from.size(2), C) {
        let at = C * k + part;
        let made = |x, f, w| x as f32 * f * (w as f32);
        copy(map((from[(_, _, at)], factor, scale[(_, _, at)]), made), to[(_, _, at)]);
    }
}
