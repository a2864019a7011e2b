//! `map` calls the closure for each element, and writes the results to `y`. Operators do so too: `copy(2.0 * x +
//! 1.0, y)`.

use tilewright::prelude::*;

/// y = 2x + 1
#[kernel]
pub fn affine(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (x, y) = (tile(x, 64, block.x), tile(y, 64, block.x));
    map(x, y, |x| 2.0 * x + 1.0);
}
