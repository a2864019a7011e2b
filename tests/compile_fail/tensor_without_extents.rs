use tilewright::prelude::*;

#[kernel]
fn k(x: &mut Tensor<f32>) {}

fn main() {}
