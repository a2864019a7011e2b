//! Rows that take a cluster each: its C blocks have W elements of a row, and R rows one after another. The next row is
//! copied to shared memory while this one is in registers, so that memory is never idle; one exchange within the
//! cluster combines what its threads know of the row.

use tilewright::prelude::*;

/// y = exp(x - max x) / Σ exp(x - max x) along rows: maxima and sums of exponentials are combined together.
#[kernel(T = f32 | f16 | bf16)]
pub fn softmax_long<
    T,
    const W: usize = 32768,
    const L: usize = 512,
    const V: usize = 4,
    const C: usize = 8,
    const R: usize = 4,
    const Q: usize = 1,
>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
) {
    at_most(N, C * W);
    blocks_per_sm(Q);
    cluster(C);
    let (part, group) = walk((C, ceil_div(M, R)), block.x);
    let threads = layout!((1, L));
    let from = parallelize(tile(x, (1, W), (_, part)), threads, thread.x, values = (1, V));
    let to = parallelize(tile(y, (1, W), (_, part)), threads, thread.x, values = (1, V));
    let next = parallelize(shared::<T>(layout!((1, W) : (W, 1))), threads, thread.x, values = (1, V));
    copy(from[(_, _, R * group)], next);
    for i in R * group..R * group + R {
        cp_async_wait_all();
        let row = map((next, to[(_, _, i)]), |x, _, at| if at.1 < N { x as f32 } else { f32::NEG_INFINITY });
        if i + 1 < R * group + R {
            copy(from[(_, _, i + 1)], next);
        }
        let own = map(maximum(row, beyond = f32::NEG_INFINITY), |most| max(most, f32::MIN));
        let power = |x, most| exp2(1.4426950408889634 * (x - most));
        let grown = map((row, own), power);
        let merge = |(m, s), (n, t)| {
            let less = power(-abs(m - n), 0.0);
            (max(m, n), if m > n { fma(t, less, s) } else { fma(s, less, t) })
        };
        let nothing = (f32::MIN, 0.0);
        let (most, total) = cluster_reduce((own, sum(grown, beyond = 0.0)), nothing, merge, beyond = nothing);
        let factor = map((own, most, total), |own, most, total| power(own, most) / total);
        copy(map((grown, factor), |x, factor| x * factor), to[(_, _, i)]);
    }
}

/// y = w · (x - mean x) / √(variance x + eps) + b along rows: counts, means and sums of squared differences from
/// them are combined together.
#[kernel(T = f32 | f16 | bf16)]
pub fn layernorm_long<
    T,
    const W: usize = 32768,
    const L: usize = 512,
    const V: usize = 4,
    const C: usize = 8,
    const R: usize = 4,
    const Q: usize = 1,
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
    let (part, group) = walk((C, ceil_div(M, R)), block.x);
    let threads = layout!((1, L));
    let from = parallelize(tile(x, (1, W), (_, part)), threads, thread.x, values = (1, V));
    let scale = parallelize(tile(w, (1, W), (0, part)), threads, thread.x, values = (1, V));
    let bias = parallelize(tile(b, (1, W), (0, part)), threads, thread.x, values = (1, V));
    let to = parallelize(tile(y, (1, W), (_, part)), threads, thread.x, values = (1, V));
    let next = parallelize(shared::<T>(layout!((1, W) : (W, 1))), threads, thread.x, values = (1, V));
    copy(from[(_, _, R * group)], next);
    for i in R * group..R * group + R {
        cp_async_wait_all();
        let row = map(next, |x| x as f32);
        if i + 1 < R * group + R {
            copy(from[(_, _, i + 1)], next);
        }
        let count = sum(map(to[(_, _, i)], |_, at| (at.1 < N) as f32), beyond = 0.0);
        let mean = map((sum(row, beyond = 0.0), count), |total, n| total / max(n, 1.0));
        let off = |x, mean, _, at| if at.1 < N { (x - mean) * (x - mean) } else { 0.0 };
        let squares = sum(map((row, mean, to[(_, _, i)]), off), beyond = 0.0);
        let merge = |(n, mean, s), (k, other, t)| {
            let (off, part) = (other - mean, k / max(n + k, 1.0));
            (n + k, fma(off, part, mean), fma(off * off, n * part, s + t))
        };
        let nothing = (0.0, 0.0, 0.0);
        let (_, mean, squares) = cluster_reduce((count, mean, squares), nothing, merge, beyond = nothing);
        let factor = map(squares, |squares| rsqrt(squares / N as f32 + eps));
        let made = map((row, mean, factor, scale, bias), |x, mean, f, w, b| {
            (x - mean) * f * (w as f32) + (b as f32)
        });
        copy(made, to[(_, _, i)]);
    }
}

/// y = w · x / √(mean x² + eps) along rows.
#[kernel(T = f32 | f16 | bf16)]
pub fn rmsnorm_long<
    T,
    const W: usize = 32768,
    const L: usize = 512,
    const V: usize = 4,
    const C: usize = 8,
    const R: usize = 4,
    const Q: usize = 1,
>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    w: &Tensor<T, (_1, N), (ldw, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
    eps: f32,
) {
    at_most(N, C * W);
    blocks_per_sm(Q);
    cluster(C);
    let (part, group) = walk((C, ceil_div(M, R)), block.x);
    let threads = layout!((1, L));
    let from = parallelize(tile(x, (1, W), (_, part)), threads, thread.x, values = (1, V));
    let scale = parallelize(tile(w, (1, W), (0, part)), threads, thread.x, values = (1, V));
    let to = parallelize(tile(y, (1, W), (_, part)), threads, thread.x, values = (1, V));
    let next = parallelize(shared::<T>(layout!((1, W) : (W, 1))), threads, thread.x, values = (1, V));
    copy(from[(_, _, R * group)], next);
    for i in R * group..R * group + R {
        cp_async_wait_all();
        let row = map(next, |x| x as f32);
        if i + 1 < R * group + R {
            copy(from[(_, _, i + 1)], next);
        }
        let squares = cluster_sum(sum(map(row, |x| x * x), beyond = 0.0), beyond = 0.0);
        let factor = map(squares, |squares| rsqrt(squares / N as f32 + eps));
        copy(map((row, factor, scale), |x, f, w| x * f * (w as f32)), to[(_, _, i)]);
    }
}
