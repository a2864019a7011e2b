//! The largest exponent is 0, so each sum is between 1 and the length of the row. Out-of-bounds elements are left
//! out of the maximum and the sum.

use tilewright::prelude::*;

/// y = softmax(x), row by row.
#[kernel]
pub fn softmax(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    at_most(N, 128);
    let x = map(tile(x, (4, 128), (block.x, 0)), |x| x);
    let grown = exp(x - maximum(x, 1));
    copy(grown / sum(grown, 1), tile(y, (4, 128), (block.x, 0)));
}
