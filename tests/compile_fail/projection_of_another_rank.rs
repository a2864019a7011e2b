use tilewright::prelude::*;

#[kernel]
fn projection_of_another_rank(a: &Tensor<f32, (M, K)>, c: &mut Tensor<f32, (M, K)>) {
    let (ga, gc) = (tile(a, (128, 8), (block.x, block.y)), tile(c, (128, 8), (block.x, block.y)));
    let threads = layout!((32, 8));
    copy(parallelize(ga, threads, thread.x, (1, _, _)), parallelize(gc, threads, thread.x));
}

fn main() {
    println!("{}", projection_of_another_rank().source());
}
