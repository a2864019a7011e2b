#![deny(warnings)]
// The prelude exports the names of all element types.
use tilewright::prelude::*;

#[kernel]
fn half(x: &Tensor<f16, (N)>, y: &mut Tensor<bf16, (N)>) {
    let t = layout!((256));
    let (x, y) = (
        parallelize(tile(x, (256), (block.x)), t, thread.x),
        parallelize(tile(y, (256), (block.x)), t, thread.x),
    );
    copy(map(x, |x| x as f16), y);
}

const PRODUCT: MatmulKernel<f16> = matmul_kernel!(dtype = f16, bk = 16);

fn main() {
    let _ = (half().source(), PRODUCT.source(), f16::from_f32(1.0));
}
