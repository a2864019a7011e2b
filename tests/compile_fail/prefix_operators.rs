use tilewright::prelude::*;

#[kernel]
fn k(x: &mut Tensor<f32, N>) {
    let y = ----------------------------------------------------------------------1;
}

const K: MatmulKernel<f32> = matmul_kernel!(bm = !!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!1);

fn main() {}
