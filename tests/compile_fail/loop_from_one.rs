use tilewright::prelude::*;

#[kernel]
fn loop_from_one(a: &Tensor<f32, (M, K)>, c: &mut Tensor<f32, (M, K)>) {
    let (ga, gc) = (tile(a, (128, 8), (block.x, block.y)), tile(c, (128, 8), (block.x, block.y)));
    let threads = layout!((32, 8));
    let (from, to) = (parallelize(ga, threads, thread.x), parallelize(gc, threads, thread.x));
    for i in 1..4 {
        copy(from, to);
    }
}

fn main() {
    println!("{}", loop_from_one().source());
}
