//! Gradients of an embedding.

use tilewright::prelude::*;

/// Adds the gradient of each token to its row of the table, by atomic additions. Tokens out of bounds, such as -1 for padding, are skipped.
/// Threads have neighbouring elements one by one, so that the additions of a warp are in one line of memory.
#[kernel(T = bf16 | f16 | f32, I = i64 | i32)]
pub fn embed_backward<T, I>(
    tokens: &Tensor<I, M>,
    dx: &Tensor<T, (M, D), (ldx, _1)>,
    d_table: &mut Tensor<f32, (V, D), (ldt, _1)>,
) {
    let (token, threads) = (tokens[(block.x)], layout!((1, 256)));
    let dx = parallelize(tile(dx, (1, 1024), (block.x, block.y)), threads, thread.x);
    let to = parallelize(tile(d_table, (1, 1024), (token, block.y)), threads, thread.x);
    copy(map(dx, |d| d as f32), to, how = "atomic_add");
}
