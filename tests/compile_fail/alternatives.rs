use tilewright::prelude::*;

#[kernel(choose(BM in 64))]
fn no_list<const BM: usize>(x: &mut Tensor<f32, N>) {
    fill(tile(x, BM, block.x), 0.0);
}

#[kernel(choose((BM, BN) in [(64, 128), 64]))]
fn too_few<const BM: usize, const BN: usize>(x: &mut Tensor<f32, (M, N)>) {
    fill(tile(x, (BM, BN), (block.x, block.y)), 0.0);
}

#[kernel(choose(BK in [64, 128]))]
fn no_such_constant<const BM: usize = 64>(x: &mut Tensor<f32, N>) {
    fill(tile(x, BM, block.x), 0.0);
}

#[kernel(choose(BM in [64, 128], BM in [32]))]
fn listed_twice<const BM: usize>(x: &mut Tensor<f32, N>) {
    fill(tile(x, BM, block.x), 0.0);
}

#[kernel(choose(BM in [SIZE, 128]))]
fn a_name<const BM: usize>(x: &mut Tensor<f32, N>) {
    fill(tile(x, BM, block.x), 0.0);
}

#[kernel(choose(BM in []))]
fn none<const BM: usize>(x: &mut Tensor<f32, N>) {
    fill(tile(x, BM, block.x), 0.0);
}

#[kernel(choose(BM in [64, 128]))]
fn wrong_in_all<const BM: usize>(x: &mut Tensor<f32, N>) {
    fill(tile(x, BM, block.x), y);
}

#[kernel(choose(BM in [8, 16, 24, 32, 40, 48, 56, 64, 72, 80], BN in [8, 16, 24, 32, 40, 48, 56, 64, 72, 80]))]
fn too_many<const BM: usize, const BN: usize>(x: &mut Tensor<f32, (M, N)>) {
    fill(tile(x, (BM, BN), (block.x, block.y)), 0.0);
}

#[kernel(choose(BM in 256..=64 step 32))]
fn an_empty_range<const BM: usize>(x: &mut Tensor<f32, N>) {
    fill(tile(x, BM, block.x), 0.0);
}

#[kernel(choose(BM in 32..=256 by 32))]
fn another_word<const BM: usize>(x: &mut Tensor<f32, N>) {
    fill(tile(x, BM, block.x), 0.0);
}

#[kernel(choose(BM in [64, 128], if BN <= 64))]
fn none_compared<const BM: usize, const BN: usize = 64>(x: &mut Tensor<f32, N>) {
    fill(tile(x, BM, block.x), 0.0);
}

#[kernel(choose(BM in [64, 128], if BM <= SIZE))]
fn a_name_in_a_condition<const BM: usize>(x: &mut Tensor<f32, N>) {
    fill(tile(x, BM, block.x), 0.0);
}

#[kernel(choose(BM in [64, 128], if BM > 128))]
fn never_true<const BM: usize>(x: &mut Tensor<f32, N>) {
    fill(tile(x, BM, block.x), 0.0);
}

fn main() {}
