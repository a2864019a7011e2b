//! Short rows of matrices without gaps, as vectors of all elements: the rows of a tile are one piece of memory, which is copied to shared
//! memory by the widest accesses, whatever the length of a row. There G neighbouring lanes have J rows, one after another, and write their
//! results in place. A tile has `J * L / G` rows, a multiple of V.

use tilewright::prelude::*;

/// A thread's vectors of a tile.
#[device]
fn spread(view: View, threads: usize, values: usize) -> View {
    parallelize(view, layout!(threads), thread.x, values = values, ragged = true)
}

/// The elements of a block's tile, copied to shared memory.
#[device]
fn load_tile<T>(x: View, elements: usize, threads: usize, values: usize) -> View {
    use self::spread;
    let all = shared::<T>(layout!(elements));
    copy(spread(tile(x, elements, block.x), threads, values), spread(all, threads, values));
    all
}

/// Writes a block's tile from shared memory.
#[device]
fn store_tile(all: View, y: View, elements: usize, threads: usize, values: usize) {
    use self::spread;
    sync_threads();
    copy(map(spread(all, threads, values), |x| x), spread(tile(y, elements, block.x), threads, values));
}

/// The lanes of rows. Lanes of a warp have rows that are apart, and so read from other banks.
#[device]
fn row_lanes(lanes: usize, threads: usize) -> Arrangement {
    let apart = layout!(((threads / 32, 32 / lanes), lanes) : ((32, lanes), 1));
    let adjacent = layout!((threads / lanes, lanes) : (lanes, 1));
    if lanes > 2 { apart } else { adjacent }
}

/// A thread's part of each of its rows: `each` neighbouring elements at a time.
#[device]
fn row_parts(all: View, columns: usize, rows: usize, threads: Arrangement, each: usize) -> View {
    let rows = permute(regroup(all, (columns, rows)), (1, 0));
    parallelize(rows, threads, thread.x, values = (1, each), ragged = true)
}

/// A thread's part of a row that all rows share.
#[device]
fn shared_row(row: View, columns: usize, lanes: usize, threads: usize) -> View {
    let arrangement = layout!((threads / lanes, 1, lanes) : (lanes, 0, 1));
    parallelize(tile(row, (1, columns), (0, 0)), arrangement, thread.x, (_, 1, 1), ragged = true)[(0, _)]
}

/// y = exp(x - max x) / Σ exp(x - max x) along rows.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn softmax_dense<
    T,
    const N: usize = 67,
    const J: usize = 4,
    const G: usize = 4,
    const L: usize = 128,
    const V: usize = 4,
    const Q: usize = 4,
>(
    x: &Tensor<T, E>,
    y: &mut Tensor<T, E>,
) {
    use self::{row_lanes, row_parts, spread, store_tile};
    assert(E % N == 0);
    blocks_per_sm(Q);
    let rows = J * L / G;
    // Rows after the last one are minus infinity, as are elements after the end of a row; exp of it is 0.
    let all = shared::<T>(layout!(rows * N));
    let (from, to) = (spread(tile(x, rows * N, block.x), L, V), spread(all, L, V));
    if block.x < E / (rows * N) {
        copy(from, to);
    } else {
        copy(from, to, fill = f32::NEG_INFINITY);
    }
    let parts = row_parts(all, N, rows, row_lanes(G, L), 1);
    cp_async_wait_all();
    sync_threads();
    for j in unroll(0..J) {
        let row = registers_like::<f32>(parts[(j, _)], 0.0);
        copy(parts[(j, _)], row, fill = f32::NEG_INFINITY);
        let most = maximum(row, out_of_bounds = f32::NEG_INFINITY);
        let most = max(warp_maximum(most, lanes = G, out_of_bounds = f32::NEG_INFINITY), f32::MIN);
        let grown = map((row, most), |x, most| exp2(1.4426950408889634 * (x - most)));
        let total = warp_sum(sum(grown, out_of_bounds = 0.0), lanes = G, out_of_bounds = 0.0);
        let factor = map(total, |total| 1.0 / total);
        copy(map((grown, factor), |x, factor| x * factor), parts[(j, _)]);
    }
    store_tile(all, y, rows * N, L, V);
}

/// y = w · (x - mean x) / √(variance x + eps) + b along rows.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn layernorm_dense<
    T,
    const N: usize = 67,
    const J: usize = 4,
    const G: usize = 4,
    const L: usize = 128,
    const V: usize = 4,
    const Q: usize = 4,
