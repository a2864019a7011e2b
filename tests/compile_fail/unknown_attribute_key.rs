use tilewright::prelude::*;

#[kernel(fast_math)]
fn k(x: &mut Tensor<f32, N>) {}

fn main() {}
