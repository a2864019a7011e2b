use tilewright::prelude::*;

#[kernel]
fn k(alpha: &f32, x: &mut Tensor<f32, N>) {}

fn main() {}
