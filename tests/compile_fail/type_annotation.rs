use tilewright::prelude::*;

#[kernel]
fn k(x: &mut Tensor<f32, N>) {
    let zero: f32 = 0.0;
    fill(x, zero);
}

fn main() {}
