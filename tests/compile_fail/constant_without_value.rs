use tilewright::prelude::*;

#[kernel]
fn k<const B: usize>(x: &mut Tensor<f32, (M, N)>) {
    fill(parallelize(tile(x, (B, 8), (block.x, block.y)), layout!((32, 8)), thread.x), 0.0);
}

fn main() {}
