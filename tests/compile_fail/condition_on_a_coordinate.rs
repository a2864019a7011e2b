use tilewright::prelude::*;

#[kernel]
fn condition_on_a_coordinate(a: &Tensor<f32, (M, K)>, c: &mut Tensor<f32, (M, K)>) {
    let (ga, gc) = (tile(a, (128, 8), (block.x, block.y)), tile(c, (128, 8), (block.x, block.y)));
    let threads = layout!((32, 8));
    let (from, to) = (parallelize(ga, threads, thread.x), parallelize(gc, threads, thread.x));
    if block.x < M {
        copy(from, to);
    }
}

fn main() {
    println!("{}", condition_on_a_coordinate().source());
}
