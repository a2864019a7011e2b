//! Embeddings: rows of a table by their tokens.

use tilewright::prelude::*;

/// Rows of a table of 16-bit numbers.
#[kernel(T = f16 | bf16, overlaps)]
pub fn embed<T>(
    tokens: &Tensor<i32, M>,
    table: &Tensor<T, (V, D), (ldt, _1)>,
    x: &mut Tensor<f32, (M, D), (ldx, _1)>,
) {
    let token = tokens[(block.x)];
    copy(tile(table, (1, 1024), (token, block.y)), tile(x, (1, 1024), (block.x, block.y)));
}

/// Rows of a table of 8-bit integers, with a scale for each 32 of a row: columns of scales are contiguous, as in the linear layers.
#[kernel(T = f16 | bf16, overlaps, allow(uncoalesced))]
pub fn embed_q8<T>(
    tokens: &Tensor<i32, M>,
    codes: &Tensor<i8, (V, D), (ldc, _1)>,
    scales: &Tensor<T, { (V, ceil_div(D, 32)) }>,
    x: &mut Tensor<f32, (M, D), (ldx, _1)>,
) {
    let token = tokens[(block.x)];
    let scales = tile(scales, (1, 32), (token, block.y));
    let scales = regroup(broadcast(scales, (_, 32, _)), (1, 1024));
    let codes = tile(codes, (1, 1024), (token, block.y));
    copy(
        map((codes, scales), |code, scale| code as f32 * scale as f32),
        tile(x, (1, 1024), (block.x, block.y)),
    );
}
