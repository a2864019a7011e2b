//! Long rows: each of the C blocks of a cluster keeps W elements of a row in shared memory, P pieces, and G clusters take
//! rows in turn. A piece of the next row is on its way as soon as this one's is written; while a block waits for its
//! cluster, other resident ones load and store. Threads reduce only their own elements, once, and rescale what they found
//! when the cluster knows more.

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
    }
    let power = |x, most| exp2(1.4426950408889634 * (x - most));
    for k in 0..ceil_div(M - group, G) {
        let i = G * k + group;
        cp_async_wait_all();
        let (mut most, mut total) = (registers::<f32>((1, 1), f32::MIN), registers::<f32>((1, 1), 0.0));
        for p in 0..P {
            let inside = |x, _, at| if at.1 < N { x as f32 } else { f32::NEG_INFINITY };
            let piece = map((row[(_, _, p)], to[(_, _, i, P * part + p)]), inside);
            let next = map((most, maximum(piece, beyond = f32::NEG_INFINITY)), |a, b| max(a, b));
            let more = sum(map((piece, next), power), beyond = 0.0);
            (most, total) = map((most, next, total, more), |most, next, total, more| {
                (next, fma(total, power(most, next), more))
            });
        }
        let all = cluster_reduce(most, f32::MIN, |a, b| max(a, b), beyond = f32::MIN);
        let total = map((total, most, all), |total, most, all| total * power(most, all));
        let factor = map(cluster_sum(total, beyond = 0.0), |total| 1.0 / total);
        for p in 0..P {
            let made = map((row[(_, _, p)], all, factor), |x, most, f| power(x as f32, most) * f);
            copy(from[(_, _, i + G, P * part + p)], row[(_, _, p)]);
            copy(made, to[(_, _, i, P * part + p)]);
        }
    }
}

/// y = w · (x - mean x) / √(variance x + eps) + b along rows.
#[kernel(T = f32 | f16 | bf16)]
pub fn layernorm_long<
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
    }
    for k in 0..ceil_div(M - group, G) {
        let i = G * k + group;
        cp_async_wait_all();
        let mut total = registers::<f32>((1, 1), 0.0);
        for p in 0..P {
            total += sum(map(row[(_, _, p)], |x| x as f32), beyond = 0.0);
        }
        let mean = map(cluster_sum(total, beyond = 0.0), |total| total / N as f32);
        let mut squares = registers::<f32>((1, 1), 0.0);
        for p in 0..P {
            let off = |x, mean, _, at| if at.1 < N { (x as f32 - mean) * (x as f32 - mean) } else { 0.0 };
            squares += sum(map((row[(_, _, p)], mean, to[(_, _, i, P * part + p)]), off), beyond = 0.0);
        }
        let factor = map(cluster_sum(squares, beyond = 0.0), |squares| rsqrt(squares / N as f32 + eps));
        for p in 0..P {
            let (w, b) = (scale[(_, _, P * part + p)], bias[(_, _, P * part + p)]);
            let made = |x, mean, f, w, b| (x as f32 - mean) * f * (w as f32) + (b as f32);
            let made = map((row[(_, _, p)], mean, factor, w, b), made);
            copy(from[(_, _, i + G, P * part + p)], row[(_, _, p)]);
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
    }
    for k in 0..ceil_div(M - group, G) {
        let i = G * k + group;
        cp_async_wait_all();
        let mut squares = registers::<f32>((1, 1), 0.0);
        for p in 0..P {
            squares += sum(map(row[(_, _, p)], |x| (x as f32) * (x as f32)), beyond = 0.0);
        }
        let factor = map(cluster_sum(squares, beyond = 0.0), |squares| rsqrt(squares / N as f32 + eps));
        for p in 0..P {
            let at = P * part + p;
            let made = map((row[(_, _, p)], factor, scale[(_, _, at)]), |x, f, w| x as f32 * f * (w as f32));
            copy(from[(_, _, i + G, at)], row[(_, _, p)]);
            copy(made, to[(_, _, i, at)]);
        }
    }
}
