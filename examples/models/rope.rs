//! Rotary embedding of heads of D elements: elements i and i + D/2 are a pair, or elements 2i and 2i + 1. A pair is rotated by
//! the angle of its token's position. Tables have a row of cosines and of sines for each position. The backward pass rotates by the
//! opposite angle, sign = -1. With `x = None` the kernel overwrites y.

use tilewright::prelude::*;

/// The pair a, b, rotated by an angle.
#[device]
fn rotated(a: f32, b: f32, c: f32, s: f32) -> (f32, f32) {
    (fma(a, c, -(b * s)), fma(b, c, a * s))
}

/// Rotates elements i and i + D/2. A block has H heads of a token.
#[kernel(T = bf16 | f16 | f32, choose(H in [32, 16, 8]))]
pub fn rope<T, const H: usize, const D: usize = 128>(
    sign: f32,
    positions: &Tensor<i32, M>,
    cosines: &Tensor<f32, { (C, D / 2) }, (ldc, _1)>,
    sines: &Tensor<f32, { (C, D / 2) }, (ldc, _1)>,
    x: Option<&Tensor<T, { (M, J, D) }, (ldx, hx, _1)>>,
    y: &mut Tensor<T, { (M, J, D) }, (ldy, hy, _1)>,
) {
    use self::rotated;
    threads(max(H * D / 16, 32));
    let position = positions[(block.x)];
    let (c, s) = (tile(cosines, (1, D / 2), (position, 0)), tile(sines, (1, D / 2), (position, 0)));
    let half = |x, k| tile(x, (1, H, D / 2), (block.x, block.y, k))[(0, _, _)];
    let (a, b) = if let Some(x) = x { (half(x, 0), half(x, 1)) } else { (half(y, 0), half(y, 1)) };
    let (a, b) = map((a, b, c, s), |a, b, c, s| rotated(a as f32, b as f32, c, sign * s));
    copy(a, half(y, 0));
    copy(b, half(y, 1));
}

/// Rotates elements 2i and 2i + 1. A thread has groups of four neighbouring pairs.
#[kernel(T = bf16 | f16 | f32, choose(H in [32, 16, 8]))]
pub fn rope_pairs<T, const H: usize, const D: usize = 128>(
    sign: f32,
    positions: &Tensor<i32, M>,
    cosines: &Tensor<f32, { (C, D / 2) }, (ldc, _1)>,
    sines: &Tensor<f32, { (C, D / 2) }, (ldc, _1)>,
    x: Option<&Tensor<T, { (M, J, D) }, (ldx, hx, _1)>>,
    y: &mut Tensor<T, { (M, J, D) }, (ldy, hy, _1)>,
) {
    use self::rotated;
    threads(max(H * D / 16, 32));
    let position = positions[(block.x)];
    let angles = |t| map(regroup(tile(t, (1, D / 2), (position, 0))[(0, _)], (4, D / 8)), |x| x);
    let (c, s) = (angles(cosines), angles(sines));
    let heads = |x| regroup(tile(x, (1, H, D), (block.x, block.y, 0))[(0, _, _)], (H, 8, D / 8));
    let mut x4 = map(if let Some(x) = x { heads(x) } else { heads(y) }, |x| x as f32);
    for i in unroll(0..4) {
        let (a, b) = map(
            (x4[(_, 2 * i, _)], x4[(_, 2 * i + 1, _)], c[(i, _)].along(1), s[(i, _)].along(1)),
            |a, b, c, s| rotated(a, b, c, sign * s),
        );
        x4[(_, 2 * i, _)] = a;
        x4[(_, 2 * i + 1, _)] = b;
    }
    copy(x4, heads(y));
}
