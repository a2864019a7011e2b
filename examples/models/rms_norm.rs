//! Root mean square normalisation of the rows of a residual stream in f32, for products in 16 bits.

use tilewright::prelude::*;

/// y = x / √(mean of squares + epsilon) · w, row by row.
#[kernel(T = f16 | bf16, overlaps, choose(LIMIT in [1024, 2048, 4096, 8192]))]
pub fn rms_norm<T, const LIMIT: usize>(
    epsilon: f32,
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    w: &Tensor<f32, N>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
) {
    assert(N <= LIMIT);
    let x = map(tile(x, (1, LIMIT), (block.x, 0)), |x| x);
    let scale = map(sum(map(x, |x| x * x), 1), |squares| rsqrt(squares / N as f32 + epsilon));
    copy(map((x, scale, tile(w, LIMIT, 0).along(1)), |x, s, w| x * s * w), tile(y, (1, LIMIT), (block.x, 0)));
}
