//! Stencils: each element is computed from its neighbours along every mode; out-of-bounds neighbours are 0. The
//! elements of a thread are in a line across the contiguous mode, so shifted accesses are coalesced too.

use tilewright::prelude::*;

/// y = centre · x + side · (the sum of the four neighbours of x): R rows for each thread, which keeps them for the rows above and below.
#[kernel]
pub fn stencil_5<const R: usize = 8, const S: usize = 1, const L: usize = 256>(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    y: &mut Tensor<f32, (M, N), (ldy, _1)>,
    centre: f32,
    side: f32,
) {
    let (at, threads, line) = ((block.y, block.x), layout!((1, S, L) : (1, L, 1)), layout!((S, L) : (L, 1)));
    let from = tile(x, (R * S, L), at);
    let rows = |of| regroup(of, (R, S, L));
    let own = |of| map(parallelize(rows(of), threads, thread.x), |x| x);
    let (x, left, right) = (own(from), own(shift(from, (0, -1))), own(shift(from, (0, 1))));
    let above = map(parallelize(rows(shift(from, (-1, 0)))[(0, _, _)], line, thread.x), |x| x);
    let below = map(parallelize(rows(shift(from, (1, 0)))[(R - 1, _, _)], line, thread.x), |x| x);
    let to = parallelize(rows(tile(y, (R * S, L), at)), threads, thread.x);
    for r in unroll(0..R) {
        let up = if r > 0 { x[(r - 1, _, _)] } else { above };
        let down = if r < R - 1 { x[(r + 1, _, _)] } else { below };
        let beside = (x[(r, _, _)], up, down, left[(r, _, _)], right[(r, _, _)]);
        copy(map(beside, |x, u, d, l, r| fma(side, u + d + (l + r), centre * x)), to[(r, _, _)]);
    }
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
