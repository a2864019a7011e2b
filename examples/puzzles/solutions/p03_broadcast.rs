//! `bias` has an element for each column, so it is a row, (1, 16), which is repeated for all rows. With `along(0)`
//! the compiler reports that elements would be stored to other coordinates.

use tilewright::prelude::*;

/// y(i, j) = x(i, j) + bias(j)
#[kernel]
pub fn biased(x: &Tensor<f32, (M, N)>, bias: &Tensor<f32, N>, y: &mut Tensor<f32, (M, N)>) {
    let (x, y) = (tile(x, (16, 16), (block.x, block.y)), tile(y, (16, 16), (block.x, block.y)));
    let bias = tile(bias, 16, block.y);
    copy(x + bias.along(1), y);
}
