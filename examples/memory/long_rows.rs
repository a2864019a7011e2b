//! Long rows: each of the C blocks of a cluster keeps W elements of a row in shared memory, in P pieces. G clusters take turns
//! with the rows. When a piece of a row is written, the copy of that piece of the next row starts; it is reduced when it
//! arrives. Each thread reduces its elements, then the block reduces them, then the blocks of the cluster exchange results.

use tilewright::prelude::*;

/// A thread's part of piece `p` of row `i`, which begins `before` elements before the row.
#[device]
pub fn piece(
    x: View,
    i: usize,
    p: usize,
    width: usize,
    threads: Arrangement,
    values: usize,
    before: usize,
) -> View {
    parallelize(shift(tile(x, (1, width), (i, p)), (0, -before)), threads, thread.x, values = (1, values))
}

/// A thread's elements of weights, which may begin between vectors.
#[device]
pub fn realigned(from: View) -> View {
    let own = registers_like(from, 0);
    copy(from, own, how = "realigned");
    own
}

/// A thread's elements of two weights that begin alike, loaded together.
#[device]
pub fn both_realigned(w: View, b: View) -> (View, View) {
    let (own_w, own_b) = (registers_like(w, 0), registers_like(b, 0));
    copy(w, own_w, how = "realigned");
    copy(b, own_b, how = "realigned");
    (own_w, own_b)
}

/// y = exp(x - max x) / Σ exp(x - max x) along rows. Rows that are not aligned to vectors have S = V.
#[kernel(T = f32 | f16 | bf16)]
pub fn softmax_long<
    T,
    const W: usize = 16384,
    const L: usize = 512,
    const V: usize = 4,
    const C: usize = 16,
    const G: usize = 20,
    const P: usize = 4,
    const Q: usize = 3,
    const S: usize = 1,
>(
    x: &Tensor<T, (M, N), (ld, _1)>,
    y: &mut Tensor<T, (M, N), (ld, _1)>,
) {
    use self::piece;
    use super::reductions::{merged, power};
    at_most(N, C * W + 1 - S);
    blocks_per_sm(Q);
    cluster(C);
    let (part, group) = walk((C, G), block.x);
    let threads = layout!((1, L));
    let from = |i, p| piece(x, i, P * part + p, W / P, threads, V, i * ld % S);
    let to = |i, p| piece(y, i, P * part + p, W / P, threads, V, i * ld % S);
    let row = tile(shared::<T>(layout!((1, W) : (W, 1))), (1, W / P), (0, _));
    let row = parallelize(row, threads, thread.x, values = (1, V));
    for p in 0..P {
        copy(from(min(group, M - 1), p), row[(_, _, p)], fill = f32::NEG_INFINITY);
        cp_async_commit();
    }
    for k in 0..ceil_div(M - group, G) {
        let i = G * k + group;
        let (mut most, mut total) = (registers::<f32>((1, 1), f32::MIN), registers::<f32>((1, 1), 0.0));
        for p in 0..P {
            // This piece is in the oldest of P commit groups in flight; an empty group keeps their number.
            cp_async_wait(P - 1);
            cp_async_commit();
            let piece = map(row[(_, _, p)], |x| x as f32);
            let next = map((most, maximum(piece, out_of_bounds = f32::NEG_INFINITY)), |a, b| max(a, b));
            let more = sum(map((piece, next), |x, most| power(x, most)), out_of_bounds = 0.0);
            (most, total) = map((most, next, total, more), |most, next, total, more| {
                (next, fma(total, power(most, next), more))
            });
        }
        let here = block_reduce(most, f32::MIN, |a, b| max(a, b), out_of_bounds = f32::MIN);
        let total = map((total, most, here), |total, most, here| total * power(most, here));
        let total = block_sum(total, out_of_bounds = 0.0);
        let merge = |(a, s), (b, t)| merged(a, s, b, t);
        let (all, total) = cluster_reduce(
            (here, total),
            (f32::MIN, 0.0),
            merge,
            out_of_bounds = (f32::MIN, 0.0),
            per_block = true,
        );
        let factor = map(total, |total| 1.0 / total);
        for p in 0..P {
            let made = map((row[(_, _, p)], all, factor), |x, most, f| power(x as f32, most) * f);
            copy(from(i + G, p), row[(_, _, p)], fill = f32::NEG_INFINITY);
            cp_async_commit();
            copy(made, to(i, p));
        }
    }
}

/// y = w · (x - mean x) / √(variance x + eps) + b along rows, R rows for each cluster, which share the
/// loads of weights.
#[kernel(T = f32 | f16 | bf16)]
pub fn layernorm_long<
    T,
    const W: usize = 16384,
    const L: usize = 256,
    const V: usize = 4,
    const C: usize = 16,
    const G: usize = 20,
    const P: usize = 4,
    const Q: usize = 3,
    const S: usize = 1,
    const R: usize = 1,
