use tilewright::prelude::*;

#[kernel]
fn k(x: &mut Tensor<float, (M, N)>) {
    fill(parallelize(tile(x, (32, 8), (block.x, block.y)), layout!((32, 8)), thread.x), 0.0);
}

fn main() {}
