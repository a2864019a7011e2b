//! Rows of a table by index, and histograms: kernels whose coordinates are read from memory.

use tilewright::prelude::*;

/// Row i of y is row `ids[i]` of the table, or zeros if there is no such row. Each block has R rows.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn gather_rows<T, const R: usize = 2, const W: usize = 1024, const L: usize = 256, const V: usize = 4>(
    table: &Tensor<T, (K, N), (ldt, _1)>,
    ids: &Tensor<i32, M>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
) {
    let (rows, threads) = (tile(ids, R, block.x), layout!((1, L)));
    let to = parallelize(tile(y, (R, W), (block.x, block.y)), threads, thread.x, values = (1, V));
    let own = registers_like(to, 0.0);
    for r in unroll(0..R) {
        let row = tile(table, (1, W), (rows[(r)], block.y));
        copy(parallelize(row, threads, thread.x, values = (1, V))[(0, _)], own[(r, _)]);
    }
    copy(own, to);
}

/// Gathers rows that begin between vectors: vectors of y are aligned, and vectors of the table are shifted. Each block has W
/// elements of a row.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn gather_unaligned<T, const W: usize = 2048, const L: usize = 256, const V: usize = 4>(
    table: &Tensor<T, (K, N), (ldt, _1)>,
    ids: &Tensor<i32, M>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
) {
    use super::long_rows::realigned;
    let (p, i) = walk((ceil_div(N + V - 1, W), M), block.x);
    let (row, before) = (tile(ids, 1, i), i * ldy % V);
    let own = |of| parallelize(shift(of, (0, -before)), layout!((1, L)), thread.x, values = (1, V));
    copy(realigned(own(tile(table, (1, W), (row[(0)], p)))), own(tile(y, (1, W), (i, p))));
}

/// Adds to each of B bins how often its number occurs in x; other numbers are not counted. Each of P blocks reads
/// every P-th tile. In a block, G groups of threads have separate counts in shared memory.
#[kernel]
pub fn histogram<
    const B: usize = 256,
    const L: usize = 256,
    const V: usize = 8,
    const P: usize = 1056,
    const G: usize = 8,
>(
    x: &Tensor<i32, N>,
    bins: &mut Tensor<i32, B>,
) {
    let counts = shared::<i32>(layout!((B, G)));
    let flat = layout!((L, 1));
    fill(parallelize(counts, flat, thread.x, ragged = true), 0);
    sync_threads();
    let (block, _) = walk((P, 1), block.x);
    let from = parallelize(tile(x, V * L, _), layout!(L), thread.x, values = V);
    let own = parallelize(counts, layout!((1, G, L / G) : (0, L / G, 1)), thread.x, (1, 1, _));
    let one = registers::<i32>((1, 1), 1);
    for k in 0..ceil_div(from.size(1), P) {
        let part = registers::<i32>(V, -1);
        copy(from[(_, P * k + block)], part, fill = -1);
        for v in unroll(0..V) {
            copy(one, tile(own, (1, 1), (part[(v)], 0)), how = "atomic_add");
        }
    }
    sync_threads();
    let all = parallelize(counts, flat, thread.x, (1, _), ragged = true);
    let total = sum(map(all, |x| x), 1);
    copy(
        total[(_, 0)],
        parallelize(tile(bins, B, 0), layout!(L), thread.x, ragged = true),
        how = "atomic_add",
    );
}
