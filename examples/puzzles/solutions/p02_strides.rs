//! The strides of `y` are `ldy` along rows and 1 along columns. The copy has the same coordinates on both sides.

use tilewright::prelude::*;

/// y = x, where x is column-major and y is row-major.
#[kernel(allow(uncoalesced))]
pub fn rows_of_columns(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    copy(tile(x, (16, 16), (block.x, block.y)), tile(y, (16, 16), (block.x, block.y)));
}
