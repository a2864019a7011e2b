use tilewright::prelude::*;

#[kernel]
fn copy_of_another_rank(a: &Tensor<f32, (M, K)>, c: &mut Tensor<f32, (M, K)>) {
    let (ga, gc) = (tile(a, (128, 8), (block.x, block.y)), tile(c, (128, 8), (block.x, block.y)));
    let threads = layout!((32, 8));
    let all = parallelize(tile(a, (128, 8), (block.x, _)), threads, thread.x);
    copy(all, parallelize(gc, threads, thread.x));
}

fn main() {
    println!("{}", copy_of_another_rank().source());
}
