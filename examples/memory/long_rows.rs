//! Long rows: each of the C blocks of a cluster keeps W elements of a row in shared memory, in P pieces. G clusters take turns
//! with the rows. When a piece of a row is written, the copy of that piece of the next row starts; it is reduced when it
//! arrives. Each thread reduces its elements, then the block reduces them, then the blocks of the cluster exchange results.

use tilewright::prelude::*;

/// y = exp(x - max x) / Σ exp(x - max x) along rows.
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
>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
) {
    at_most(N, C * W);
    blocks_per_sm(Q);
    cluster(C);
    let (part, group) = walk((C, G), block.x);
    let threads = layout!((1, L));
    let from = parallelize(tile(x, (1, W / P), (_, _)), threads, thread.x, values = (1, V));
    let to = parallelize(tile(y, (1, W / P), (_, _)), threads, thread.x, values = (1, V));
    let row = tile(shared::<T>(layout!((1, W) : (W, 1))), (1, W / P), (0, _));
    let row = parallelize(row, threads, thread.x, values = (1, V));
    for p in 0..P {
        copy(from[(_, _, min(group, M - 1), P * part + p)], row[(_, _, p)]);
        cp_async_commit();
    }
    let power = |x, most| exp2(1.4426950408889634 * (x - most));
    for k in 0..ceil_div(M - group, G) {
        let i = G * k + group;
        let (mut most, mut total) = (registers::<f32>((1, 1), f32::MIN), registers::<f32>((1, 1), 0.0));
        for p in 0..P {
            // This piece is in the oldest of P commit groups in flight; an empty group keeps their number.
            cp_async_wait(P - 1);
            cp_async_commit();
            let inside = |x, _, at| if at.1 < N { x as f32 } else { f32::NEG_INFINITY };
            let piece = map((row[(_, _, p)], to[(_, _, i, P * part + p)]), inside);
            let next = map((most, maximum(piece, beyond = f32::NEG_INFINITY)), |a, b| max(a, b));
            let more = sum(map((piece, next), power), beyond = 0.0);
            (most, total) = map((most, next, total, more), |most, next, total, more| {
                (next, fma(total, power(most, next), more))
            });
        }
        let here = block_reduce(most, f32::MIN, |a, b| max(a, b), beyond = f32::MIN);
        let total = map((total, most, here), |total, most, here| total * power(most, here));
        let total = block_sum(total, beyond = 0.0);
        let merge = |(a, s), (b, t)| (max(a, b), fma(s, power(a, max(a, b)), t * power(b, max(a, b))));
        let (all, total) =
            cluster_reduce((here, total), (f32::MIN, 0.0), merge, beyond = (f32::MIN, 0.0), per_block = true);
        let factor = map(total, |total| 1.0 / total);
        for p in 0..P {
            let made = map((row[(_, _, p)], all, factor), |x, most, f| power(x as f32, most) * f);
            copy(from[(_, _, i + G, P * part + p)], row[(_, _, p)]);
            cp_async_commit();
            copy(made, to[(_, _, i, P * part + p)]);
        }
    }
}