>(
    x: &Tensor<T, E>,
    w: &Tensor<T, (_1, N), (ldw, _1)>,
    b: &Tensor<T, (_1, N), (ldb, _1)>,
    y: &mut Tensor<T, E>,
    eps: f32,
) {
    use self::{load_tile, row_lanes, row_parts, shared_row, store_tile};
    assert(E % N == 0);
    blocks_per_sm(Q);
    let rows = J * L / G;
    let all = load_tile::<T>(x, rows * N, L, V);
    let parts = row_parts(all, N, rows, row_lanes(G, L), 1);
    let (column, bias) = (shared_row(w, N, G, L), shared_row(b, N, G, L));
    let (w, b) = (map(column, |w| w as f32), map(bias, |b| b as f32));
    cp_async_wait_all();
    sync_threads();
    for j in unroll(0..J) {
        let row = map(parts[(j, _)], |x| x as f32);
        let total = warp_sum(sum(row, out_of_bounds = 0.0), lanes = G, out_of_bounds = 0.0);
        let mean = map(total, |total| total * (1.0 / N as f32));
        let off = map((column, row, mean), |_, x, mean, at| if at.0 < N { x - mean } else { 0.0 });
        let squares = sum(map(off, |d| d * d), out_of_bounds = 0.0);
        let squares = warp_sum(squares, lanes = G, out_of_bounds = 0.0);
        let factor = map(squares, |squares| rsqrt(squares * (1.0 / N as f32) + eps));
        copy(map((off, factor, w, b), |d, f, w, b| d * f * w + b), parts[(j, _)]);
    }
    store_tile(all, y, rows * N, L, V);
}

/// y = w · x / √(mean x² + eps) along rows.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn rmsnorm_dense<
    T,
    const N: usize = 67,
    const J: usize = 4,
    const G: usize = 4,
    const L: usize = 128,
    const V: usize = 4,
    const Q: usize = 4,
>(
    x: &Tensor<T, E>,
    w: &Tensor<T, (_1, N), (ldw, _1)>,
    y: &mut Tensor<T, E>,
    eps: f32,
) {
    use self::{load_tile, row_lanes, row_parts, shared_row, store_tile};
    assert(E % N == 0);
    blocks_per_sm(Q);
    let rows = J * L / G;
    let all = load_tile::<T>(x, rows * N, L, V);
    let parts = row_parts(all, N, rows, row_lanes(G, L), 1);
    let w = map(shared_row(w, N, G, L), |w| w as f32);
    cp_async_wait_all();
    sync_threads();
    for j in unroll(0..J) {
        let row = map(parts[(j, _)], |x| x as f32);
        let squares = sum(map(row, |x| x * x), out_of_bounds = 0.0);
        let squares = warp_sum(squares, lanes = G, out_of_bounds = 0.0);
        let factor = map(squares, |squares| rsqrt(squares * (1.0 / N as f32) + eps));
        copy(map((row, factor, w), |x, f, w| x * f * w), parts[(j, _)]);
    }
    store_tile(all, y, rows * N, L, V);
}

/// Cumulative sums along rows. With X = 1 each sum leaves out its parts element. A lane has neighbouring elements; an odd number avoids bank
/// conflicts.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn cumulative_sums_dense<
    T,
    const N: usize = 67,
    const X: usize = 0,
    const J: usize = 4,
    const G: usize = 4,
    const L: usize = 128,
    const V: usize = 4,
    const Q: usize = 4,
>(
    x: &Tensor<T, E>,
    y: &mut Tensor<T, E>,
) {
    use self::{load_tile, row_lanes, row_parts, store_tile};
    assert(E % N == 0);
    blocks_per_sm(Q);
    let rows = J * L / G;
    let all = load_tile::<T>(x, rows * N, L, V);
    let parts = row_parts(all, N, rows, row_lanes(G, L), 2 * (ceil_div(N, G) / 2) + 1);
    cp_async_wait_all();
    sync_threads();
    for j in unroll(0..J) {
        let (row, mut total) = (map(parts[(j, _)], |x| x as f32), registers::<f32>(1, 0.0));
        let sums = scan(row, 0.0, |a, b| a + b, exclusive = X > 0, carry = &mut total, out_of_bounds = 0.0);
        let before = warp_scan(total, 0.0, |a, b| a + b, exclusive = true, lanes = G);
        copy(map((sums, before), |sum, before| before + sum), parts[(j, _)]);
    }
    store_tile(all, y, rows * N, L, V);
}

/// y = A·x.
#[kernel(T = f32 | f16 | bf16, overlaps, allow(uncoalesced))]
pub fn gemv_dense<
    T,
    const N: usize = 67,
    const J: usize = 4,
    const G: usize = 4,
    const L: usize = 128,
    const V: usize = 4,
    const Q: usize = 4,
>(
    a: &Tensor<T, E>,
    x: &Tensor<T, (_1, N), (ldx, _1)>,
    y: &mut Tensor<T, (M, _1), (_1, ldy)>,
) {
    use self::{load_tile, row_lanes, row_parts, shared_row};
    assert(E == N * M);
    blocks_per_sm(Q);
    let rows = J * L / G;
    let parts = row_parts(load_tile::<T>(a, rows * N, L, V), N, rows, row_lanes(G, L), 1);
    let factors = map(shared_row(x, N, G, L), |x| x as f32);
    let to = parallelize(tile(y, (rows, 1), (block.x, 0)), row_lanes(G, L), thread.x, ragged = true);
    cp_async_wait_all();
    sync_threads();
    for j in unroll(0..J) {
        let products = map((parts[(j, _)], factors), |a, x| a as f32 * x);
        copy(warp_sum(sum(products, out_of_bounds = 0.0), lanes = G, out_of_bounds = 0.0), to[(j, _)]);
    }
}
