use tilewright::prelude::*;

#[kernel]
fn k<T>(x: &mut Tensor<T, N>) {}

fn main() {}
