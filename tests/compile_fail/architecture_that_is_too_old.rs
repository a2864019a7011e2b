use tilewright::prelude::*;

#[kernel(arch = sm_75)]
fn architecture_that_is_too_old(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    copy(tile(x, 1024, block.x), tile(y, 1024, block.x));
}

#[kernel(arch = 9)]
fn another(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    copy(tile(x, 1024, block.x), tile(y, 1024, block.x));
}

#[kernel(arch = sm_90a)]
fn a_third(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    copy(tile(x, 1024, block.x), tile(y, 1024, block.x));
}

fn main() {
    println!("{}", architecture_that_is_too_old().source());
}
