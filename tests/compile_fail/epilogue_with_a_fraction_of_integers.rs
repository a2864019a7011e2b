use tilewright::prelude::*;

const K: MatmulKernel<i32> = matmul_kernel!(dtype = i32, epilogue = |x| max(x, 0) + 0.5);

fn main() {}
