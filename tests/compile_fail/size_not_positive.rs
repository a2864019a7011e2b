use tilewright::prelude::*;

const K: MatmulKernel<f32> = matmul_kernel!(bm = 0, stages = -1);

fn main() {}
