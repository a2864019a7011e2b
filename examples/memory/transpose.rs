//! Transposes: a copy between two layouts. Both sides have the coordinates of the matrix, and their strides
//! are swapped.

use tilewright::prelude::*;

/// b = aᵀ through shared memory, so that global loads and stores are coalesced. C threads read V contiguous
/// elements each along a row, and D threads write U contiguous elements each along a column. A tile has B rows and
/// E columns; a padding of P elements per row avoids bank conflicts. With O = 1 blocks take the tiles of a row before those below it.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn transpose<
    T,
    const V: usize = 4,
    const C: usize = 8,
    const U: usize = 4,
    const D: usize = 8,
    const B: usize = 64,
    const E: usize = 64,
    const P: usize = 1,
    const O: usize = 0,
>(
    a: &Tensor<T, (M, N), (lda, _1)>,
    b: &mut Tensor<T, (M, N)>,
) {
    let between = shared::<T>(layout!((B, E) : (E + P, 1)));
    let (rows, columns) = (layout!((256 / C, C) : (C, 1)), layout!((D, 256 / D)));
    let at = if O > 0 { (block.y, block.x) } else { (block.x, block.y) };
    let from = parallelize(tile(a, (B, E), at), rows, thread.x, values = (1, V));
    let to = parallelize(tile(b, (B, E), at), columns, thread.x, values = (U, 1));
    let part = registers_like(from, 0);
    copy(from, part);
    copy(part, parallelize(between, rows, thread.x, values = (1, V)));
    sync_threads();
    copy(parallelize(between, columns, thread.x, values = (U, 1)), to);
}
