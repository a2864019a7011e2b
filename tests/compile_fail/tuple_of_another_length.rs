use tilewright::prelude::*;

#[kernel]
fn k(x: &mut Tensor<f32, (M, N)>) {
    let (a, b) = (tile(x, (32, 8), (block.x, block.y)), 1, 2);
}

fn main() {}
