use tilewright::prelude::*;

#[kernel]
fn doubled(x: &Tensor<f32, _99>, y: &mut Tensor<f32, _99>) {
    at_least(x.size(0), 100);
    let t = layout!(32);
    map(parallelize(tile(x, 128, 0), t, thread.x), parallelize(tile(y, 128, 0), t, thread.x), |x| x + x);
}

fn main() {}
