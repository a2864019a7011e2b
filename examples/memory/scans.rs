//! Cumulative sums along rows.

use tilewright::prelude::*;

/// y = cumulative sums of x along rows: R rows for each block, W elements at a time. With E = 1 a sum leaves
/// out its own element.
#[kernel(T = f32 | f16 | bf16)]
pub fn cumulative_sums<
    T,
    const R: usize = 1,
    const W: usize = 8192,
    const L: usize = 512,
    const E: usize = 0,
    const Q: usize = 0,
>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
) {
    threads(L);
    blocks_per_sm(Q);
    let (from, to) = (tile(x, (R, W), (block.x, _)), tile(y, (R, W), (block.x, _)));
    let mut total = full::<f32>((R, 1), 0.0);
    for k in 0..from.size(2) {
        let piece = map(from[(_, _, k)], |x| x as f32);
        copy(scan(piece, 0.0, |a, b| a + b, mode = 1, exclusive = E > 0, carry = &mut total), to[(_, _, k)]);
    }
}

/// The same from a start for each row: rows that are pieces of longer ones begin with the sum of all pieces
/// before.
#[kernel(T = f32 | f16 | bf16)]
pub fn cumulative_sums_from<T, const W: usize = 8192, const L: usize = 512, const Q: usize = 0>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    start: &Tensor<f32, (M, _1), (_1, lds)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
) {
    threads(L);
    blocks_per_sm(Q);
    let (from, to) = (tile(x, (1, W), (block.x, _)), tile(y, (1, W), (block.x, _)));
    let mut total = map(tile(start, (1, 1), (block.x, 0)), |x| x);
    for k in 0..from.size(2) {
        let piece = map(from[(_, _, k)], |x| x as f32);
        copy(scan(piece, 0.0, |a, b| a + b, mode = 1, carry = &mut total), to[(_, _, k)]);
    }
}
