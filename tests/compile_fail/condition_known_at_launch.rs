use tilewright::prelude::*;

#[kernel]
fn k(x: &mut Tensor<f32, (M, N)>) {
    let t = parallelize(tile(x, (32, 8), (block.x, block.y)), layout!((32, 8)), thread.x);
    if M == 4 {
        fill(t, 0.0);
    }
}

fn main() {}
