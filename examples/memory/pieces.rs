//! Few long rows, in two launches: sums of the pieces of rows, then the results of each piece. A piece is a tile of W elements, and its
//! sums are rows 2 i and 2 i + 1 of `sums`. There are at most L pieces. The first piece of a row begins at an aligned address, up to V - 1 elements before it.

use tilewright::prelude::*;

/// Of each piece the sum of the differences from the row's first element, and the sum of their squares; with A = 0 of the elements.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn piece_moments<
    T,
    const W: usize = 8192,
    const L: usize = 512,
    const V: usize = 4,
    const A: usize = 1,
>(
    x: &Tensor<T, (M, N), (ld, _1)>,
    sums: &mut Tensor<f32, { (2 * M, ceil_div(N + V - 1, W)) }, (lds, _1)>,
) {
    use super::long_rows::piece;
    use super::reductions::moments;
    let (p, i) = walk((sums.size(1), M), block.x);
    let threads = layout!((1, L));
    let from = piece(x, i, p, W, threads, V, i * ld % V);
    let first = parallelize(tile(x, (1, 1), (i, 0)), threads, thread.x, (1, _));
    let (row, near) = (registers_like(from, 0), registers_like(first, 0));
    copy(from, row);
    copy(first, near);
    let off = |x, _, near, at| {
        if at.1 >= 0 && at.1 < N { x as f32 - (if A > 0 { near as f32 } else { 0.0 }) } else { 0.0 }
    };
    let off = map((row, from, near), off);
    let (total, squares) = block_reduce(moments(off), (0.0, 0.0), |(a, s), (b, t)| (a + b, s + t));
    let to = |row| parallelize(tile(sums, (1, 1), (row, p)), layout!((L, 1)), thread.x, ragged = true);
    copy(total, to(2 * i));
    copy(squares, to(2 * i + 1));
}

/// y = w · (x - mean x) / √(variance x + eps) + b along rows.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn layernorm_of_pieces<T, const W: usize = 8192, const L: usize = 512, const V: usize = 4>(
    x: &Tensor<T, (M, N), (ld, _1)>,
    w: &Tensor<T, (_1, N), (ldw, _1)>,
    b: &Tensor<T, (_1, N), (ldb, _1)>,
    sums: &Tensor<f32, { (2 * M, ceil_div(N + V - 1, W)) }, (lds, _1)>,
    y: &mut Tensor<T, (M, N), (ld, _1)>,
    eps: f32,
) {
    use super::long_rows::{both_realigned, piece};
    use super::reductions::factor_of;
    at_most(N, L * W + 1 - V);
    let (n, i) = walk((sums.size(1), M), block.x);
    // The last pieces are in the cache.
    let (p, threads, before) = (sums.size(1) - 1 - n, layout!((1, L)), i * ld % V);
    let own = |of, row| piece(of, row, p, W, threads, V, before);
    let row = map(own(x, i), |x| x);
    let (w_own, b_own) = both_realigned(own(w, 0), own(b, 0));
    let first = map(parallelize(tile(x, (1, 1), (i, 0)), threads, thread.x, (1, _)), |x| x as f32);
    let part = |row| map(parallelize(tile(sums, (1, L), (row, 0)), threads, thread.x), |x| x);
    let (total, square) = (block_sum(part(2 * i)), block_sum(part(2 * i + 1)));
    let mean = map((first, total), |near, total| near + total / N as f32);
    let factor = map((total, square), |total, square| factor_of(total, square, N as f32, eps));
    let made = |x, mean, f, w, b| (x as f32 - mean) * f * (w as f32) + (b as f32);
    copy(map((row, mean, factor, w_own, b_own), made), own(y, i));
}

/// y = w · x / √(mean x² + eps) along rows.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn rmsnorm_of_pieces<T, const W: usize = 8192, const L: usize = 512, const V: usize = 4>(
    x: &Tensor<T, (M, N), (ld, _1)>,
    w: &Tensor<T, (_1, N), (ldw, _1)>,
    sums: &Tensor<f32, { (2 * M, ceil_div(N + V - 1, W)) }, (lds, _1)>,
    y: &mut Tensor<T, (M, N), (ld, _1)>,
    eps: f32,
) {
    use super::long_rows::{piece, realigned};
    at_most(N, L * W + 1 - V);
    let (n, i) = walk((sums.size(1), M), block.x);
    // The last pieces are in the cache.
    let (p, threads, before) = (sums.size(1) - 1 - n, layout!((1, L)), i * ld % V);
    let own = |of, row| piece(of, row, p, W, threads, V, before);
    let row = map(own(x, i), |x| x);
    let w_own = realigned(own(w, 0));
    let square = map(parallelize(tile(sums, (1, L), (2 * i + 1, 0)), threads, thread.x), |x| x);
    let factor = map(block_sum(square), |square| rsqrt(max(square, 0.0) / N as f32 + eps));
    copy(map((row, factor, w_own), |x, f, w| x as f32 * f * (w as f32)), own(y, i));
}

/// Of each piece the maximum, and the sum of exp(x - maximum).
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn piece_maxima<T, const W: usize = 8192, const L: usize = 512, const V: usize = 4>(
    x: &Tensor<T, (M, N), (ld, _1)>,
    sums: &mut Tensor<f32, { (2 * M, ceil_div(N + V - 1, W)) }, (lds, _1)>,
) {
    use super::long_rows::piece;
    use super::reductions::powers;
    let (p, i) = walk((sums.size(1), M), block.x);
    let from = piece(x, i, p, W, layout!((1, L)), V, i * ld % V);
    let row = registers_like::<f32>(from, 0.0);
    copy(from, row, fill = f32::NEG_INFINITY);
    let (most, _, total) = powers(row);
    let to = |row| parallelize(tile(sums, (1, 1), (row, p)), layout!((L, 1)), thread.x, ragged = true);
    copy(most, to(2 * i));
    copy(total, to(2 * i + 1));
}

/// y = exp(x - max x) / Σ exp(x - max x) along rows.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn softmax_of_pieces<T, const W: usize = 8192, const L: usize = 512, const V: usize = 4>(
    x: &Tensor<T, (M, N), (ld, _1)>,
    sums: &Tensor<f32, { (2 * M, ceil_div(N + V - 1, W)) }, (lds, _1)>,
    y: &mut Tensor<T, (M, N), (ld, _1)>,
) {
    use super::long_rows::piece;
    use super::reductions::{merged, power};
    at_most(N, L * W + 1 - V);
    let (n, i) = walk((sums.size(1), M), block.x);
    // The last pieces are in the cache.
    let (p, threads) = (sums.size(1) - 1 - n, layout!((1, L)));
    let part_of = |of| piece(of, i, p, W, threads, V, i * ld % V);
    let row = map(part_of(x), |x| x);
    let part = |row| parallelize(tile(sums, (1, L), (row, 0)), threads, thread.x);
    let merge = |(a, s), (b, t)| merged(a, s, b, t);
    // Of pieces that do not exist both are 0.
    let own = map((part(2 * i), part(2 * i + 1)), |most, total| {
        (if total > 0.0 { most } else { f32::MIN }, max(total, 0.0))
    });
    let (most, total) = block_reduce(own, (f32::MIN, 0.0), merge, out_of_bounds = (f32::MIN, 0.0));
    let factor = map(total, |total| 1.0 / total);
    copy(map((row, most, factor), |x, most, f| power(x as f32, most) * f), part_of(y));
}
