use tilewright::prelude::*;

#[kernel]
fn before_the_threads_are_known(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (gx, gy) = (tile(x, 256, block.x), tile(y, 256, block.x));
    let sums = shared::<f32>(layout!(1));
    let own = registers::<f32>(1, 0.0);
    copy(own, sums);
    copy(parallelize(gx, layout!(256), thread.x), parallelize(gy, layout!(256), thread.x));
}

#[kernel]
fn once_they_are(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (gx, gy) = (tile(x, 256, block.x), tile(y, 256, block.x));
    let (from, sums) = (parallelize(gx, layout!(256), thread.x), shared::<f32>(layout!(1)));
    copy(from, sums);
    map(from, tile(gy, 1, 0), |x| x + 1.0);
    sums *= from;
}

#[kernel]
fn whole_tiles_and_parts_of_threads(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (gx, gy) = (tile(x, 128, block.x), tile(y, 128, block.x));
    let own = registers_like(parallelize(gx, layout!(32), thread.x), 0.0);
    let whole = full::<f32>(4, 0.0);
    copy(map((whole, own), |x, y| x + y), gy);
}

fn main() {}
