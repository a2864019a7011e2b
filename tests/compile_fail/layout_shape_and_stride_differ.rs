use tilewright::prelude::*;

#[kernel]
fn k(x: &mut Tensor<f32, (M, N)>) {
    let threads = layout!((32, 8) : (1, 32, 4));
    fill(parallelize(tile(x, (32, 8), (block.x, block.y)), threads, thread.x), 0.0);
}

fn main() {}
