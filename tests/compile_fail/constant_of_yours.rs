use tilewright::prelude::*;

const ROWS: usize = 32;

#[kernel]
fn k(x: &mut Tensor<f32, (M, N)>) {
    fill(parallelize(tile(x, (ROWS, 8), (block.x, block.y)), layout!((32, 8)), thread.x), 0.0);
}

fn main() {}