/// y = w · (x - mean x) / √(variance x + eps) + b along rows.
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
>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    w: &Tensor<T, (_1, N), (ldw, _1)>,
    b: &Tensor<T, (_1, N), (ldb, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
    eps: f32,
) {
    at_most(N, C * W);
    blocks_per_sm(Q);
    cluster(C);
    let (part, group) = walk((C, G), block.x);
    let threads = layout!((1, L));
    let from = parallelize(tile(x, (1, W / P), (_, _)), threads, thread.x, values = (1, V));
    let scale = parallelize(tile(w, (1, W / P), (0, _)), threads, thread.x, values = (1, V));
    let bias = parallelize(tile(b, (1, W / P), (0, _)), threads, thread.x, values = (1, V));
    let to = parallelize(tile(y, (1, W / P), (_, _)), threads, thread.x, values = (1, V));
    let row = tile(shared::<T>(layout!((1, W) : (W, 1))), (1, W / P), (0, _));
    let row = parallelize(row, threads, thread.x, values = (1, V));
    for p in 0..P {
        copy(from[(_, _, min(group, M - 1), P * part + p)], row[(_, _, p)]);
        cp_async_commit();
    }
    // The number of elements of a row that a thread has.
    let mut count = registers::<f32>((1, 1), 0.0);
    for p in 0..P {
        let more = sum(map(to[(_, _, 0, P * part + p)], |_, at| (at.1 < N) as i32), beyond = 0);
        count = map((count, more), |n, more| n + more as f32);
    }
    let merge = |(n, mean, s), (k, other, t)| {
        let (off, part) = (other - mean, k / max(n + k, 1.0));
        (n + k, fma(off, part, mean), fma(off * off, n * part, s + t))
    };
    for k in 0..ceil_div(M - group, G) {
        let i = G * k + group;
        // Differences from a number near the mean, so that their sums do not suffer from cancellation.
        let near = registers::<f32>((1, 1), 0.0);
        let (mut off, mut squares) = (registers::<f32>((1, 1), 0.0), registers::<f32>((1, 1), 0.0));
        for p in 0..P {
            // This piece is in the oldest of P commit groups in flight; an empty group keeps their number.
            cp_async_wait(P - 1);
            cp_async_commit();
            let place = to[(_, _, i, P * part + p)];
            let piece = map(row[(_, _, p)], |x| x as f32);
            if p == 0 {
                map((sum(piece, beyond = 0.0), count), near, |total, n| total / max(n, 1.0));
            }
            let far = map((piece, near, place), |x, near, _, at| if at.1 < N { x - near } else { 0.0 });
            off += sum(far, beyond = 0.0);
            squares += sum(map(far, |d| d * d), beyond = 0.0);
        }
        let off = map((off, count), |off, n| off / max(n, 1.0));
        let squares = map((squares, off, count), |s, off, n| max(s - off * off * n, 0.0));
        let mean = map((near, off), |near, off| near + off);
        let total = block_sum(map((mean, count), |mean, n| mean * n), beyond = 0.0);
        let inside = map(total, |_| max(min(N - W * part, W), 0) as f32);
        let here = map((total, inside), |total, n| total / max(n, 1.0));
        let spread = |s, n, mean, here| fma((mean - here) * (mean - here), n, s);
        let squares = block_sum(map((squares, count, mean, here), spread), beyond = 0.0);
        let (count, mean, squares) = cluster_reduce(
            (inside, here, squares),
            (0.0, 0.0, 0.0),
            merge,
            beyond = (0.0, 0.0, 0.0),
            per_block = true,
        );
        let factor = map((squares, count), |squares, n| rsqrt(squares / n + eps));
        for p in 0..P {
            let (w, b) = (scale[(_, _, P * part + p)], bias[(_, _, P * part + p)]);
            let made = |x, mean, f, w, b| (x as f32 - mean) * f * (w as f32) + (b as f32);
            let made = map((row[(_, _, p)], mean, factor, w, b), made);
            copy(from[(_, _, i + G, P * part + p)], row[(_, _, p)]);
            cp_async_commit();
            copy(made, to[(_, _, i, P * part + p)]);
        }
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
>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    w: &Tensor<T, (_1, N), (ldw, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
    eps: f32,
) {
    at_most(N, C * W);
    blocks_per_sm(Q);
    cluster(C);
    let (part, group) = walk((C, G), block.x);
    let threads = layout!((1, L));
    let from = parallelize(tile(x, (1, W / P), (_, _)), threads, thread.x, values = (1, V));
    let scale = parallelize(tile(w, (1, W / P), (0, _)), threads, thread.x, values = (1, V));
    let to = parallelize(tile(y, (1, W / P), (_, _)), threads, thread.x, values = (1, V));
    let row = tile(shared::<T>(layout!((1, W) : (W, 1))), (1, W / P), (0, _));
    let row = parallelize(row, threads, thread.x, values = (1, V));
    for p in 0..P {
        copy(from[(_, _, min(group, M - 1), P * part + p)], row[(_, _, p)]);
        cp_async_commit();
    }
    for k in 0..ceil_div(M - group, G) {
        let i = G * k + group;
        let mut squares = registers::<f32>((1, 1), 0.0);
        for p in 0..P {
            // This piece is in the oldest of P commit groups in flight; an empty group keeps their number.
            cp_async_wait(P - 1);
            cp_async_commit();
            squares += sum(map(row[(_, _, p)], |x| (x as f32) * (x as f32)), beyond = 0.0);
        }
        let factor = map(cluster_sum(squares, beyond = 0.0), |squares| rsqrt(squares / N as f32 + eps));
        for p in 0..P {
            let at = P * part + p;
            let made = map((row[(_, _, p)], factor, scale[(_, _, at)]), |x, f, w| x as f32 * f * (w as f32));
            copy(from[(_, _, i + G, at)], row[(_, _, p)]);
            cp_async_commit();
            copy(made, to[(_, _, i, at)]);
        }
    }
}
