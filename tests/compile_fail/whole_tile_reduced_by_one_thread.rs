use tilewright::prelude::*;

#[kernel]
fn whole_tile_reduced_by_one_thread(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, M>) {
    let gx = map(tile(x, (32, 64), (block.x, 0)), |x| x * x);
    copy(block_sum(gx), tile(y, 1, block.x));
}

#[kernel]
fn by_too_many(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    threads(2048);
    copy(tile(x, (32, 64), (block.x, block.y)), tile(y, (32, 64), (block.x, block.y)));
}

#[kernel]
fn by_too_few(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    threads(32);
    let t = map(tile(x, (128, 128), (block.x, block.y)), |x| 2.0 * x);
    copy(t, tile(y, (128, 128), (block.x, block.y)));
}

fn main() {}
