use tilewright::prelude::*;

const K: MatmulKernel<f32> = matmul_kernel!(schedule = (ta = (32, 4)));

fn main() {
    println!("{}", K.source());
}
