use tilewright::prelude::*;

#[kernel(forbid(bank_conflicts))]
fn k(x: &mut Tensor<f32, N>) {}

fn main() {}
