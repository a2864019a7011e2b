use tilewright::prelude::*;

#[kernel]
fn whole_tile_of_a_whole_tensor(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    map(x, y, |x| 2.0 * x);
}

fn main() {}
