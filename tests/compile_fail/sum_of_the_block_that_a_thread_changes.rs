use tilewright::prelude::*;

#[kernel]
fn sums(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let t = layout!(64);
    let (x, y) = (parallelize(tile(x, 64, block.x), t, thread.x), parallelize(tile(y, 64, block.x), t, thread.x));
    let mut above = block_sum(map(x, |x| (x > 0.0) as i32));
    if above[(0)] > 3 {
        sync_threads();
    }
    above += 1;
    map((x, above), y, |x, above| x + above as f32);
}

fn main() {}
