//! A mixture of experts: each expert multiplies the rows of its own tokens by its own weights.

use tilewright::prelude::*;

/// The USED most probable of E experts of each token, and exp(logit - greatest logit) of these, which are their shares but for a factor.
#[kernel(overlaps)]
pub fn route_tokens<const USED: usize = 2, const MOST: usize = 64>(
    logits: &Tensor<f32, (M, E), (ldl, _1)>,
    chosen: &mut Tensor<i32, (M, U), (ldc, _1)>,
    shares: &mut Tensor<f32, (M, U), (lds, _1)>,
) {
    assert(U == USED);
    at_most(E, MOST);
    let mut left = map(tile(logits, (1, MOST), (block.x, 0)), |x| x);
    let most = maximum(left, 1);
    for used in unroll(0..USED) {
        let best = maximum(left, 1);
        let expert = minimum(map((left, best), |x, best, at| if x == best { at.1 } else { i32::MAX }), 1);
        copy(expert, tile(chosen, (1, 1), (block.x, used)));
        copy(map((best, most), |best, most| exp(best - most)), tile(shares, (1, 1), (block.x, used)));
        left = map((left, expert), |x, expert, at| if at.1 == expert { f32::NEG_INFINITY } else { x });
    }
}

/// Orders pairs of tokens and experts by their experts: the row of each pair, the first row of each expert, and the number of rows at the
/// end.
#[kernel(overlaps)]
pub fn arrange_pairs<const W: usize = 1024>(
    chosen: &Tensor<i32, P>,
    rows: &mut Tensor<i32, P>,
    offsets: &mut Tensor<i32, O>,
) {
    let (expert, chosen) = (walk(O, block.x), tile(chosen, W, _));
    let mut before = full::<i32>(1, 0);
    for k in 0..chosen.size(1) {
        before += sum(map(chosen[(_, k)], |e| (e < expert) as i32));
    }
    copy(before, tile(offsets, 1, expert));
    for k in 0..chosen.size(1) {
        let own = map(chosen[(_, k)], |e| (e == expert) as i32);
        let row = scan(own, 0, |a, b| a + b, exclusive = true, carry = &mut before);
        scatter((own, row), rows, |own, row, at| (if own == 1 { at.0 } else { -1 }, row));
    }
}

/// Copies the row of each token to the rows of its USED experts.
#[kernel(T = bf16 | f16, overlaps)]
pub fn spread_rows<T, const USED: usize = 2>(
    rows: &Tensor<i32, P>,
    x: &Tensor<T, (M, N), (ldx, _1)>,
    y: &mut Tensor<T, (P, N), (ldy, _1)>,
) {
    let (n, pair) = walk((ceil_div(N, 1024), P), block.x);
    copy(tile(x, (1, 1024), (pair / USED, n)), tile(y, (1, 1024), (rows[(pair)], n)));
}

/// Adds to the row of each token the results of its USED experts, by their shares.
#[kernel(T = bf16 | f16, overlaps)]
pub fn combine_rows<T, const USED: usize = 2>(
    rows: &Tensor<i32, (M, U), (ldr, _1)>,
    shares: &Tensor<f32, (M, U), (lds, _1)>,
    y: &Tensor<T, (P, N), (ldy, _1)>,
    x: &mut Tensor<f32, (M, N), (ldx, _1)>,
) {
    assert(U == USED);
    let (n, token) = walk((ceil_div(N, 1024), M), block.x);
    let (mut sums, mut all) = (full::<f32>((1, 1024), 0.0), full::<f32>((1, 1), 0.0));
    for used in unroll(0..USED) {
        let share = shares[(token, used)];
        all += share;
        sums += map(tile(y, (1, 1024), (rows[(token, used)], n)), |y| y as f32 * share);
    }
    let x = tile(x, (1, 1024), (token, n));
    copy(map((x, sums, all), |x, sum, all| x + sum / all), x);
}

/// Divides the rows of experts into tiles of at most BM rows. `offsets` has the first row of each expert, and the number of rows at the
/// end. A row of `tiles` is a tile: its expert, its first row, the number of its rows, which is 0 for tiles that are not needed.
/// M / BM and one for each expert are always enough.
#[kernel(overlaps)]
pub fn expert_tiles<const BM: usize = 128, const MOST: usize = 1024>(
    offsets: &Tensor<i32, O>,
    tiles: &mut Tensor<i32, (R, _3), (_3, _1)>,
) {
    at_most(O, MOST);
    let counts = map(tile(offsets, MOST, 0), |begin, at| {
        if at.0 + 1 < O { (offsets[(at.0 + 1)] - begin + BM - 1) / BM } else { 0 }
    });
    let ends = scan(counts, 0, |a, b| a + b);
    let tile_number = iota(32) + 32 * block.x;
    let is_later = |number, end| if end <= number { 1 } else { 0 };
    let expert = sum(map((tile_number.along(0), ends.along(1)), is_later), 1);
    let first = maximum(
        map((tile_number.along(0), ends.along(1)), |number, end| if end <= number { end } else { 0 }),
        1,
    );
    let all = tile(tiles, (32, 1), (block.x, _));
    copy(expert, all[(_, _, 0)]);
    let row =
        map((tile_number.along(0), expert, first), |number, e, first| offsets[(e)] + (number - first) * BM);
    copy(row, all[(_, _, 1)]);
    copy(map((row, expert), |row, e| max(0, min(BM, offsets[(e + 1)] - row))), all[(_, _, 2)]);
}

/// y = x·wᵀ of each tile of rows, by its expert. Weights are the left operand, so a tile may have few rows of x.
#[kernel(T = bf16 | f16, arch = 90, overlaps)]
pub fn experts<T, const BM: usize = 64, const BN: usize = 256>(
    tiles: &Tensor<i32, (R, _3), (_3, _1)>,
    x: &Tensor<T, (M, K), (ldx, _1)>,
    w: &Tensor<T, (E, N, K), (expert_w, ldw, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
) {
    persistent();
    let (number, column) = (walk(R, block.x), walk(ceil_div(N, BN), block.y));
    let (expert, row, rows) = (tiles[(number, 0)], tiles[(number, 1)], tiles[(number, 2)]);
    let gx = shift(tile(x, (BM, 64), (0, _)), (row, 0, 0));
    let gw = tile(w, (1, BN, 64), (expert, column, _))[(0, _, _, _)];
    let (sx, sw) = (shared::<T>((BM, 64)), shared::<T>((BN, 64)));
    let mut acc = tiled_mma::<T, f32>(warpgroups = BN / 128).accumulators((BN, BM), 0.0);
    for k in pipelined(0..min(rows, 1) * gx.size(2), most_stages = 16, producer = warp) {
        copy(gx[(_, _, k)], sx);
        copy(gw[(_, _, k)], sw);
        gemm(sw, sx, &mut acc);
    }
    let index = |at| (if at.1 < row + rows { at.1 } else { -1 }, at.0);
    scatter(acc, y, |acc, at| (index(at), acc as T), out_of_bounds = -1);
}
