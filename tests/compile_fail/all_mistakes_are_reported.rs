use tilewright::prelude::*;

#[kernel(fast)]
fn k(a: &[f32], b: Tensor<f32, N>) -> f32 {
    while true {}
    let x: f32 = y?;
    loop {}
}

fn main() {}
