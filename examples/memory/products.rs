//! The product of a matrix and a vector.

use tilewright::prelude::*;

/// y = A·x: one block per row.
#[kernel(T = f32 | f16 | bf16)]
pub fn gemv<T, const W: usize = 4096, const L: usize = 256, const V: usize = 4>(
    a: &Tensor<T, (M, N), (lda, _1)>,
    x: &Tensor<T, (_1, N), (ldx, _1)>,
    y: &mut Tensor<T, (M, _1), (_1, ldy)>,
) {
    let threads = layout!((1, L));
    let matrix = parallelize(tile(a, (1, W), (block.x, _)), threads, thread.x, values = (1, V));
    let vector = parallelize(tile(x, (1, W), (0, _)), threads, thread.x, values = (1, V));
    let to = parallelize(tile(y, (1, 1), (block.x, 0)), layout!((L, 1)), thread.x, ragged = true);
    let mut total = registers::<f32>((1, 1), 0.0);
    for k in 0..matrix.size(2) {
        let (row, factors) =
            (registers_like::<f32>(matrix[(_, _, k)], 0.0), registers_like::<f32>(vector[(_, _, k)], 0.0));
        copy(matrix[(_, _, k)], row, fill = 0.0);
        copy(vector[(_, _, k)], factors, fill = 0.0);
        total = map((total, sum(map((row, factors), |a, x| a * x))), |t, s| t + s);
    }
    copy(block_sum(total), to);
}
