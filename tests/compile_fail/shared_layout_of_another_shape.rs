use tilewright::prelude::*;

const K: MatmulKernel<f32> = matmul_kernel!(schedule = (sa = layout!((64, 8) : (1, 65))));

fn main() {
    println!("{}", K.source());
}
