//! The heat equation in three dimensions: one step in a launch, and several.

use tilewright::prelude::*;

/// y = centre · x + side · (the sum of the six neighbours of x), where x is 0 outside.
#[kernel]
pub fn heat_3d_step(
    x: &Tensor<f32, (L, M, N), (ldd, ldx, _1)>,
    y: &mut Tensor<f32, (L, M, N), (lde, ldy, _1)>,
    centre: f32,
    side: f32,
) {
    let (t, at) = (layout!((1, 4, 64) : (0, 64, 1)), (block.z, block.y, block.x));
    let from = tile(x, (4, 4, 64), at);
    let near = |i, j, k| parallelize(shift(from, (i, j, k)), t, thread.x);
    let around =
        near(-1, 0, 0) + near(1, 0, 0) + near(0, -1, 0) + near(0, 1, 0) + near(0, 0, -1) + near(0, 0, 1);
    copy(centre * near(0, 0, 0) + side * around, parallelize(tile(y, (4, 4, 64), at), t, thread.x));
}

/// T such steps. A block goes through Z planes, with T cells around its tile of them. When it reads plane k, it finishes plane k - t
/// of each step t: what the earlier planes and the neighbours in the plane add is in `part`. A thread has pairs of cells in R rows. Cells
/// at the sides are in other lanes, cells above and below in shared memory.
#[kernel(arch = 80, choose((H, Z) in [(48, 512), (60, 104), (64, 64), (32, 32)]))]
pub fn heat_3d<const H: usize, const Z: usize, const T: usize = 4, const R: usize = 4>(
    x: &Tensor<f32, (L, M, N), (ldd, ldx, _1)>,
    y: &mut Tensor<f32, (L, M, N), (lde, ldy, _1)>,
    centre: f32,
    side: f32,
) {
    // The cells around a tile are whole parts of threads, and planes are read in pairs.
    assert(T % R == 0 && T % 2 == 0 && H % R == 0 && Z % 2 == 0);
    let (threads, rows) = (layout!((32, H / R, 1)), H / R);
    let first = walk(ceil_div(L, Z), block.z) * Z;
    let inner = (1, H - 2 * T, 64 - 2 * T);
    let (lane, row) = (thread.x % 32, thread.x / 32);
    // The first and the last row of each thread, for each step and for the planes before.
    let s = shared::<f32>(layout!((2, 32, rows, 2, T, 2)));
    // Planes that are read two planes ahead.
    let (ahead, now) = (registers::<f32>((2, R, 2), 0.0), registers::<f32>((2, R), 0.0));
    let (own, part) = (registers::<f32>((2, R, T), 0.0), registers::<f32>((2, R, T), 0.0));
    let (up, down) = (registers::<f32>(2, 0.0), registers::<f32>(2, 0.0));
    // The part of a thread of a plane: neighbours along x are neighbours in its registers.
    let part_of =
        |t| regroup(parallelize(permute(t, (2, 1, 0)), threads, thread.x, values = (2, R, 1)), (2, R));
    let read = |k| part_of(tile(x, inner, (k, block.y, block.x), halo = (0, T, T)));
    // 0 outside, so that cells there stay 0.
    let weight =
        map(read(0), |_, at| if (at.0 >= 0) & (at.0 < N) & (at.1 >= 0) & (at.1 < M) { side } else { 0.0 });
    copy(read(first - T), ahead[(_, _, 0)]);
    copy(read(first - T + 1), ahead[(_, _, 1)]);
    for both in 0..Z / 2 + T {
        for odd in unroll(0..2) {
            let k = first - T + 2 * both + odd;
            copy(ahead[(_, _, odd)], now);
            for t in unroll(0..T) {
                let next = part[(_, _, t)] + weight * now;
                part[(_, _, t)] = centre * now + weight * own[(_, _, t)];
                own[(_, _, t)] = now;
                copy(now[(_, 0)], s[(_, lane, row, 0, t, odd)]);
                copy(now[(_, R - 1)], s[(_, lane, row, 1, t, odd)]);
                if (k - t - 1 >= 0) && (k - t - 1 < L) {
                    copy(next, now);
                } else {
                    fill(now, 0.0);
                }
            }
            copy(read(k + 2), ahead[(_, _, odd)]);
            let inside = (row >= T / R) && (row < rows - T / R) && (lane >= T / 2) && (lane < 32 - T / 2);
            if inside && (both >= T) {
                copy(now, part_of(tile(y, inner, (k - T, block.y, block.x), halo = (0, T, T))));
            }
            sync_threads();
            for t in unroll(0..T) {
                let (a, b) = (own[(0, _, t)], own[(1, _, t)]);
                let (left, right) = (warp_shuffle(b, |lane| lane - 1), warp_shuffle(a, |lane| lane + 1));
                copy(s[(_, lane, max(row - 1, 0), 1, t, odd)], up);
                copy(s[(_, lane, min(row + 1, rows - 1), 0, t, odd)], down);
                for r in unroll(0..R) {
                    let u = if r > 0 { own[(_, r - 1, t)] } else { up };
                    let d = if r < R - 1 { own[(_, r + 1, t)] } else { down };
                    part[(0, r, t)] += weight[(0, r)] * (u[(0)] + d[(0)] + (left[(r)] + b[(r)]));
                    part[(1, r, t)] += weight[(1, r)] * (u[(1)] + d[(1)] + (a[(r)] + right[(r)]));
                }
            }
        }
    }
}
