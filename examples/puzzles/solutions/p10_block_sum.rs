//! A row is distributed over four warps, so its sum needs all threads of the block. `block_sum` adds in each warp,
//! and then across warps through shared memory.

use tilewright::prelude::*;

/// Each row, divided by its sum.
#[kernel]
pub fn shares(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    at_most(N, 256);
    let t = layout!((1, 128));
    let x = parallelize(tile(x, (1, 256), (block.x, 0)), t, thread.x);
    let y = parallelize(tile(y, (1, 256), (block.x, 0)), t, thread.x);
    let row = map(x, |x| x);
    let total = block_sum(sum(row));
    map((row, total), y, |x, total| x / total);
}
