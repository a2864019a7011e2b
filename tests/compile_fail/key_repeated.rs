use tilewright::prelude::*;

const K: MatmulKernel<f32> = matmul_kernel!(bm = 64, bm = 128);

fn main() {}
