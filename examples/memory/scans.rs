//! Cumulative sums along rows.

use tilewright::prelude::*;

/// y = cumulative sums of x along rows: R rows for each block, W elements at a time. C blocks of a cluster share
/// long rows. With E = 1 each sum leaves out its own element.
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

/// The same for short rows, through shared memory: G neighbouring lanes scan a row, and each has K neighbouring elements.
/// An odd K avoids bank conflicts.
#[kernel(T = f32 | f16 | bf16)]
pub fn cumulative_sums_short<T, const K: usize = 9, const E: usize = 0, const G: usize = 32>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
) {
    at_most(N, G * K);
    let threads = layout!((256 / G, G) : (G, 1));
    let between = shared::<f32>(layout!((256 / G, G * K) : (G * K, 1)));
    let (spread, own) =
        (parallelize(between, threads, thread.x), parallelize(between, threads, thread.x, values = (1, K)));
    let from = parallelize(tile(x, (256 / G, G * K), (block.x, 0)), threads, thread.x);
    let to = parallelize(tile(y, (256 / G, G * K), (block.x, 0)), threads, thread.x);
    copy(map(from, |x| x as f32), spread);
    sync_threads();
    let mut all = registers::<f32>((1, 1), 0.0);
    let sums = scan(map(own, |x| x), 0.0, |a, b| a + b, mode = 1, exclusive = E > 0, carry = &mut all);
    let before = warp_scan(all, 0.0, |a, b| a + b, exclusive = true, lanes = G);
    map((sums, before), own, |sum, before| before + sum);
    sync_threads();
    copy(map(spread, |x| x), to);
}

/// Sums of the pieces of each row. A piece is L vectors of V elements. The first vector of a row begins at an aligned address,
/// up to V - 1 elements before the row.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn piece_sums<T, const L: usize = 512, const V: usize = 4>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    sums: &mut Tensor<f32, { (M, ceil_div(N + V - 1, L * V)) }, (lds, _1)>,
) {
    let (p, i) = walk((sums.size(1), M), block.x);
    let before = i * ldx % V;
    let from = shift(tile(x, (1, L * V), (i, p)), (0, -before));
    let from = parallelize(from, layout!((1, L)), thread.x, values = (1, V));
    let to = parallelize(tile(sums, (1, 1), (i, p)), layout!((L, 1)), thread.x, ragged = true);
    let piece = registers_like::<f32>(from, 0.0);
    copy(from, piece, fill = 0.0);
    copy(block_sum(sum(piece)), to);
}

/// Cumulative sums along rows, in a second launch: each block adds the sums of all pieces before its own.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn cumulative_sums_of_pieces<T, const L: usize = 512, const V: usize = 4>(
    x: &Tensor<T, (M, N), (ld, _1)>,
    sums: &Tensor<f32, { (M, ceil_div(N + V - 1, L * V)) }, (lds, _1)>,
    y: &mut Tensor<T, (M, N), (ld, _1)>,
) {
    let (p, i) = walk((sums.size(1), M), block.x);
    let (before, threads) = (i * ld % V, layout!((1, L)));
    let from = shift(tile(x, (1, L * V), (i, p)), (0, -before));
    let to = shift(tile(y, (1, L * V), (i, p)), (0, -before));
    let from = parallelize(from, threads, thread.x, values = (1, V));
    let piece = registers_like::<f32>(from, 0.0);
    copy(from, piece);
    let others = parallelize(tile(sums, (1, L), (i, _)), threads, thread.x);
    let mut start = registers::<f32>((1, 1), 0.0);
    for k in 0..ceil_div(p, L) {
        let earlier = map(others[(_, _, k)], |sum, at| if at.1 < p { sum } else { 0.0 });
        start = map((start, sum(earlier)), |start, sum| start + sum);
    }
    let start = block_sum(start);
    let mut all = registers::<f32>((1, 1), 0.0);
    let own = scan(piece, 0.0, |a, b| a + b, mode = 1, carry = &mut all);
    let earlier = block_scan(all, 0.0, |a, b| a + b, exclusive = true);
    let made = map((own, earlier, start), |own, earlier, start| start + (earlier + own));
    copy(made, parallelize(to, threads, thread.x, values = (1, V)));
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
