//! Rows at unaligned addresses, such as rows of 4097 elements of two bytes. A block's tile begins up to V - 1 elements before its
//! row, at an address aligned to vectors of V elements. Only the vectors at both ends of a row are moved element by
//! element. The rows of `x` and `y` have the same stride, so their vectors are aligned in the same way. Weights are aligned
//! otherwise. So they pass through shared memory once, and a cluster normalises rows that are a multiple of V apart. With G = 0 each
//! cluster has one row, and its weights stay in registers.

use tilewright::prelude::*;

/// y = exp(x - max x) / Σ exp(x - max x) along rows: the C blocks of a cluster have W elements of each row. With S > 0 the next S - 1 of
/// every V * G-th row are copied to shared memory meanwhile; else a cluster has one row.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn softmax_unaligned<
    T,
    const W: usize = 4608,
    const L: usize = 192,
    const V: usize = 4,
    const C: usize = 1,
    const G: usize = 0,
    const Q: usize = 0,
    const S: usize = 0,
>(
    x: &Tensor<T, (M, N), (ld, _1)>,
    y: &mut Tensor<T, (M, N), (ld, _1)>,
) {
    use super::long_rows::piece;
    use super::reductions::{merged, power, powers};
    at_most(N, C * W + 1 - V);
    blocks_per_sm(Q);
    cluster(C);
    let (part, group) = walk((C, if G > 0 { V * G } else { M }), block.x);
    let threads = layout!((1, L));
    let from = |i| piece(x, i, part, W, threads, V, i * ld % V);
    let to = |i| piece(y, i, part, W, threads, V, i * ld % V);
    let result = |row| {
        let (here, grown, total) = powers(row);
        let merge = |(a, s), (b, t)| merged(a, s, b, t);
        let none = (f32::MIN, 0.0);
        let (most, total) =
            cluster_reduce((here, total), none, merge, out_of_bounds = none, per_block = true);
        let factor = map((here, most, total), |here, most, total| power(here, most) / total);
        map((grown, factor), |x, factor| x * factor)
    };
    // Elements after the end of the row are minus infinity; exp of it is 0.
    if S > 0 {
        let rows = parallelize(shared::<T>(layout!((1, W))), threads, thread.x, values = (1, V));
        for k in pipelined(0..ceil_div(max(M - group, 0), V * G), stages = S) {
            let i = V * G * k + group;
            copy(from(i), rows, fill = f32::NEG_INFINITY);
            copy(result(map(rows, |x| x as f32)), to(i));
        }
    } else {
        let row = registers_like::<f32>(from(group), 0.0);
        copy(from(group), row, fill = f32::NEG_INFINITY);
        copy(result(row), to(group));
    }
}

/// A thread's weights of a row, whose first vector may begin before it, in shared memory. Each thread reads what it has written.
#[device]
fn weights<T>(from: View, width: usize, threads: Arrangement, values: usize) -> View {
    use super::long_rows::realigned;
    let own = parallelize(shared::<T>(layout!((1, width))), threads, thread.x, values = (1, values));
    copy(realigned(from), own);
    own
}

/// y = w · (x - mean x) / √(variance x + eps) + b along rows.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn layernorm_unaligned<
    T,
    const W: usize = 4608,
    const L: usize = 192,
    const V: usize = 4,
    const C: usize = 1,
    const G: usize = 16,
    const Q: usize = 0,
