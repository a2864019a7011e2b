use tilewright::prelude::*;

#[kernel]
fn more_thread_modes_than_tile_modes(a: &Tensor<f32, (M, K)>, c: &mut Tensor<f32, (M, K)>) {
    let (ga, gc) = (tile(a, (128, 8), (block.x, block.y)), tile(c, (128, 8), (block.x, block.y)));
    let threads = layout!((32, 4, 2));
    copy(parallelize(ga, threads, thread.x), parallelize(gc, threads, thread.x));
}

fn main() {
    println!("{}", more_thread_modes_than_tile_modes().source());
}
