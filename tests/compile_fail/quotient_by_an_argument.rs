use tilewright::prelude::*;

#[kernel]
fn quotient_by_an_argument(n: i32, a: &Tensor<f32, (M, K)>, c: &mut Tensor<f32, M>) {
    let t = layout!(32);
    let to = parallelize(tile(c, 32, block.x), t, thread.x);
    copy(parallelize(tile(a, (32, 1), (block.x, M / n))[(_, 0)], t, thread.x), to);
}

fn main() {
    println!("{}", quotient_by_an_argument().source());
}
