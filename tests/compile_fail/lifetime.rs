use tilewright::prelude::*;

#[kernel]
fn k<'a>(x: &'a mut Tensor<f32, N>) {}

fn main() {}
