use tilewright::prelude::*;

const K: MatmulKernel<f32> = matmul_kernel!(schedule = (vec = 4, pad = 1));

fn main() {
    println!("{}", K.source());
}
