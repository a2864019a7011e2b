//! Rows kept in registers: each is read once and written once. The `…_row` kernels use a cluster of C blocks
//! for each row; one block suffices up to about 16,384 elements. The `…_rows` kernels use G lanes of a warp
//! for R rows at a time.

use tilewright::prelude::*;

/// y = exp(x - max x) / Σ exp(x - max x) along rows: the C blocks of a cluster have W elements of each row.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn softmax_row<
    T,
    const W: usize = 8192,
    const L: usize = 512,
    const V: usize = 4,
    const C: usize = 1,
    const Q: usize = 0,
>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
) {
    at_most(N, C * W);
    blocks_per_sm(Q);
    cluster(C);
    let (part, i) = walk((C, x.size(0)), block.x);
    let threads = layout!((1, L));
    let from = parallelize(tile(x, (1, W), (i, part)), threads, thread.x, values = (1, V));
    let to = parallelize(tile(y, (1, W), (i, part)), threads, thread.x, values = (1, V));
    let row = registers_like::<f32>(from, 0.0);
    // Elements after the end of the row are minus infinity; exp of it is 0.
    copy(from, row, fill = f32::NEG_INFINITY);
    let most =
        cluster_maximum(maximum(row, out_of_bounds = f32::NEG_INFINITY), out_of_bounds = f32::NEG_INFINITY);
    let grown = map((row, most), |x, most| exp2(1.4426950408889634 * (x - most)));
    let total = cluster_sum(sum(grown, out_of_bounds = 0.0), out_of_bounds = 0.0);
    let factor = map(total, |total| 1.0 / total);
    copy(map((grown, factor), |x, factor| x * factor), to);
}

/// The same for short rows: G neighbouring lanes have R rows.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn softmax_rows<T, const W: usize = 256, const R: usize = 2, const V: usize = 4, const G: usize = 32>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
) {
    at_most(N, W);
    let threads = layout!((256 / G, G) : (G, 1));
    let from = parallelize(tile(x, (256 / G * R, W), (block.x, 0)), threads, thread.x, values = (1, V));
    let to = parallelize(tile(y, (256 / G * R, W), (block.x, 0)), threads, thread.x, values = (1, V));
    let rows = registers_like::<f32>(from, 0.0);
    copy(from, rows, fill = f32::NEG_INFINITY);
    let most = warp_maximum(
        maximum(rows, 1, out_of_bounds = f32::NEG_INFINITY),
        lanes = G,
        out_of_bounds = f32::NEG_INFINITY,
    );
    let grown = map((rows, most), |x, most| exp2(1.4426950408889634 * (x - most)));
    let total = warp_sum(sum(grown, 1, out_of_bounds = 0.0), lanes = G, out_of_bounds = 0.0);
    let factor = map(total, |total| 1.0 / total);
    copy(map((grown, factor), |x, factor| x * factor), to);
}

/// y = w · (x - mean x) / √(variance x + eps) + b along rows: the C blocks of a cluster have W elements of each row.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn layernorm_row<
    T,
    const W: usize = 8192,
    const L: usize = 512,
    const V: usize = 4,
    const C: usize = 1,
    const Q: usize = 0,
>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    w: &Tensor<T, (_1, N), (ldw, _1)>,
    b: &Tensor<T, (_1, N), (ldb, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
    eps: f32,
) {
    at_most(N, C * W);
    blocks_per_sm(Q);
    cluster(C);
    let (part, i) = walk((C, x.size(0)), block.x);
    let threads = layout!((1, L));
    let from = parallelize(tile(x, (1, W), (i, part)), threads, thread.x, values = (1, V));
    let scale = parallelize(tile(w, (1, W), (0, part)), threads, thread.x, values = (1, V));
    let bias = parallelize(tile(b, (1, W), (0, part)), threads, thread.x, values = (1, V));
    let to = parallelize(tile(y, (1, W), (i, part)), threads, thread.x, values = (1, V));
    let (row, w, b) =
        (registers_like::<f32>(from, 0.0), registers_like(scale, 0.0), registers_like(bias, 0.0));
    copy(from, row);
    let mean = map(cluster_sum(sum(row)), |total| total / N as f32);
    let off = map((row, mean), |x, mean| x - mean);
    let squares = cluster_sum(sum(map(off, |d| d * d)));
    let factor = map(squares, |squares| rsqrt(squares / N as f32 + eps));
    copy(scale, w);
    copy(bias, b);
    copy(map((off, factor, w, b), |d, f, w, b| d * f * (w as f32) + (b as f32)), to);
}

