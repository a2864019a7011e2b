use tilewright::prelude::*;

const K: MatmulKernel<f32> = matmul_kernel!(bm = 128, sa = layout!((64, 8)));

fn main() {}
