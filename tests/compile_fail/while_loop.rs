use tilewright::prelude::*;

#[kernel]
fn k(x: &mut Tensor<f32, N>) {
    while true {
        fill(x, 0.0);
    }
}

fn main() {}
