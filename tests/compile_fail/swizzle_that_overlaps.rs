use tilewright::prelude::*;

#[kernel]
fn swizzle_that_overlaps(a: &Tensor<f32, (M, K)>, c: &mut Tensor<f32, (M, K)>) {
    let (ga, gc) = (tile(a, (128, 8), (block.x, block.y)), tile(c, (128, 8), (block.x, block.y)));
    let threads = layout!((32, 8));
    let stage = shared::<f32>(swizzled(3, 2, 2, layout!((128, 8))));
    copy(parallelize(ga, threads, thread.x), parallelize(gc, threads, thread.x));
}

fn main() {
    println!("{}", swizzle_that_overlaps().source());
}
