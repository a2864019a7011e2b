use tilewright::prelude::*;

const ONE: MatmulKernel<f32> = matmul_kernel!(bk = 16, schedule = (vec = 4, fragments = 2), stages = 1);

#[kernel]
fn fragments_with_one_stage(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let (gx, gy) = (tile(x, (512,), (_)), tile(y, (512,), (_)));
    let s = shared::<f32>(layout!((512,)));
    let threads = layout!((128,));
    let (from, to) = (parallelize(gx, threads, thread.x), parallelize(s, threads, thread.x));
    let out = parallelize(gy, threads, thread.x);
    for k in pipelined(0..from.size(1), stages = 1, fragments = 2) {
        copy(from[(_, k)], to);
        copy(to, out[(_, k)]);
    }
}

fn main() {
    println!("{}{}", ONE.source(), fragments_with_one_stage().source());
}
