use tilewright::prelude::*;

#[kernel]
fn k(x: &mut Tensor<f32, (M, N)>) {
    let t = tile(x, (64, 64), (block.x, block.y));
    fill(parallelize(t, layout!((64, 32)), thread.x), 0.0);
}

fn main() {}
