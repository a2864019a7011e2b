use tilewright::prelude::*;

const K: MatmulKernel<f32> = matmul_kernel!(a = row_major);

fn main() {
    println!("{}", K.source());
}
