use tilewright::prelude::*;

const K: MatmulKernel<f32> = matmul_kernel!(bm = 100, tc = (16, 16));

fn main() {}
