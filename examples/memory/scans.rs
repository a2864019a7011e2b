//! Cumulative sums along rows.

use tilewright::prelude::*;

/// y = cumulative sums of x along rows: R rows for each block, W elements at a time. C blocks of a cluster share
/// long rows. With E = 1 each sum leaves out its own element. With R = 1 the first tile begins at an aligned address, up to V - 1
/// elements before the row. With A = 1 the next tile is loaded before this one is scanned.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn cumulative_sums<
    T,
    const R: usize = 1,
    const W: usize = 8192,
    const L: usize = 512,
    const E: usize = 0,
    const V: usize = 1,
    const C: usize = 1,
    const Q: usize = 0,
    const A: usize = 0,
>(
    x: &Tensor<T, (M, N), (ld, _1)>,
    y: &mut Tensor<T, (M, N), (ld, _1)>,
) {
    threads(L);
    blocks_per_sm(Q);
    cluster(C);
    let (part, i) = walk((C, tile(x, (R, W), (_, _)).size(2)), block.x);
    let before = R * i * ld % V;
    let (from, to) = (tile(x, (R, W), (i, _)), tile(y, (R, W), (i, _)));
    let (from, to) = (shift(from, (0, -before, 0)), shift(to, (0, -before, 0)));
    let mut total = full::<f32>((R, 1), 0.0);
    // Elements outside of the rows are 0.
    let scanned = |piece| {
        scan(
            piece,
            0.0,
            |a, b| a + b,
            mode = 1,
            exclusive = E > 0,
            carry = &mut total,
            cluster = C > 1,
            out_of_bounds = 0.0,
        )
    };
    if A > 0 {
        let next = registers_like(from[(_, _, part)], 0);
        copy(from[(_, _, part)], next);
        for k in 0..ceil_div(N + before, C * W) {
            let piece = map(next, |x| x as f32);
            copy(from[(_, _, C * (k + 1) + part)], next);
            let sums = scanned(piece);
            copy(sums, to[(_, _, C * k + part)]);
        }
    } else {
        for k in 0..ceil_div(N + before, C * W) {
            let piece = map(from[(_, _, C * k + part)], |x| x as f32);
            let sums = scanned(piece);
            copy(sums, to[(_, _, C * k + part)]);
        }
    }
}

/// Sums of the pieces of each row. A piece is Q tiles of W elements. The first begins at an aligned address, up to V - 1 elements
/// before the row.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn piece_sums<T, const W: usize = 2048, const L: usize = 512, const V: usize = 4, const Q: usize = 1>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    sums: &mut Tensor<f32, { (M, ceil_div(N + V - 1, W * Q)) }, (lds, _1)>,
) {
    threads(L);
    let (p, i) = walk((sums.size(1), M), block.x);
    let from = shift(tile(x, (1, W), (i, _)), (0, -(i * ldx % V), 0));
    let mut total = full::<f32>((1, 1), 0.0);
    for k in 0..Q {
        total += sum(map(from[(_, _, Q * p + k)], |x| x as f32), 1);
    }
    copy(total, tile(sums, (1, 1), (i, p)));
}

/// Cumulative sums along rows, in a second launch: each block adds the sums of all pieces before its own. The last pieces come first:
/// the first launch has left them in the cache.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn cumulative_sums_of_pieces<
    T,
    const W: usize = 2048,
    const L: usize = 512,
    const V: usize = 4,
    const Q: usize = 1,
>(
    x: &Tensor<T, (M, N), (ld, _1)>,
    sums: &Tensor<f32, { (M, ceil_div(N + V - 1, W * Q)) }, (lds, _1)>,
    y: &mut Tensor<T, (M, N), (ld, _1)>,
) {
    threads(L);
    let (n, i) = walk((sums.size(1), M), block.x);
    let p = sums.size(1) - 1 - n;
    let from = shift(tile(x, (1, W), (i, _)), (0, -(i * ld % V), 0));
    let to = shift(tile(y, (1, W), (i, _)), (0, -(i * ld % V), 0));
    let mut total = full::<f32>((1, 1), 0.0);
    for k in 0..ceil_div(p, L) {
        total += sum(map(tile(sums, (1, L), (i, k)), |sum, at| if at.1 < p { sum } else { 0.0 }), 1);
    }
    for k in 0..Q {
        let piece = map(from[(_, _, Q * p + k)], |x| x as f32);
        copy(scan(piece, 0.0, |a, b| a + b, mode = 1, carry = &mut total), to[(_, _, Q * p + k)]);
    }
}

/// Cumulative sums along rows whose starts are not aligned to vectors, through shared memory: global accesses are
/// coalesced, and each of L threads scans V neighbouring elements. An odd V avoids bank conflicts.
#[kernel(T = f32 | f16 | bf16, overlaps)]
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
