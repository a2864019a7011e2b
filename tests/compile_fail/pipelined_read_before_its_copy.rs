use tilewright::prelude::*;

#[kernel]
fn pipelined_read_before_its_copy(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let (gx, gy) = (tile(x, (512,), (_)), tile(y, (512,), (_)));
    let s = shared::<f32>(layout!((512,)));
    let threads = layout!((128,));
    let (from, to) = (parallelize(gx, threads, thread.x), parallelize(s, threads, thread.x));
    let out = parallelize(gy, threads, thread.x);
    for k in pipelined(0..from.size(1), stages = 3) {
        copy(to, out[(_, k)]);
        copy(from[(_, k)], to);
    }
}

fn main() {
    println!("{}", pipelined_read_before_its_copy().source());
}
