//! Without the prelude.

use tilewright::kernel;

#[kernel]
pub fn twice(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    map(tile(x, 256, block.x), tile(y, 256, block.x), |x| 2.0 * x);
}

fn main() {}
