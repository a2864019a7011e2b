use tilewright::prelude::*;

const K: MatmulKernel<f32> = matmul_kernel!(ta = (32, 4));

fn main() {
    println!("{}", K.source());
}
