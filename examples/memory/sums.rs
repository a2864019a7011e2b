//! Sums along rows and along columns, and of all elements.

use tilewright::prelude::*;

/// y = Σ x along each row: one block per row, or a cluster of C, whose blocks read tiles of W elements in turn.
#[kernel(T = f32 | f16 | bf16)]
pub fn row_sums<T, const W: usize = 4096, const L: usize = 256, const V: usize = 4, const C: usize = 1>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    y: &mut Tensor<f32, (M, _1), (_1, ldy)>,
) {
    cluster(C);
    let (part, i) = walk((C, M), block.x);
    let from = parallelize(tile(x, (1, W), (i, _)), layout!((1, L)), thread.x, values = (1, V));
    let to = parallelize(tile(y, (1, 1), (i, 0)), layout!((L, 1)), thread.x, ragged = true);
    let mut total = registers::<f32>((1, 1), 0.0);
    for k in 0..ceil_div(from.size(2), C) {
        let piece = registers_like::<f32>(from[(_, _, C * k + part)], 0.0);
        copy(from[(_, _, C * k + part)], piece, fill = 0.0);
        total = map((total, sum(piece)), |t, s| t + s);
    }
    let total = cluster_sum(total);
    if part == 0 {
        copy(total, to);
    }
}

/// The same for short rows: each of a block's eight warps has R of them.
#[kernel(T = f32 | f16 | bf16)]
pub fn row_sums_short<T, const W: usize = 256, const R: usize = 2, const V: usize = 4>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    y: &mut Tensor<f32, (M, _1), (_1, ldy)>,
) {
    at_most(N, W);
    let threads = layout!((8, 32) : (32, 1));
    let from = parallelize(tile(x, (8 * R, W), (block.x, 0)), threads, thread.x, values = (1, V));
    let to = parallelize(tile(y, (8 * R, 1), (block.x, 0)), threads, thread.x, ragged = true);
    let rows = registers_like::<f32>(from, 0.0);
    copy(from, rows);
    copy(warp_sum(sum(rows, 1)), to);
}

/// Sums of P pieces of each column: piece p has the tiles p, p + P, p + 2P, … of B rows. Y warps split the rows of a tile,
/// and their partial sums are combined in shared memory. Sums of these sums, by a second launch, are the sums of whole
/// columns: its blocks are launched while the first one is ending.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn column_sums<T, const B: usize = 64, const Y: usize = 8, const V: usize = 4, const P: usize = 1>(
    x: &Tensor<T, (N, M), (_1, ldx)>,
    y: &mut Tensor<f32, { (N, P) }, (_1, ldy)>,
) {
    let threads = layout!((32, Y) : (1, 32));
    let from = parallelize(tile(x, (32 * V, B), (block.x, _)), threads, thread.x, values = (V, 1));
    let mut total = registers::<f32>((V, 1), 0.0);
    for k in 0..ceil_div(from.size(2), P) {
        let part = registers_like::<f32>(from[(_, _, P * k + block.y)], 0.0);
        copy(from[(_, _, P * k + block.y)], part, fill = 0.0);
        total = map((total, sum(part, 1)), |t, s| t + s);
    }
    let between = shared::<f32>(layout!((32 * V, Y)));
    copy(total, parallelize(between, threads, thread.x, values = (V, 1)));
    sync_threads();
    let columns = layout!((32 * Y, 1));
    let own = parallelize(between, columns, thread.x, ragged = true);
    let to = parallelize(tile(y, (32 * V, 1), (block.x, block.y)), columns, thread.x, ragged = true);
    // A product with ones is a sum.
    let mut all = registers_like(to, 0.0);
    gemm(own, registers::<f32>((1, Y), 1.0), &mut all);
    copy(all, to);
}
