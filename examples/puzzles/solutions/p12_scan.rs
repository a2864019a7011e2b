//! `total` has the sum of all earlier tiles of each row. The scan adds it, and sets it to the sum that includes
//! this tile.

use tilewright::prelude::*;

/// y(i, j) = x(i, 0) + … + x(i, j)
#[kernel]
pub fn running_sums(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    let (x, y) = (tile(x, (4, 64), (block.x, _)), tile(y, (4, 64), (block.x, _)));
    let mut total = full::<f32>((4, 1), 0.0);
    for k in 0..x.size(2) {
        copy(scan(x[(_, _, k)], 0.0, |a, b| a + b, mode = 1, carry = &mut total), y[(_, _, k)]);
    }
}
