use tilewright::prelude::*;

const K: MatmulKernel<f64> = matmul_kernel!(bm = 64, bn = 64);

fn takes(_: &MatmulKernel<bf16>) {}

fn gives() {
    takes(&matmul_kernel!());
}

fn main() {}
