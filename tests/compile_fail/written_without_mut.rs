use tilewright::prelude::*;

#[kernel]
fn k(from: &Tensor<f32, (M, N)>, to: &mut Tensor<f32, (M, N)>) {
    let (from, to) = (tile(from, (64, 16), (block.x, block.y)), tile(to, (64, 16), (block.x, block.y)));
    let threads = layout!((32, 8));
    copy(parallelize(to, threads, thread.x), parallelize(from, threads, thread.x));
}

fn main() {}
