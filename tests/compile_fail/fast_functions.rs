//! Fast functions of doubles, and by other names.

use tilewright::prelude::*;

#[kernel]
fn doubles(x: &Tensor<f64, N>, y: &mut Tensor<f64, N>) {
    map(tile(x, 256, block.x), tile(y, 256, block.x), |x| fast_exp(x) + fast_div(x, 2.0));
}

#[kernel]
fn counts(x: &Tensor<i32, N>, y: &mut Tensor<i32, N>) {
    map(tile(x, 256, block.x), tile(y, 256, block.x), |x| fast_div(x, 2));
}

#[kernel]
fn paths(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    map(tile(x, 256, block.x), tile(y, 256, block.x), |x| fast::exp(x));
}

#[kernel]
fn words_of_cuda(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    map(tile(x, 256, block.x), tile(y, 256, block.x), |x| __expf(x) + __sinf(x) + __fdividef(x, x) + __powf(x, x));
}

fn main() {}