>(
    x: &Tensor<T, (M, N), (ld, _1)>,
    w: &Tensor<T, (_1, N), (ldw, _1)>,
    b: &Tensor<T, (_1, N), (ldb, _1)>,
    y: &mut Tensor<T, (M, N), (ld, _1)>,
    eps: f32,
) {
    use self::weights;
    use super::long_rows::{both_realigned, piece};
    use super::reductions::{factor_of, moments};
    at_most(N, C * W + 1 - V);
    blocks_per_sm(Q);
    cluster(C);
    let (part, group) = walk((C, if G > 0 { V * G } else { M }), block.x);
    let (before, threads) = (group * ld % V, layout!((1, L)));
    let from = |i| piece(x, i, part, W, threads, V, i * ld % V);
    let to = |i| piece(y, i, part, W, threads, V, i * ld % V);
    let first = |i| parallelize(tile(x, (1, 1), (i, 0)), threads, thread.x, (1, _));
    let (row, near) =
        (registers_like(from(min(group, M - 1)), 0), registers_like(first(min(group, M - 1)), 0));
    copy(from(min(group, M - 1)), row);
    copy(first(min(group, M - 1)), near);
    let own = |of| piece(of, 0, part, W, threads, V, before);
    let shared = |of| weights::<T>(own(of), W, threads, V);
    let (w, b) = if G > 0 { (shared(w), shared(b)) } else { both_realigned(own(w), own(b)) };
    for k in 0..(if G > 0 { ceil_div(M - group, V * G) } else { 1 }) {
        let i = V * G * k + group;
        // Differences from the first element, so that their sums suffer less from cancellation.
        let off = |x, _, near, at| if at.1 >= 0 && at.1 < N { x as f32 - (near as f32) } else { 0.0 };
        let off = map((row, to(i), near), off);
        let (total, squares) = cluster_reduce(
            moments(off),
            (0.0, 0.0),
            |(a, s), (b, t)| (a + b, s + t),
            out_of_bounds = (0.0, 0.0),
        );
        let mean = map((near, total), |near, total| near as f32 + total / N as f32);
        let factor = map((total, squares), |total, squares| factor_of(total, squares, N as f32, eps));
        let made = map((row, mean, factor, w, b), |x, mean, f, w, b| {
            (x as f32 - mean) * f * (w as f32) + (b as f32)
        });
        if G > 0 {
            copy(from(i + V * G), row);
            copy(first(i + V * G), near);
        }
        copy(made, to(i));
    }
}

/// y = w · x / √(mean x² + eps) along rows.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn rmsnorm_unaligned<
    T,
    const W: usize = 4608,
    const L: usize = 192,
    const V: usize = 4,
    const C: usize = 1,
    const G: usize = 16,
    const Q: usize = 0,
>(
    x: &Tensor<T, (M, N), (ld, _1)>,
    w: &Tensor<T, (_1, N), (ldw, _1)>,
    y: &mut Tensor<T, (M, N), (ld, _1)>,
    eps: f32,
) {
    use self::weights;
    use super::long_rows::{piece, realigned};
    at_most(N, C * W + 1 - V);
    blocks_per_sm(Q);
    cluster(C);
    let (part, group) = walk((C, if G > 0 { V * G } else { M }), block.x);
    let (before, threads) = (group * ld % V, layout!((1, L)));
    let from = |i| piece(x, i, part, W, threads, V, i * ld % V);
    let to = |i| piece(y, i, part, W, threads, V, i * ld % V);
    let row = registers_like(from(min(group, M - 1)), 0);
    copy(from(min(group, M - 1)), row);
    let own = piece(w, 0, part, W, threads, V, before);
    let w = if G > 0 { weights::<T>(own, W, threads, V) } else { realigned(own) };
    for k in 0..(if G > 0 { ceil_div(M - group, V * G) } else { 1 }) {
        let i = V * G * k + group;
        let squares = cluster_sum(sum(map(row, |x| (x as f32) * (x as f32)), out_of_bounds = 0.0));
        let factor = map(squares, |squares| rsqrt(squares / N as f32 + eps));
        let made = map((row, factor, w), |x, f, w| x as f32 * f * (w as f32));
        if G > 0 {
            copy(from(i + V * G), row);
        }
        copy(made, to(i));
    }
}

/// Cumulative sums along rows: each of L threads scans a vector of V neighbouring elements.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn cumulative_sums_vectors<T, const L: usize = 544, const V: usize = 8, const Q: usize = 0>(
    x: &Tensor<T, (M, N), (ld, _1)>,
    y: &mut Tensor<T, (M, N), (ld, _1)>,
) {
    blocks_per_sm(Q);
    let (i, threads) = (block.x, layout!((1, L)));
    let before = i * ld % V;
    let mut total = registers::<f32>((1, 1), 0.0);
    for k in 0..ceil_div(N + before, L * V) {
        let from = shift(tile(x, (1, L * V), (i, k)), (0, -before));
        let to = shift(tile(y, (1, L * V), (i, k)), (0, -before));
        let from = parallelize(from, threads, thread.x, values = (1, V));
        let piece = registers_like::<f32>(from, 0.0);
        copy(from, piece);
        let mut all = registers::<f32>((1, 1), 0.0);
        let sums = scan(piece, 0.0, |a, b| a + b, mode = 1, carry = &mut all);
        let before = block_scan(all, 0.0, |a, b| a + b, exclusive = true, carry = &mut total);
        let made = map((sums, before), |sum, before| before + sum);
        copy(made, parallelize(to, threads, thread.x, values = (1, V)));
    }
}
