use tilewright::prelude::*;

#[kernel]
fn before_the_threads_are_known(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (gx, gy) = (tile(x, 256, block.x), tile(y, 256, block.x));
    let sums = shared::<f32>(layout!(256));
    fill(sums, 0.0);
    copy(parallelize(gx, layout!(256), thread.x), parallelize(gy, layout!(256), thread.x));
}

#[kernel]
fn once_they_are(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (gx, gy) = (tile(x, 256, block.x), tile(y, 256, block.x));
    let (from, sums) = (parallelize(gx, layout!(256), thread.x), shared::<f32>(layout!(1)));
    sums = 0.0;
    copy(from, sums);
    map(gx, gy, |x| x + 1.0);
    gy *= 2.0;
}

fn main() {}
