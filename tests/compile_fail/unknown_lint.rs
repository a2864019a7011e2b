use tilewright::prelude::*;

#[kernel(deny(bank_conflict))]
fn k(x: &mut Tensor<f32, N>) {}

fn main() {}
