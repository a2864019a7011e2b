use tilewright::prelude::*;

#[kernel(arch = 90)]
fn bulk_copy_regrouped(x: &Tensor<f32, (M, N), (ld, _1)>, y: &mut Tensor<f32, M>) {
    let (g, s) = (tile(x, (1, 64), (block.x, _)), shared::<f32>((2, 32)));
    let mut a = full::<f32>((2, 32), 0.0);
    for k in pipelined(0..g.size(2), stages = 2, producer = warp) {
        copy(regroup(g[(_, _, k)], (2, 32)), s);
        a += s;
    }
    copy(sum(regroup(a, 64)), tile(y, 1, block.x));
}

fn main() {
    println!("{}", bulk_copy_regrouped().source());
}
