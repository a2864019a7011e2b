use tilewright::prelude::*;

#[kernel]
async fn k(x: &mut Tensor<f32, N>) {}

fn main() {}
