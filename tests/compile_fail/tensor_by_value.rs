use tilewright::prelude::*;

#[kernel]
fn k(x: Tensor<f32, N>) {}

fn main() {}
