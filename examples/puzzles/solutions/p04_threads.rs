//! A warp has 32 elements of one row: 128 bytes, or four full sectors. `layout!((16, 8) : (8, 1))` is as good: a
//! row of eight elements is one sector.

use tilewright::prelude::*;

/// y = x, both row-major.
#[kernel]
pub fn copied(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    let t = layout!((4, 32) : (32, 1));
    let from = parallelize(tile(x, (32, 32), (block.x, block.y)), t, thread.x);
    let to = parallelize(tile(y, (32, 32), (block.x, block.y)), t, thread.x);
    copy(from, to);
}
