//! Rows at unaligned addresses, such as rows of 4097 elements of two bytes. A block's tile begins up to V - 1 elements before its
//! row, at an address aligned to vectors of V elements. Only the vectors at both ends of a row are moved element by
//! element. The rows of `x` and `y` have the same stride, so their vectors are aligned in the same way.

use tilewright::prelude::*;

/// y = exp(x - max x) / Σ exp(x - max x) along rows: the C blocks of a cluster have W elements of each row.
#[kernel(T = f32 | f16 | bf16)]
pub fn softmax_unaligned<
    T,
    const W: usize = 4608,
    const L: usize = 192,
    const V: usize = 4,
    const C: usize = 1,
    const Q: usize = 0,
>(
    x: &Tensor<T, (M, N), (ld, _1)>,
    y: &mut Tensor<T, (M, N), (ld, _1)>,
) {
    at_most(N, C * W + 1 - V);
    blocks_per_sm(Q);
    cluster(C);
    let (part, i) = walk((C, M), block.x);
    let (before, threads) = (i * ld % V, layout!((1, L)));
    let from = shift(tile(x, (1, W), (i, part)), (0, -before));
    let to = shift(tile(y, (1, W), (i, part)), (0, -before));
    let (from, to) = (
        parallelize(from, threads, thread.x, values = (1, V)),
        parallelize(to, threads, thread.x, values = (1, V)),
    );
    let row = registers_like::<f32>(from, 0.0);
    // Elements after the end of the row are minus infinity; exp of it is 0.
    copy(from, row, fill = f32::NEG_INFINITY);
    let most = cluster_maximum(maximum(row, beyond = f32::NEG_INFINITY), beyond = f32::NEG_INFINITY);
    let grown = map((row, most), |x, most| exp2(1.4426950408889634 * (x - most)));
    let total = cluster_sum(sum(grown, beyond = 0.0), beyond = 0.0);
    let factor = map(total, |total| 1.0 / total);
    copy(map((grown, factor), |x, factor| x * factor), to);
}

/// y = w · x / √(mean x² + eps) along rows. Weights come from the L1 cache, element by element.
#[kernel(T = f32 | f16 | bf16, allow(uncoalesced))]
pub fn rmsnorm_unaligned<
    T,
    const W: usize = 4608,
    const L: usize = 192,
    const V: usize = 4,
    const C: usize = 1,
    const Q: usize = 0,
>(
    x: &Tensor<T, (M, N), (ld, _1)>,
    w: &Tensor<T, (_1, N), (ldw, _1)>,
    y: &mut Tensor<T, (M, N), (ld, _1)>,
    eps: f32,
) {
    at_most(N, C * W + 1 - V);
    blocks_per_sm(Q);
    cluster(C);
    let (part, i) = walk((C, M), block.x);
    let (before, threads) = (i * ld % V, layout!((1, L)));
    let from = shift(tile(x, (1, W), (i, part)), (0, -before));
    let to = shift(tile(y, (1, W), (i, part)), (0, -before));
    let (from, to) = (
        parallelize(from, threads, thread.x, values = (1, V)),
        parallelize(to, threads, thread.x, values = (1, V)),
    );
    let scale =
        parallelize(shift(tile(w, (1, W), (0, part)), (0, -before)), threads, thread.x, values = (1, V));
    let (row, w) = (registers_like::<f32>(from, 0.0), registers_like(scale, 0.0));
    copy(from, row);
    copy(scale, w);
    let squares = cluster_sum(sum(map(row, |x| x * x)));
    let factor = map(squares, |squares| rsqrt(squares / N as f32 + eps));
    copy(map((row, factor, w), |x, f, w| x * f * (w as f32)), to);
}

/// Cumulative sums along rows: each of L threads scans a vector of V neighbouring elements.
#[kernel(T = f32 | f16 | bf16)]
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
