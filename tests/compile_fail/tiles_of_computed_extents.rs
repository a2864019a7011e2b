use tilewright::prelude::*;

#[kernel]
fn tiles_of_computed_extents(x: &Tensor<f32, N>, y: &mut Tensor<f32, {ceil_div(N, 32) + 1}>) {
    copy(sum(tile(x, 64, block.x)), tile(y, 1, block.x));
}

fn main() {
    println!("{}", tiles_of_computed_extents().source());
}
