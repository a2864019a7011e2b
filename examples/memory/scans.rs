//! Cumulative sums along rows.

use tilewright::prelude::*;

/// y = cumulative sums of x along rows: R rows for each block, W elements at a time. C blocks of a cluster share
/// long rows. With E = 1 a sum leaves out its own element.
#[kernel(T = f32 | f16 | bf16)]
pub fn cumulative_sums<
    T,
    const R: usize = 1,
    const W: usize = 8192,
    const L: usize = 512,
    const E: usize = 0,
    const C: usize = 1,
    const Q: usize = 0,
>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
) {
    threads(L);
    blocks_per_sm(Q);
    cluster(C);
    let (part, i) = walk((C, tile(x, (R, W), (_, _)).size(2)), block.x);
    let (from, to) = (tile(x, (R, W), (i, _)), tile(y, (R, W), (i, _)));
    let mut total = full::<f32>((R, 1), 0.0);
    for k in 0..ceil_div(from.size(2), C) {
        let piece = map(from[(_, _, C * k + part)], |x| x as f32);
        let sums =
            scan(piece, 0.0, |a, b| a + b, mode = 1, exclusive = E > 0, carry = &mut total, cluster = C > 1);
        copy(sums, to[(_, _, C * k + part)]);
    }
}

/// The same for short rows, through shared memory: each of a block's eight warps scans a row, and its lanes K
/// neighbouring elements each. An odd K avoids bank conflicts.
#[kernel(T = f32 | f16 | bf16)]
pub fn cumulative_sums_short<T, const K: usize = 9, const E: usize = 0>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
) {
    at_most(N, 32 * K);
    let threads = layout!((8, 32) : (32, 1));
    let between = shared::<f32>(layout!((8, 32 * K) : (32 * K, 1)));
    let (spread, own) =
        (parallelize(between, threads, thread.x), parallelize(between, threads, thread.x, values = (1, K)));
    let from = parallelize(tile(x, (8, 32 * K), (block.x, 0)), threads, thread.x);
    let to = parallelize(tile(y, (8, 32 * K), (block.x, 0)), threads, thread.x);
    copy(map(from, |x| x as f32), spread);
    sync_threads();
    let mut all = registers::<f32>((1, 1), 0.0);
    let sums = scan(map(own, |x| x), 0.0, |a, b| a + b, mode = 1, exclusive = E > 0, carry = &mut all);
    let before = warp_scan(all, 0.0, |a, b| a + b, exclusive = true);
    map((sums, before), own, |sum, before| before + sum);
    sync_threads();
    copy(map(spread, |x| x), to);
}

/// The same from a start for each row: rows that are pieces of longer ones begin with the sum of all pieces
/// before.
#[kernel(T = f32 | f16 | bf16)]
pub fn cumulative_sums_from<T, const W: usize = 8192, const L: usize = 512, const Q: usize = 0>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    start: &Tensor<f32, (M, _1), (_1, lds)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
) {
    threads(L);
    blocks_per_sm(Q);
    let (from, to) = (tile(x, (1, W), (block.x, _)), tile(y, (1, W), (block.x, _)));
    let mut total = map(tile(start, (1, 1), (block.x, 0)), |x| x);
    for k in 0..from.size(2) {
        let piece = map(from[(_, _, k)], |x| x as f32);
        copy(scan(piece, 0.0, |a, b| a + b, mode = 1, carry = &mut total), to[(_, _, k)]);
    }
}

/// Cumulative sums along rows whose starts are not aligned to vectors, through shared memory: global accesses are
/// coalesced, and each of L threads scans V neighbouring elements. An odd V avoids bank conflicts.
#[kernel(T = f32 | f16 | bf16)]
pub fn cumulative_sums_unaligned<T, const L: usize = 256, const V: usize = 17, const Q: usize = 0>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
) {
    blocks_per_sm(Q);
    let threads = layout!((1, L));
    let between = shared::<f32>(layout!((1, L * V)));
    let (spread, own) =
        (parallelize(between, threads, thread.x), parallelize(between, threads, thread.x, values = (1, V)));
    let from = parallelize(tile(x, (1, L * V), (block.x, _)), threads, thread.x);
    let to = parallelize(tile(y, (1, L * V), (block.x, _)), threads, thread.x);
    let mut total = registers::<f32>((1, 1), 0.0);
    for k in 0..from.size(2) {
        copy(map(from[(_, _, k)], |x| x as f32), spread);
        sync_threads();
        let mut all = registers::<f32>((1, 1), 0.0);
        let sums = scan(map(own, |x| x), 0.0, |a, b| a + b, mode = 1, carry = &mut all);
        let before = block_scan(all, 0.0, |a, b| a + b, exclusive = true, carry = &mut total);
        map((sums, before), own, |sum, before| before + sum);
        sync_threads();
        copy(map(spread, |x| x), to[(_, _, k)]);
        sync_threads();
    }
}
