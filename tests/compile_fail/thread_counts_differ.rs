use tilewright::prelude::*;

#[kernel]
fn k(from: &Tensor<f32, (M, N)>, to: &mut Tensor<f32, (M, N)>) {
    let (from, to) = (tile(from, (64, 16), (block.x, block.y)), tile(to, (64, 16), (block.x, block.y)));
    copy(parallelize(from, layout!((32, 8)), thread.x), parallelize(to, layout!((32, 4)), thread.x));
}

fn main() {}
