use tilewright::prelude::*;

#[kernel]
fn k(x: &Tensor<f32, N>) -> f32 {
    sum(x, 0)
}

fn main() {}
