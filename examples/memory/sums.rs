//! Sums along rows and along columns, and of all elements.

use tilewright::prelude::*;

/// y = Σ x along each row: one block per row, or a cluster of C blocks, each reading every C-th tile of W elements.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn row_sums<T, const W: usize = 4096, const L: usize = 256, const V: usize = 4, const C: usize = 1>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    y: &mut Tensor<f32, (M, _1), (_1, ldy)>,
) {
    cluster(C);
    let (part, i) = walk((C, M), block.x);
    // The first vector begins at an aligned address, up to V - 1 elements before the row.
    let before = i * ldx % V;
    let row = shift(tile(x, (1, W), (i, _)), (0, -before, 0));
    let from = parallelize(row, layout!((1, L)), thread.x, values = (1, V));
    let to = parallelize(tile(y, (1, 1), (i, 0)), layout!((L, 1)), thread.x, ragged = true);
    let mut total = registers::<f32>((1, 1), 0.0);
    for k in 0..ceil_div(N + before, C * W) {
        let piece = registers_like::<f32>(from[(_, _, C * k + part)], 0.0);
        copy(from[(_, _, C * k + part)], piece, fill = 0.0);
        total = map((total, sum(piece)), |t, s| t + s);
    }
    let total = cluster_sum(total);
    if part == 0 {
        copy(total, to);
    }
}

/// The same for short rows: G neighbouring lanes have R rows.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn row_sums_short<
    T,
    const W: usize = 256,
    const R: usize = 2,
    const V: usize = 4,
    const G: usize = 32,
>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    y: &mut Tensor<f32, (M, _1), (_1, ldy)>,
) {
    at_most(N, W);
    let threads = layout!((256 / G, G) : (G, 1));
    let from = parallelize(tile(x, (256 / G * R, W), (block.x, 0)), threads, thread.x, values = (1, V));
    let to = parallelize(tile(y, (256 / G * R, 1), (block.x, 0)), threads, thread.x, ragged = true);
    let rows = registers_like::<f32>(from, 0.0);
    copy(from, rows);
    copy(warp_sum(sum(rows, 1), lanes = G), to);
}

/// The sum of all elements in one launch: each of P blocks has the tiles b, b + P, … of each row and writes their sum as a word. The last
/// block waits for the words and adds their sums in the order of the blocks. A word has a sum in its lower half, and 1 above it. `words` must be 0 before a
/// launch, and are 0 again after it.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn sum_of_all<
    T,
    const W: usize = 8192,
    const L: usize = 512,
    const V: usize = 4,
    const P: usize = 264,
>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    y: &mut Tensor<f32, _1>,
    words: &mut Tensor<u64, { P }>,
) {
    persistent();
    let b = walk(P, block.x);
    let threads = layout!(L);
    let mut total = registers::<f32>(1, 0.0);
    for i in 0..M {
        // The first vector begins at an aligned address, up to V - 1 elements before the row.
        let before = i * ldx % V;
        for k in 0..ceil_div(N + before, P * W) {
            let from = shift(tile(x, (1, W), (i, P * k + b))[(0, _)], -before);
            let from = parallelize(from, threads, thread.x, values = V);
            let piece = registers_like::<f32>(from, 0.0);
            copy(from, piece, fill = 0.0);
            total = map((total, sum(piece)), |t, s| t + s);
        }
    }
    let word = map(block_sum(total), |sum| (1u64 << 32) | (bits::<u32>(sum) as u64));
    copy(word, parallelize(tile(words, 1, b), threads, thread.x, ragged = true), how = "atomic_exchange");
    if b == P - 1 {
        let all = parallelize(tile(words, L, _), threads, thread.x);
        let mut total = registers::<f32>(1, 0.0);
        for k in 0..all.size(1) {
            let word = wait(all[(_, k)], 1, order = "relaxed");
            total = map((total, word), |t, word| t + bits::<f32>(word as u32));
            copy(0, all[(_, k)], how = "atomic_and");
        }
        copy(block_sum(total), parallelize(y, threads, thread.x, ragged = true));
    }
}

/// Sums of P pieces of each column: piece p has the tiles p, p + P, p + 2P, … of B rows. Threads are Y groups of G
/// neighbours, which split the rows of a tile; their partial sums are combined in shared memory. A second launch adds the P
/// sums of each column; its blocks start while the first launch is ending.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn column_sums<
    T,
    const B: usize = 64,
    const Y: usize = 8,
    const V: usize = 4,
    const P: usize = 1,
    const G: usize = 32,
>(
    x: &Tensor<T, (N, M), (_1, ldx)>,
    y: &mut Tensor<f32, { (N, P) }, (_1, ldy)>,
) {
    let threads = layout!((G, Y) : (1, G));
    let from = parallelize(tile(x, (G * V, B), (block.x, _)), threads, thread.x, values = (V, 1));
    let mut total = registers::<f32>((V, 1), 0.0);
    for k in 0..ceil_div(from.size(2), P) {
        let part = registers_like::<f32>(from[(_, _, P * k + block.y)], 0.0);
        copy(from[(_, _, P * k + block.y)], part, fill = 0.0);
        total = map((total, sum(part, 1)), |t, s| t + s);
    }
    let between = shared::<f32>(layout!((G * V, Y)));
    copy(total, parallelize(between, threads, thread.x, values = (V, 1)));
    sync_threads();
    copy(sum(between, 1), tile(y, (G * V, 1), (block.x, block.y)));
}
