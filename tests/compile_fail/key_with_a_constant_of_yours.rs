use tilewright::prelude::*;

const BM: usize = 64;
const A: MatmulKernel<f32> = matmul_kernel!(bm = BM);
const B: MatmulKernel<f32> = matmul_kernel!(bm = self::BM * 2);

fn main() {}
