use tilewright::prelude::*;

#[kernel]
fn barrier_under_a_thread(a: &Tensor<f32, N>, c: &mut Tensor<f32, N>) {
    let t = layout!(128);
    let (from, to) = (parallelize(tile(a, 128, block.x), t, thread.x), parallelize(tile(c, 128, block.x), t, thread.x));
    if thread.x < 64 {
        copy(from, to);
        sync_threads();
    }
}

fn main() {
    println!("{}", barrier_under_a_thread().source());
}
