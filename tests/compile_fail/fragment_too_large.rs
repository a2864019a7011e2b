use tilewright::prelude::*;

#[kernel]
fn fragment_too_large(a: &Tensor<f32, (M, K)>, c: &mut Tensor<f32, (M, K)>) {
    let (ga, gc) = (tile(a, (128, 8), (block.x, block.y)), tile(c, (128, 8), (block.x, block.y)));
    let threads = layout!((4, 1));
    let mine = parallelize(ga, threads, thread.x);
    let held = registers::<f64>((64, 8), 0.0);
    copy(mine, parallelize(gc, threads, thread.x));
}

fn main() {
    println!("{}", fragment_too_large().source());
}
