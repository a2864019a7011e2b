use tilewright::prelude::*;

const K: MatmulKernel<f32> = matmul_kernel!(epilogue = |x, y| x + y);

fn main() {
    println!("{}", K.source());
}
