//! The product of a matrix and a vector.

use tilewright::prelude::*;

/// y = A·x: one block per row, or a cluster of C blocks, each reading every C-th tile of W elements.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn gemv<T, const W: usize = 4096, const L: usize = 256, const V: usize = 4, const C: usize = 1>(
    a: &Tensor<T, (M, N), (lda, _1)>,
    x: &Tensor<T, (_1, N), (ldx, _1)>,
    y: &mut Tensor<T, (M, _1), (_1, ldy)>,
) {
    cluster(C);
    let (part, i) = walk((C, M), block.x);
    let threads = layout!((1, L));
    let matrix = parallelize(tile(a, (1, W), (i, _)), threads, thread.x, values = (1, V));
    let vector = parallelize(tile(x, (1, W), (0, _)), threads, thread.x, values = (1, V));
    let to = parallelize(tile(y, (1, 1), (i, 0)), layout!((L, 1)), thread.x, ragged = true);
    let mut total = registers::<f32>((1, 1), 0.0);
    for k in 0..ceil_div(matrix.size(2), C) {
        let at = C * k + part;
        let row = registers_like::<f32>(matrix[(_, _, at)], 0.0);
        let factors = registers_like::<f32>(vector[(_, _, at)], 0.0);
        copy(matrix[(_, _, at)], row, fill = 0.0);
        copy(vector[(_, _, at)], factors, fill = 0.0);
        total = map((total, sum(map((row, factors), |a, x| a * x))), |t, s| t + s);
    }
    let total = cluster_sum(total);
    if part == 0 {
        copy(total, to);
    }
}

/// The same for short rows: G neighbouring lanes have R rows.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn gemv_short<T, const W: usize = 256, const R: usize = 2, const V: usize = 4, const G: usize = 32>(
    a: &Tensor<T, (M, N), (lda, _1)>,
    x: &Tensor<T, (_1, N), (ldx, _1)>,
    y: &mut Tensor<T, (M, _1), (_1, ldy)>,
) {
    at_most(N, W);
    let (threads, lanes) = (layout!((256 / G, G) : (G, 1)), layout!((256 / G, 1, G) : (G, 0, 1)));
    let matrix = parallelize(tile(a, (256 / G * R, W), (block.x, 0)), threads, thread.x, values = (1, V));
    let vector = parallelize(tile(x, (1, W), (0, 0)), lanes, thread.x, (_, 1, 1), values = (1, V));
    let to = parallelize(tile(y, (256 / G * R, 1), (block.x, 0)), threads, thread.x, ragged = true);
    let (rows, factors) = (registers_like::<f32>(matrix, 0.0), registers_like::<f32>(vector, 0.0));
    copy(matrix, rows, fill = 0.0);
    copy(vector, factors, fill = 0.0);
    copy(warp_sum(sum(map((rows, factors), |a, x| a * x), 1), lanes = G), to);
}

/// The same for rows that begin between vectors, R rows at a time, V rows apart: their vectors are aligned alike, at up to V - 1
/// elements before the row, and share the elements of x. With A = 1 the next tile of the matrix is loaded before this one is summed.
#[kernel(T = f32 | f16 | bf16, overlaps)]
pub fn gemv_unaligned<
    T,
    const R: usize = 4,
    const W: usize = 1024,
    const L: usize = 128,
    const V: usize = 8,
    const C: usize = 1,
    const A: usize = 0,
>(
    a: &Tensor<T, (M, N), (lda, _1)>,
    x: &Tensor<T, (_1, N), (ldx, _1)>,
    y: &mut Tensor<T, (M, _1), (_1, ldy)>,
) {
    cluster(C);
    let (part, group) = walk((C, V * tile(a, (V * R, W), (_, _)).size(2)), block.x);
    let (r, i) = (group % V, group / V);
    let (before, threads) = (r * lda % V, layout!((1, L)));
    let to = regroup(tile(y, (V * R, 1), (i, 0)), (V, R, 1))[(r, _, _)];
    let mut total = registers::<f32>((R, 1), 0.0);
    let rows = |k| {
        let rows = regroup(shift(tile(a, (V * R, W), (i, C * k + part)), (0, -before)), (V, R, W));
        parallelize(rows[(r, _, _)], threads, thread.x, values = (1, V))
    };
    let factors = |k| {
        let factors = shift(tile(x, (1, W), (0, C * k + part)), (0, -before));
        parallelize(factors, threads, thread.x, values = (1, V))
    };
    // The loads of the matrix come first: the shift of x waits for its own.
    if A > 0 {
        let next = registers_like(rows(0), 0);
        copy(rows(0), next);
        for k in 0..ceil_div(N + before, C * W) {
            let (own, vector) = (map(next, |a| a), registers_like(factors(k), 0));
            copy(rows(k + 1), next);
            copy(factors(k), vector, how = "realigned");
            // Elements outside of the rows are 0.
            total += sum(map((own, vector), |a, x| a as f32 * (x as f32)), 1, out_of_bounds = 0.0);
        }
    } else {
        for k in 0..ceil_div(N + before, C * W) {
            let (own, vector) = (registers_like(rows(k), 0), registers_like(factors(k), 0));
            copy(rows(k), own);
            copy(factors(k), vector, how = "realigned");
            total += sum(map((own, vector), |a, x| a as f32 * (x as f32)), 1);
        }
    }
    let total = cluster_sum(total, out_of_bounds = 0.0);
    if part == 0 {
        copy(total, parallelize(to, threads, thread.x, ragged = true));
    }
}
