//! With a stride of 33, element (i, j) is in bank (i + j) mod 32: rows and columns have 32 banks. `padded` makes
//! such layouts.

use tilewright::prelude::*;

/// y = x, where x is column-major and y is row-major.
#[kernel]
pub fn transposed(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    let (x, y) = (tile(x, (32, 32), (block.x, block.y)), tile(y, (32, 32), (block.x, block.y)));
    let s = shared::<f32>(layout!((32, 32) : (1, 33)));
    let (down, across) = (layout!((32, 8)), layout!((8, 32) : (32, 1)));
    copy(parallelize(x, down, thread.x), parallelize(s, down, thread.x));
    cp_async_wait_all();
    sync_threads(); // a thread reads what other threads wrote: without the barrier this is an error
    copy(parallelize(s, across, thread.x), parallelize(y, across, thread.x));
}
