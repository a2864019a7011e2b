use tilewright::prelude::*;

#[kernel]
fn k(x: &mut Tensor<f32, (M, N)>) {
    fill(parallelize(tile(x, (32, 8), (block.x, block.y)), layout!((32, 8)), thread.y), 0.0);
}

fn main() {}
