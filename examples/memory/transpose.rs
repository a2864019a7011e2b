//! Transposes: a copy between two layouts. Both sides have the coordinates of the matrix; one of them lies the other way
//! round in memory.

use tilewright::prelude::*;

/// b = aᵀ, through shared memory: whole lines are read and whole lines are written. C threads read V neighbours each of a row,
/// and D threads write U neighbours each of a column; P unused elements behind each row of the tile spread its columns
/// over the banks.
#[kernel(T = f32 | f16 | bf16)]
pub fn transpose<
    T,
    const V: usize = 4,
    const C: usize = 8,
    const U: usize = 4,
    const D: usize = 8,
    const B: usize = 64,
    const P: usize = 1,
>(
    a: &Tensor<T, (M, N), (lda, _1)>,
    b: &mut Tensor<T, (M, N)>,
) {
    let between = shared::<T>(layout!((B, B) : (B + P, 1)));
    let (rows, columns) = (layout!((256 / C, C) : (C, 1)), layout!((D, 256 / D)));
    let from = parallelize(tile(a, (B, B), (block.x, block.y)), rows, thread.x, values = (1, V));
    let to = parallelize(tile(b, (B, B), (block.x, block.y)), columns, thread.x, values = (U, 1));
    let part = registers_like(from, 0);
    copy(from, part);
    copy(part, parallelize(between, rows, thread.x, values = (1, V)));
    sync_threads();
    copy(parallelize(between, columns, thread.x, values = (U, 1)), to);
}
