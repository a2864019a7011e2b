use tilewright::prelude::*;

const K: MatmulKernel<f32> = matmul_kernel!(bm = 64, bnn = 64);

fn main() {}
