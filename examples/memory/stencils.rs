//! Stencils: each element is computed from its neighbours along every mode; out-of-bounds neighbours are 0. The
//! elements of a thread are in a line across the contiguous mode, so shifted accesses are coalesced too.

use tilewright::prelude::*;

/// y = centre · x + side · (the sum of the four neighbours of x): R rows for each thread.
#[kernel]
pub fn stencil_5<const R: usize = 8, const L: usize = 512>(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    y: &mut Tensor<f32, (M, N), (ldy, _1)>,
    centre: f32,
    side: f32,
) {
    let (t, at) = (layout!((1, L)), (block.y, block.x));
    let from = tile(x, (R, L), at);
    let x = parallelize(from, t, thread.x);
    let up = parallelize(shift(from, (-1, 0)), t, thread.x);
    let down = parallelize(shift(from, (1, 0)), t, thread.x);
    let left = parallelize(shift(from, (0, -1)), t, thread.x);
    let right = parallelize(shift(from, (0, 1)), t, thread.x);
    let to = parallelize(tile(y, (R, L), at), t, thread.x);
    copy(map((x, up, down, left, right), |x, u, d, l, r| fma(side, u + d + (l + r), centre * x)), to);
}

/// The same of the six neighbours in three dimensions: R elements along the first for each thread, of X along
/// the contiguous one.
#[kernel]
pub fn stencil_7<const R: usize = 4, const Y: usize = 4, const X: usize = 64>(
    x: &Tensor<f32, (L, M, N), (ldd, ldx, _1)>,
    y: &mut Tensor<f32, (L, M, N), (lde, ldy, _1)>,
    centre: f32,
    side: f32,
) {
    let (t, at) = (layout!((1, Y, X) : (0, X, 1)), (block.z, block.y, block.x));
    let from = tile(x, (R, Y, X), at);
    let x = parallelize(from, t, thread.x);
    let front = parallelize(shift(from, (-1, 0, 0)), t, thread.x);
    let back = parallelize(shift(from, (1, 0, 0)), t, thread.x);
    let up = parallelize(shift(from, (0, -1, 0)), t, thread.x);
    let down = parallelize(shift(from, (0, 1, 0)), t, thread.x);
    let left = parallelize(shift(from, (0, 0, -1)), t, thread.x);
    let right = parallelize(shift(from, (0, 0, 1)), t, thread.x);
    let to = parallelize(tile(y, (R, Y, X), at), t, thread.x);
    let made = map((x, front, back, up, down, left, right), |x, f, b, u, d, l, r| {
        fma(side, f + b + (u + d) + (l + r), centre * x)
    });
    copy(made, to);
}
