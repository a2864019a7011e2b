use tilewright::prelude::*;

#[kernel]
fn blocks_that_number_no_tiles(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (gx, gy) = (tile(x, 256, _), tile(y, 256, _));
    let (from, to) = (parallelize(gx, layout!(256), thread.x), parallelize(gy, layout!(256), thread.x));
    copy(from[(_, 2 * block.x)], to[(_, 2 * block.x)]);
}

fn main() {
    println!("{}", blocks_that_number_no_tiles().source());
}
