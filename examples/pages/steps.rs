//! Several steps of a stencil in one launch.

use tilewright::prelude::*;

/// T steps of the heat equation, y = centre · x + side · (the sum of the four neighbours of x), where x is 0 outside. A
/// block keeps a tile and the T cells around it: a thread has R of a column in registers, and reads its neighbours in shared
/// memory. The cells around lack neighbours, so each step makes one more ring of them wrong; only the tile is stored.
#[kernel]
pub fn heat_2d<const T: usize = 8, const R: usize = 8, const H: usize = 64, const W: usize = 128>(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    y: &mut Tensor<f32, (M, N), (ldy, _1)>,
    centre: f32,
    side: f32,
) {
    let threads = layout!((H / R, W) : (W, 1));
    let (inner, at) = ((H - 2 * T, W - 2 * T), (block.y, block.x));
    let from = parallelize(tile(x, inner, at, halo = T), threads, thread.x, values = (R, 1));
    let s = shared::<f32>(layout!((H + 2, W + 2) : (W + 2, 1)));
    let own = shift(tile(s, (H, W), (0, 0)), (1, 1));
    let mid = regroup(parallelize(own, threads, thread.x, values = (R, 1)), R);
    let left = regroup(parallelize(shift(own, (0, -1)), threads, thread.x, values = (R, 1)), R);
    let right = regroup(parallelize(shift(own, (0, 1)), threads, thread.x, values = (R, 1)), R);
    let above = regroup(parallelize(shift(own, (-1, 0)), threads, thread.x, values = (R, 1)), R);
    let below = regroup(parallelize(shift(own, (1, 0)), threads, thread.x, values = (R, 1)), R);
    fill(s, 0.0);
    sync_threads();
    let now = registers::<f32>(R, 0.0);
    copy(regroup(from, R), now);
    let inside = regroup(
        map(from, |_, at| if (at.0 >= 0) & (at.0 < M) & (at.1 >= 0) & (at.1 < N) { 1.0 } else { 0.0 }),
        R,
    );
    for t in 0..T {
        copy(now, mid);
        sync_threads();
        let old = registers::<f32>(R, 0.0);
        copy(now, old);
        for r in unroll(0..R) {
            let u = if r > 0 { old[(r - 1)] } else { above[(r)] };
            let d = if r < R - 1 { old[(r + 1)] } else { below[(r)] };
            now[(r)] = inside[(r)] * fma(side, u + d + (left[(r)] + right[(r)]), centre * old[(r)]);
        }
        sync_threads();
    }
    copy(now, mid);
    sync_threads();
    let done = shift(tile(s, inner, (0, 0)), (T + 1, T + 1));
    copy(
        parallelize(done, threads, thread.x, ragged = true),
        parallelize(tile(y, inner, at), threads, thread.x, ragged = true),
    );
}
