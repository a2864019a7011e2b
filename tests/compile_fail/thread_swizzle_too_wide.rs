use tilewright::prelude::*;

const ODD: MatmulKernel<f32> = matmul_kernel!(bm = 96, tc = swizzled(1, 0, 6, layout!((12, 16))));
const FAR: MatmulKernel<f32> = matmul_kernel!(tc = swizzled(2, 1, 8, layout!((16, 16))));

fn main() {
    println!("{}{}", ODD.source(), FAR.source());
}
