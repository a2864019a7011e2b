use tilewright::prelude::*;

#[kernel]
fn k(x: &mut Tensor<f32, (M, N)>) {
    let t = parallelize(tile(x, (256, 256), (block.x, block.y)), layout!((32, 1)), thread.x);
    let acc = registers_like(t, 0.0);
    copy(acc, t);
}

fn main() {}
