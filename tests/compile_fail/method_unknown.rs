use tilewright::prelude::*;

#[kernel]
fn k(x: &mut Tensor<f32, (M, N)>) {
    let t = tile(x, (32, 8), (block.x, block.y));
    let n = t.extent(1);
}

fn main() {}
