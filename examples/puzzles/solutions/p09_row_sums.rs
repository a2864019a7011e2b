//! The loop runs over all tiles of the rows. Elements after the end of a row are left out of the sum.

use tilewright::prelude::*;

/// y(i) is the sum of row i.
#[kernel]
pub fn row_sums(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, M>) {
    let x = tile(x, (8, 32), (block.x, _));
    let mut total = full::<f32>((8, 1), 0.0);
    for k in 0..x.size(2) {
        total += sum(x[(_, _, k)], 1);
    }
    copy(total, tile(y, 8, block.x).along(0));
}
