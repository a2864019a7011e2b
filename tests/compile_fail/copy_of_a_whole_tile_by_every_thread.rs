use tilewright::prelude::*;

#[kernel]
fn copy_of_a_whole_tile_by_every_thread(a: &Tensor<f32, (M, K)>, c: &mut Tensor<f32, (M, K)>) {
    let (ga, gc) = (tile(a, (128, 8), (block.x, block.y)), tile(c, (128, 8), (block.x, block.y)));
    let threads = layout!((32, 8));
    let (from, to) = (parallelize(ga, threads, thread.x), parallelize(gc, threads, thread.x));
    let own = registers_like(from, 0.0);
    copy(from, own);
    copy(own, tile(gc, (4, 1), (0, 0)));
    copy(own, to);
}

fn main() {
    println!("{}", copy_of_a_whole_tile_by_every_thread().source());
}
