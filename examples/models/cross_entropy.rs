//! Cross entropy of rows of logits: the negative logarithm of the label's probability. A row whose label is negative, `ignored` or out of
//! bounds has the loss 0 and no gradient. With label smoothing, a part of the probability is spread over all labels. Tiles begin at an
//! aligned address, up to 7 elements before their row.

use tilewright::prelude::*;

/// exp(x - most), by the instruction for powers of 2.
#[device]
fn power(x: f32, most: f32) -> f32 {
    exp2(1.4426950408889634 * (x - most))
}

/// The same for elements, by one multiply-add. A maximum is at least -1e38, so that its product is finite.
#[device]
fn power_of_element(x: f32, most: f32) -> f32 {
    exp2(fma(1.4426950408889634, x, -1.4426950408889634 * most))
}

/// Two maxima, sums of exp(x - maximum) and plain sums as one.
#[device]
fn merged(a: f32, s: f32, x: f32, b: f32, t: f32, y: f32) -> (f32, f32, f32) {
    use self::power;
    (max(a, b), fma(s, power(a, max(a, b)), t * power(b, max(a, b))), x + y)
}

/// The loss of each row, and its log Σ exp(x) for the backward pass. A block has a row. If rows are few, it has more threads.
#[kernel(T = bf16 | f16 | f32, I = i64 | i32, choose((L, LEAST, MOST) in [(1024, 1, 2147483647), (256, 256, 2147483647), (128, 1024, 2147483647), (64, 1024, 8192)]))]
pub fn cross_entropy<T, I, const L: usize, const LEAST: usize, const MOST: usize>(
    smoothing: f32,
    ignored: i32,
    labels: &Tensor<I, M>,
    logits: &Tensor<T, (M, N), (ldx, _1)>,
    loss: &mut Tensor<f32, M>,
    lse: &mut Tensor<f32, M>,
) {
    use self::{power, power_of_element};
    assert(M >= LEAST);
    assert(N <= MOST);
    let (i, threads) = (block.x, layout!((1, L)));
    let (label, before) = (labels[(i)], i * ldx % 8);
    let row = shift(tile(logits, (1, 16 * L), (i, _)), (0, -before, 0));
    let row = parallelize(row, threads, thread.x, values = (1, 8));
    let (mut most, mut total) = (registers::<f32>((1, 1), -1e38), registers::<f32>((1, 1), 0.0));
    let mut plain = registers::<f32>((1, 1), 0.0);
    for k in 0..ceil_div(N + before, 16 * L) {
        let piece = registers_like::<f32>(row[(_, _, k)], 0.0);
        copy(row[(_, _, k)], piece, fill = f32::NEG_INFINITY);
        let next = max(most, maximum(piece, out_of_bounds = f32::NEG_INFINITY));
        let more = sum(map((piece, next), |x, most| power_of_element(x, most)), out_of_bounds = 0.0);
        total = map((total, most, next, more), |t, most, next, more| fma(t, power(most, next), more));
        most = next;
        if smoothing > 0.0 {
            plain += sum(piece);
        }
    }
    let top = block_maximum(most);
    let total = block_sum(map((total, most, top), |t, most, top| t * power(most, top)));
    if smoothing > 0.0 {
        plain = block_sum(plain);
    }
    let log_sum = map((top, total), |most, total| most + log(total));
    let losses = map((log_sum, plain), |log_sum, plain| {
        let wanted = (1.0 - smoothing) * logits[(i, label)] as f32 + smoothing * (plain / N as f32);
        if (label >= 0) & (label < N as I) & (label != ignored as I) { log_sum - wanted } else { 0.0 }
    });
    copy(losses, parallelize(tile(loss, 1, i).along(0), layout!((L, 1)), thread.x, ragged = true));
    copy(log_sum, parallelize(tile(lse, 1, i).along(0), layout!((L, 1)), thread.x, ragged = true));
}

