use tilewright::prelude::*;

#[kernel]
fn composition_without_an_answer(a: &Tensor<f32, (M, K)>, c: &mut Tensor<f32, (M, K)>) {
    let (ga, gc) = (tile(a, (128, 8), (block.x, block.y)), tile(c, (128, 8), (block.x, block.y)));
    let threads = composition(layout!((7, 6) : (6, 1)), layout!(8 : 4));
    copy(parallelize(ga, threads, thread.x), parallelize(gc, threads, thread.x));
}

fn main() {
    println!("{}", composition_without_an_answer().source());
}
