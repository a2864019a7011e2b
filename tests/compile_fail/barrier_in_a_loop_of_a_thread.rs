use tilewright::prelude::*;

#[kernel]
fn barrier_in_a_loop_of_a_thread(count: &Tensor<i32, N>, c: &mut Tensor<f32, N>) {
    let t = layout!(128);
    let to = parallelize(tile(c, 128, block.x), t, thread.x);
    let own = parallelize(tile(count, 128, block.x), t, thread.x);
    for k in 0..own[(0)] {
        fill(to, k as f32);
        sync_threads();
    }
}

fn main() {
    println!("{}", barrier_in_a_loop_of_a_thread().source());
}
