use tilewright::prelude::*;

#[kernel]
fn k(x: &mut Tensor<f32, (M, N)>) {
    let t = tile(x, (32, 8), (block.x, block.y));
    fill(paralelize(t, layout!((32, 8)), thread.x), 0.0);
}

fn main() {}
