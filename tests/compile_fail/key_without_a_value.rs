use tilewright::prelude::*;

const A: MatmulKernel<f32> = matmul_kernel!(bm, bn = 64);
const B: MatmulKernel<f32> = matmul_kernel!(bm = , bn = 64);
const C: MatmulKernel<f32> = matmul_kernel!(bm: 64, 128);
const D: MatmulKernel<f32> = matmul_kernel!(bm = 64 bn = 128);

fn main() {}
