use tilewright::prelude::*;

#[kernel]
fn k<const B: i32 = 4>(x: &mut Tensor<f32, N>) {}

fn main() {}
