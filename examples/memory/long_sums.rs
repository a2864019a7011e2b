//! Sums of few long rows, and their products with a vector, in two launches: sums of pieces of rows, then the sums of these. A piece is
//! a tile of W elements. The first begins at an aligned address, up to V - 1 elements before the row. Sums without a vector begin with
//! `piece_sums`.

use tilewright::prelude::*;

/// The product of each piece of a row with its elements of x, which may begin between vectors.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn piece_products<T, const W: usize = 4096, const L: usize = 256, const V: usize = 4>(
    a: &Tensor<T, (M, N), (ld, _1)>,
    x: &Tensor<T, (_1, N), (ldx, _1)>,
    sums: &mut Tensor<f32, { (M, ceil_div(N + V - 1, W)) }, (lds, _1)>,
) {
    use super::long_rows::{piece, realigned};
    let (p, i) = walk((sums.size(1), M), block.x);
    let (before, threads) = (i * ld % V, layout!((1, L)));
    let row = map(piece(a, i, p, W, threads, V, before), |a| a);
    let factors = realigned(piece(x, 0, p, W, threads, V, before));
    let total = sum(map((row, factors), |a, x| (a as f32) * (x as f32)));
    let to = parallelize(tile(sums, (1, 1), (i, p)), layout!((L, 1)), thread.x, ragged = true);
    copy(block_sum(total), to);
}

/// The sums of all pieces of each row.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn sums_of_pieces<T, const L: usize = 256>(
    sums: &Tensor<f32, (M, N), (lds, _1)>,
    y: &mut Tensor<T, (M, _1), (_1, ldy)>,
) {
    let (i, threads) = (block.x, layout!((1, L)));
    let from = parallelize(tile(sums, (1, L), (i, _)), threads, thread.x);
    let mut total = registers::<f32>((1, 1), 0.0);
    for k in 0..from.size(2) {
        total += sum(map(from[(_, _, k)], |x| x));
    }
    let to = parallelize(tile(y, (1, 1), (i, 0)), layout!((L, 1)), thread.x, ragged = true);
    copy(block_sum(total), to);
}
