use tilewright::prelude::*;

#[kernel]
fn thread_layout_with_gaps(a: &Tensor<f32, (M, K)>, c: &mut Tensor<f32, (M, K)>) {
    let (ga, gc) = (tile(a, (128, 8), (block.x, block.y)), tile(c, (128, 8), (block.x, block.y)));
    let threads = layout!((32, 8) : (1, 64));
    copy(parallelize(ga, threads, thread.x), parallelize(gc, threads, thread.x));
}

fn main() {
    println!("{}", thread_layout_with_gaps().source());
}
