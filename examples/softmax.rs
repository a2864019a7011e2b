//! Softmax of rows of any length: one block per row, W elements at a time. Reductions leave out the elements
//! after the end of a row.

use tilewright::prelude::*;

/// y = exp(x - max x) / Σ exp(x - max x) along rows.
#[kernel]
pub fn softmax<const W: usize = 1024>(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    y: &mut Tensor<f32, (M, N), (ldy, _1)>,
) {
    let threads = layout!((1, 256));
    let from = parallelize(tile(x, (1, W), (block.x, _)), threads, thread.x, values = (1, 4));
    let to = parallelize(tile(y, (1, W), (block.x, _)), threads, thread.x, values = (1, 4));

    let mut most = registers::<f32>((1, 1), -1.0e38);
    for k in 0..from.size(2) {
        let piece = registers_like(from[(_, _, k)], 0.0);
        copy(from[(_, _, k)], piece);
        most = map((most, maximum(piece)), |m, p| max(m, p));
    }
    most = block_maximum(most);

    let mut total = registers::<f32>((1, 1), 0.0);
    for k in 0..from.size(2) {
        let piece = registers_like(from[(_, _, k)], 0.0);
        copy(from[(_, _, k)], piece);
        let grown = map((piece, most), |p, m| exp(p - m));
        total = map((total, sum(grown)), |t, g| t + g);
    }
    total = block_sum(total);

    for k in 0..from.size(2) {
        let piece = registers_like(from[(_, _, k)], 0.0);
        copy(from[(_, _, k)], piece);
        copy(map((piece, most, total), |p, m, t| exp(p - m) / t), to[(_, _, k)]);
    }
}

fn main() {
    println!("{}", softmax().source());
    println!("{}", softmax().report());
}