>(
    x: &Tensor<T, (M, N), (ld, _1)>,
    w: &Tensor<T, (_1, N), (ldw, _1)>,
    b: &Tensor<T, (_1, N), (ldb, _1)>,
    y: &mut Tensor<T, (M, N), (ld, _1)>,
    eps: f32,
) {
    use self::{both_realigned, piece};
    use super::reductions::{factor_of, moments};
    at_most(N, C * W + 1 - S);
    blocks_per_sm(Q);
    cluster(C);
    let (part, group) = walk((C, G), block.x);
    let (threads, groups) = (layout!((1, L)), S * ceil_div(M, S * R));
    // The rows of group g are S apart, and so begin alike between vectors.
    let rows = |x, g, width, p, before| {
        let rows = shift(tile(x, (S * R, width), (g / S, p)), (0, -before));
        if S * R > 1 { regroup(rows, (S, R, width))[(g % S, _, _)] } else { rows }
    };
    let pieces = |x, g, p| {
        let rows = rows(x, g, W / P, P * part + p, g % S * ld % S);
        parallelize(rows, threads, thread.x, values = (1, V))
    };
    let (from, to) = (|g, p| pieces(x, g, p), |g, p| pieces(y, g, p));
    let weights = |of, g, p| piece(of, 0, P * part + p, W / P, threads, V, g % S * ld % S);
    let row = tile(shared::<T>(layout!((R, W) : (W, 1))), (R, W / P), (0, _));
    let row = parallelize(row, threads, thread.x, values = (1, V));
    for p in 0..P {
        copy(from(min(group, groups - 1), p), row[(_, _, p)]);
        cp_async_commit();
    }
    let first = |g| parallelize(rows(x, g, 1, 0, 0), threads, thread.x, (1, _));
    let near = registers_like(first(min(group, groups - 1)), 0);
    copy(first(min(group, groups - 1)), near);
    for k in 0..ceil_div(groups - group, G) {
        let g = G * k + group;
        // Differences from the first element, so that their sums suffer less from cancellation.
        let (mut total, mut squares) = (registers::<f32>((R, 1), 0.0), registers::<f32>((R, 1), 0.0));
        for p in 0..P {
            // This piece is in the oldest of P commit groups in flight; an empty group keeps their number.
            cp_async_wait(P - 1);
            cp_async_commit();
            let inside = |at| if S > 1 { at >= 0 && at < N } else { at < N };
            let off = |x, _, near, at| if inside(at.1) { x as f32 - (near as f32) } else { 0.0 };
            let off = map((row[(_, _, p)], to(g, p), near), off);
            let (more, of_squares) = moments(off);
            total += more;
            squares += of_squares;
        }
        let add = |(a, s), (b, t)| (a + b, s + t);
        let (total, squares) = cluster_reduce((total, squares), (0.0, 0.0), add, out_of_bounds = (0.0, 0.0));
        let mean = map((near, total), |near, total| near as f32 + total / N as f32);
        let factor = map((total, squares), |total, squares| factor_of(total, squares, N as f32, eps));
        for p in 0..P {
            let made = |x, mean, f, w, b| (x as f32 - mean) * f * (w as f32) + (b as f32);
            // The next row's copy comes before the loads of weights, unless their shifts take the registers that x would wait in.
            if S > 1 {
                let (w, b) = both_realigned(weights(w, g, p), weights(b, g, p));
                let made = map((row[(_, _, p)], mean, factor, w, b), made);
                copy(from(g + G, p), row[(_, _, p)]);
                cp_async_commit();
                copy(made, to(g, p));
            } else {
                let own = map(row[(_, _, p)], |x| x);
                copy(from(g + G, p), row[(_, _, p)]);
                cp_async_commit();
                let (w, b) = (weights(w, g, p), weights(b, g, p));
                copy(map((own, mean, factor, w, b), made), to(g, p));
            }
        }
        copy(first(g + G), near);
    }
}

/// y = w · x / √(mean x² + eps) along rows.
#[kernel(T = f32 | f16 | bf16)]
pub fn rmsnorm_long<
    T,
    const W: usize = 16384,
    const L: usize = 512,
    const V: usize = 4,
    const C: usize = 16,
    const G: usize = 20,
    const P: usize = 4,
    const Q: usize = 3,
    const S: usize = 1,
>(
    x: &Tensor<T, (M, N), (ld, _1)>,
    w: &Tensor<T, (_1, N), (ldw, _1)>,
    y: &mut Tensor<T, (M, N), (ld, _1)>,
    eps: f32,
) {
    use self::{piece, realigned};
    at_most(N, C * W + 1 - S);
    blocks_per_sm(Q);
    cluster(C);
    let (part, group) = walk((C, G), block.x);
    let threads = layout!((1, L));
    let from = |i, p| piece(x, i, P * part + p, W / P, threads, V, i * ld % S);
    let to = |i, p| piece(y, i, P * part + p, W / P, threads, V, i * ld % S);
    let weights = |of, i, p| {
        let own = piece(of, 0, P * part + p, W / P, threads, V, i * ld % S);
        if S > 1 { realigned(own) } else { own }
    };
    let row = tile(shared::<T>(layout!((1, W) : (W, 1))), (1, W / P), (0, _));
    let row = parallelize(row, threads, thread.x, values = (1, V));
    for p in 0..P {
        copy(from(min(group, M - 1), p), row[(_, _, p)]);
        cp_async_commit();
    }
    for k in 0..ceil_div(M - group, G) {
        let i = G * k + group;
        let mut squares = registers::<f32>((1, 1), 0.0);
        for p in 0..P {
            // This piece is in the oldest of P commit groups in flight; an empty group keeps their number.
            cp_async_wait(P - 1);
            cp_async_commit();
            squares += sum(map(row[(_, _, p)], |x| (x as f32) * (x as f32)), out_of_bounds = 0.0);
        }
        let factor =
            map(cluster_sum(squares, out_of_bounds = 0.0), |squares| rsqrt(squares / N as f32 + eps));
        for p in 0..P {
            let made = map((row[(_, _, p)], factor, weights(w, i, p)), |x, f, w| x as f32 * f * (w as f32));
            copy(from(i + G, p), row[(_, _, p)]);
            cp_async_commit();
            copy(made, to(i, p));
        }
    }
}
