use tilewright::prelude::*;

const K: MatmulKernel<f32> = matmul_kernel!(bk = 16, schedule = (values = 4));

fn main() {
    println!("{}", K.source());
}
