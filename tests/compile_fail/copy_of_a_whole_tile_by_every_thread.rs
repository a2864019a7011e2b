use tilewright::prelude::*;

#[kernel]
fn copy_of_a_whole_tile_by_every_thread(a: &Tensor<f32, (M, K)>, c: &mut Tensor<f32, (M, K)>) {
    let (ga, gc) = (tile(a, (128, 8), (block.x, block.y)), tile(c, (128, 8), (block.x, block.y)));
    let threads = layout!((32, 8));
    let stage = shared::<f32>(layout!((128, 8)));
    copy(parallelize(ga, threads, thread.x), parallelize(gc, threads, thread.x));
    copy(ga, stage);
}

fn main() {
    println!("{}", copy_of_a_whole_tile_by_every_thread().source());
}
