//! The kernels, for the program and for its build script.

use tilewright::prelude::*;

pub const PRODUCT: MatmulKernel<f32> = matmul_kernel!(bm = 32, bn = 32, tc = (8, 8));

#[kernel]
pub fn twice(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let (x, y) = (tile(x, (1, 256), (block.x, block.y)), tile(y, (1, 256), (block.x, block.y)));
    map(x, y, |x| x + x);
}
