use tilewright::prelude::*;

/// The sums of rows, through three slots of shared memory.
#[kernel(threads = 64)]
pub fn row_sums(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, M>) {
    let (x, s) = (tile(x, (64, 8), (block.x, _)), shared::<f32>((64, 8)));
    let mut total = full::<f32>((64, 1), 0.0);
    for k in pipelined(0..x.size(2), stages = 3) {
        copy(x[(_, _, k)], s);
        total += sum(s, 1);
    }
    copy(total, tile(y, 64, block.x).along(0));
}
