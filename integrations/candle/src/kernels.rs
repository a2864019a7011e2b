//! The kernels of this crate. The rotary embeddings that tilewright ships read positions and tables in f32, which candle's `rope` has not.
#![allow(missing_docs)]

use tilewright::prelude::*;

/// Rotates pairs of halves of rows by the angles of their positions: (a·c - b·s, b·c + a·s), with s = sign · sine. The modes of x are
/// positions, a half, the two halves, and heads.
#[kernel(T = f32 | f16 | bf16)]
pub fn rotate<T, const H: usize = 32>(
    x: &Tensor<T, (S, F, _2, L), (ldx, _1, half_x, head_x)>,
    cosines: &Tensor<T, (S, F), (ldc, _1)>,
    sines: &Tensor<T, (S, F), (lds, _1)>,
    y: &mut Tensor<T, (S, F, _2, L), (ldy, _1, half_y, head_y)>,
    sign: f32,
) {
    at_most(F, H);
    let (from, to) =
        (tile(x, (8, H, 1, 1), (block.x, 0, _, block.y)), tile(y, (8, H, 1, 1), (block.x, 0, _, block.y)));
    let (c, s) = (tile(cosines, (8, H), (block.x, 0)), tile(sines, (8, H), (block.x, 0)));
    let (a, b) = map((from[(_, _, 0, 0, 0)], from[(_, _, 0, 0, 1)], c, s), |a, b, c, s| {
        let (a, b, c, s) = (a as f32, b as f32, c as f32, sign * (s as f32));
        (a * c - b * s, b * c + a * s)
    });
    copy(a, to[(_, _, 0, 0, 0)]);
    copy(b, to[(_, _, 0, 0, 1)]);
}

/// Sets counters to 0.
#[kernel]
pub fn zeros(counters: &mut Tensor<i32, N>) {
    copy(full::<i32>(256, 0), tile(counters, 256, block.x));
}
