use tilewright::prelude::*;

#[kernel]
fn duplicate<const B: usize = 64>(from: &Tensor<f32, (M, N)>, to: &mut Tensor<f32, (M, N)>) {
    let (from, to) = (tile(from, (B, 16), (block.x, block.y)), tile(to, (B, 16), (block.x, block.y)));
    let threads = layout!((32, 8));
    copy(parallelize(from, threads, thread.x), parallelize(to, threads, thread.x));
}

fn uses() {
    duplicate!(B = 63);
}

fn main() {}