/// Gradients of the logits, from the gradients of the losses.
#[kernel(T = bf16 | f16 | f32, I = i64 | i32)]
pub fn cross_entropy_backward<T, I>(
    smoothing: f32,
    ignored: i32,
    labels: &Tensor<I, M>,
    lse: &Tensor<f32, M>,
    d_loss: &Tensor<f32, M>,
    logits: &Tensor<T, (M, N), (ld, _1)>,
    d_logits: &mut Tensor<T, (M, N), (ld, _1)>,
) {
    use self::power_of_element;
    threads(64);
    let (n, i) = walk((ceil_div(N + 7, 2048), M), block.x);
    let (label, before) = (labels[(i)], i * ld % 8);
    let x = shift(tile(logits, (1, 2048), (i, n)), (0, -before));
    let dx = shift(tile(d_logits, (1, 2048), (i, n)), (0, -before));
    let valid = (label >= 0) & (label < N as I) & (label != ignored as I);
    let label = if valid { label as i32 } else { -1 };
    let (lse, factor) =
        map(full::<f32>((1, 1), 0.0), |zero| (lse[(i)], if valid { d_loss[(i)] } else { zero }));
    let even = map(lse, |_| smoothing / N as f32);
    map((x, lse, factor, even), dx, |x, lse, factor, even, at| {
        let wanted = even + if at.1 == label { 1.0 - smoothing } else { 0.0 };
        (factor * (power_of_element(x as f32, lse) - wanted)) as T
    });
}

/// Losses. Their gradients times `scale` overwrite the logits, which are read once. Each of the C blocks of a cluster has W elements of a row
/// in shared memory.
#[kernel(T = bf16 | f16 | f32, I = i64 | i32, choose((W, L, C) in [(1024, 128, 1), (4096, 128, 1), (5120, 160, 1), (6144, 192, 1), (8192, 256, 1), (16384, 512, 1), (16384, 512, 2), (16384, 512, 4), (16384, 512, 8), (16384, 512, 16)]))]
pub fn cross_entropy_fused<T, I, const W: usize, const L: usize, const C: usize>(
    smoothing: f32,
    ignored: i32,
    scale: f32,
    labels: &Tensor<I, M>,
    logits: &mut Tensor<T, (M, N), (ld, _1)>,
    loss: &mut Tensor<f32, M>,
) {
    use self::{merged, power_of_element};
    assert(N <= W * C - 7);
    blocks_per_sm(1536 / L);
    cluster(C);
    let (part, i) = walk((C, M), block.x);
    let (label, threads) = (labels[(i)], layout!((1, L)));
    let memory = shift(tile(logits, (1, W), (i, part)), (0, -(i * ld % 8)));
    let memory = parallelize(memory, threads, thread.x, values = (1, 8));
    let row = parallelize(shared::<T>(row_major((1, W))), threads, thread.x, values = (1, 8));
    copy(memory, row, fill = T::NEG_INFINITY);
    let target = map(parallelize(tile(loss, 1, i).along(0), layout!((L, 1)), thread.x, (_, 1)), |_| {
        logits[(i, label)] as f32
    });
    cp_async_wait_all();
    let most = map(maximum(row, out_of_bounds = T::NEG_INFINITY), |x| x as f32);
    let most = block_reduce(most, -1e38, |a, b| max(a, b), out_of_bounds = -1e38);
    let mut plain = registers::<f32>((1, 1), 0.0);
    if smoothing > 0.0 {
        plain += block_sum(sum(map((row, memory), |x, _, at| if at.1 < N { x as f32 } else { 0.0 })));
    }
    let powers = map((row, most), |x, most| power_of_element(x as f32, most));
    let total = block_sum(sum(powers, out_of_bounds = 0.0), out_of_bounds = 0.0);
    let merge = |(a, s, x), (b, t, y)| merged(a, s, x, b, t, y);
    let none = (-1e38, 0.0, 0.0);
    let (most, total, plain) =
        cluster_reduce((most, total, plain), none, merge, per_block = true, out_of_bounds = none);
    let log_sum = map((most, total), |most, total| most + log(total));
    let valid = (label >= 0) & (label < N as I) & (label != ignored as I);
    let label = if valid { label as i32 } else { -1 };
    let scale = map(log_sum, |_| if valid { scale } else { 0.0 });
    let even = map(scale, |scale| scale * (smoothing / N as f32));
    let of_label = map((scale, even), |scale, even| even + scale * (1.0 - smoothing));
    map((row, log_sum, scale, even, of_label), memory, |x, log_sum, scale, even, of_label, at| {
        (power_of_element(x as f32, log_sum) * scale - if at.1 == label { of_label } else { even }) as T
    });
    let losses = map((log_sum, plain, target), |log_sum, plain, x| {
        let wanted = (1.0 - smoothing) * x + smoothing * (plain / N as f32);
        if valid { log_sum - wanted } else { 0.0 }
    });
    if part == 0 {
        copy(losses, parallelize(tile(loss, 1, i).along(0), layout!((L, 1)), thread.x, ragged = true));
    }
}
