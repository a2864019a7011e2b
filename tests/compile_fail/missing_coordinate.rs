use tilewright::prelude::*;

#[kernel]
fn missing_coordinate(a: &Tensor<f32, (M, K)>, c: &mut Tensor<f32, (M, K)>) {
    let (ga, gc) = (tile(a, (128, 8), (block.x, block.y)), tile(c, (128, 8), (block.x, block.y)));
    let threads = layout!((32, 8));
    let other = tile(a, (128, 8), (block.x));
    copy(parallelize(ga, threads, thread.x), parallelize(gc, threads, thread.x));
}

fn main() {
    println!("{}", missing_coordinate().source());
}
