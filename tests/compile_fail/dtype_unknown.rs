use tilewright::prelude::*;

const K: MatmulKernel<f32> = matmul_kernel!(dtype = float);

fn main() {
    println!("{}", K.source());
}
