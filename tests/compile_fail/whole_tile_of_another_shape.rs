use tilewright::prelude::*;

#[kernel]
fn whole_tile_of_another_shape(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let gx = tile(x, (64, 32), (block.x, block.y));
    copy(map(gx, |x| 2.0 * x), tile(y, (64, 16), (block.x, block.z)));
}

fn main() {}
