use tilewright::prelude::*;

/// Columns from any column on; bulk copies can begin only at each fourth.
#[kernel(arch = 90)]
fn columns(from: i32, a: &Tensor<f32, (M, K), (lda, _1)>, c: &mut Tensor<f32, (M, _32), (_32, _1)>) {
    let (ga, gc) = (tile(a, (64, 32), (block.x, _)), tile(c, (64, 32), (block.x, 0)));
    let s = shared::<f32>((64, 32));
    let mut acc = full::<f32>((64, 32), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2, producer = warp) {
        copy(shift(ga[(_, _, k)], (0, from)), s);
        acc += s;
    }
    copy(acc, gc);
}

fn main() {}
