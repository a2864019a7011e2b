//! The lowest 5 bits of an offset are the column and the next 5 the row, so element (i, j) is in bank j xor i. Rows
//! and columns have 32 banks.

use tilewright::prelude::*;

/// y = x, where x is column-major and y is row-major, with a compact shared tile.
#[kernel]
pub fn swizzled_tile(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    let (x, y) = (tile(x, (32, 32), (block.x, block.y)), tile(y, (32, 32), (block.x, block.y)));
    let s = shared::<f32>(swizzled(5, 0, 5, row_major((32, 32))));
    let (down, across) = (layout!((32, 8)), layout!((8, 32) : (32, 1)));
    copy(parallelize(x, down, thread.x), parallelize(s, down, thread.x));
    cp_async_wait_all();
    sync_threads();
    copy(parallelize(s, across, thread.x), parallelize(y, across, thread.x));
}
