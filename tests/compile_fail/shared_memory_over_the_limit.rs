use tilewright::prelude::*;

const K: MatmulKernel<f32> = matmul_kernel!(bm = 256, bn = 256, bk = 64, stages = 4, tc = (32, 32), schedule = (vec = 4));

fn main() {
    println!("{}", K.source());
}
