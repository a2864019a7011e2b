use tilewright::prelude::*;

#[kernel]
fn index_of_another_rank(a: &Tensor<f32, (M, K)>, c: &mut Tensor<f32, (M, K)>) {
    let (ga, gc) = (tile(a, (128, 8), (block.x, block.y)), tile(c, (128, 8), (block.x, block.y)));
    let threads = layout!((32, 8));
    let (from, to) = (parallelize(ga, threads, thread.x), parallelize(gc, threads, thread.x));
    copy(from[(_, _, 0)], to);
}

fn main() {
    println!("{}", index_of_another_rank().source());
}
