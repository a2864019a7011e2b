//! Each thread moves four neighbours as 16 bytes, by a quarter of the instructions. 16 threads of 4 elements cover
//! a row of 64.

use tilewright::prelude::*;

/// y = x, both row-major, by few instructions.
#[kernel]
pub fn by_vectors(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    let t = layout!((8, 16) : (16, 1));
    let from = parallelize(tile(x, (8, 64), (block.x, block.y)), t, thread.x, values = (1, 4));
    let to = parallelize(tile(y, (8, 64), (block.x, block.y)), t, thread.x, values = (1, 4));
    copy(from, to);
}