/// The same for short rows: G neighbouring lanes have R rows.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn layernorm_rows<
    T,
    const W: usize = 256,
    const R: usize = 2,
    const V: usize = 4,
    const G: usize = 32,
>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    w: &Tensor<T, (_1, N), (ldw, _1)>,
    b: &Tensor<T, (_1, N), (ldb, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
    eps: f32,
) {
    at_most(N, W);
    let (threads, lanes) = (layout!((256 / G, G) : (G, 1)), layout!((256 / G, 1, G) : (G, 0, 1)));
    let from = parallelize(tile(x, (256 / G * R, W), (block.x, 0)), threads, thread.x, values = (1, V));
    let scale = parallelize(tile(w, (1, W), (0, 0)), lanes, thread.x, (_, 1, 1), values = (1, V));
    let bias = parallelize(tile(b, (1, W), (0, 0)), lanes, thread.x, (_, 1, 1), values = (1, V));
    let to = parallelize(tile(y, (256 / G * R, W), (block.x, 0)), threads, thread.x, values = (1, V));
    let (rows, w, b) =
        (registers_like::<f32>(from, 0.0), registers_like(scale, 0.0), registers_like(bias, 0.0));
    copy(from, rows);
    copy(scale, w);
    copy(bias, b);
    let mean = map(warp_sum(sum(rows, 1), lanes = G), |total| total / N as f32);
    let off = map((rows, mean), |x, mean| x - mean);
    let squares = warp_sum(sum(map(off, |d| d * d), 1), lanes = G);
    let factor = map(squares, |squares| rsqrt(squares / N as f32 + eps));
    copy(map((off, factor, w, b), |d, f, w, b| d * f * (w as f32) + (b as f32)), to);
}

/// y = w · x / √(mean x² + eps) along rows: the C blocks of a cluster have W elements of each row.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn rmsnorm_row<
    T,
    const W: usize = 8192,
    const L: usize = 512,
    const V: usize = 4,
    const C: usize = 1,
    const Q: usize = 0,
>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    w: &Tensor<T, (_1, N), (ldw, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
    eps: f32,
) {
    at_most(N, C * W);
    blocks_per_sm(Q);
    cluster(C);
    let (part, i) = walk((C, x.size(0)), block.x);
    let threads = layout!((1, L));
    let from = parallelize(tile(x, (1, W), (i, part)), threads, thread.x, values = (1, V));
    let scale = parallelize(tile(w, (1, W), (0, part)), threads, thread.x, values = (1, V));
    let to = parallelize(tile(y, (1, W), (i, part)), threads, thread.x, values = (1, V));
    let (row, w) = (registers_like::<f32>(from, 0.0), registers_like(scale, 0.0));
    copy(from, row);
    copy(scale, w);
    let squares = cluster_sum(sum(map(row, |x| x * x)));
    let factor = map(squares, |squares| rsqrt(squares / N as f32 + eps));
    copy(map((row, factor, w), |x, f, w| x * f * (w as f32)), to);
}

/// The same for short rows: G neighbouring lanes have R rows.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn rmsnorm_rows<T, const W: usize = 256, const R: usize = 2, const V: usize = 4, const G: usize = 32>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    w: &Tensor<T, (_1, N), (ldw, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
    eps: f32,
) {
    at_most(N, W);
    let (threads, lanes) = (layout!((256 / G, G) : (G, 1)), layout!((256 / G, 1, G) : (G, 0, 1)));
    let from = parallelize(tile(x, (256 / G * R, W), (block.x, 0)), threads, thread.x, values = (1, V));
    let scale = parallelize(tile(w, (1, W), (0, 0)), lanes, thread.x, (_, 1, 1), values = (1, V));
    let to = parallelize(tile(y, (256 / G * R, W), (block.x, 0)), threads, thread.x, values = (1, V));
    let (rows, w) = (registers_like::<f32>(from, 0.0), registers_like(scale, 0.0));
    copy(from, rows);
    copy(scale, w);
    let squares = warp_sum(sum(map(rows, |x| x * x), 1), lanes = G);
    let factor = map(squares, |squares| rsqrt(squares / N as f32 + eps));
    copy(map((rows, factor, w), |x, f, w| x * f * (w as f32)), to);
}
