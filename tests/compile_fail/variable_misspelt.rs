use tilewright::prelude::*;

#[kernel]
fn k(x: &mut Tensor<f32, (M, N)>) {
    let block_tile = tile(x, (32, 8), (block.x, block.y));
    fill(parallelize(blok_tile, layout!((32, 8)), thread.x), 0.0);
}

fn main() {}
