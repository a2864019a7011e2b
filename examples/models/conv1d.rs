//! Causal convolutions over time, each channel by itself, with silu, as in models of state spaces. Channels are contiguous. Times before
//! the first are 0. Each of the K taps, 2 to 5, has a row of weights.

use tilewright::prelude::*;

/// 1 / (1 + exp(-x)) by approximate functions, for memory-bound kernels.
#[device]
fn fast_sigmoid(x: f32) -> f32 {
    fast_div(1.0, 1.0 + fast_exp(-x))
}

/// y = silu(z), where z(t) = Σ w(k) · x(t - K + 1 + k) + bias. A thread has eight times of four channels, and the K - 1 times before them.
#[kernel(T = bf16 | f16 | f32)]
pub fn conv1d_causal<T, const K: usize = 4>(
    w: &Tensor<T, { (K, D) }, (ldw, _1)>,
    bias: &Tensor<T, D>,
    x: &Tensor<T, (B, L, D), (batch_x, ldx, _1)>,
    y: &mut Tensor<T, (B, L, D), (batch_y, ldy, _1)>,
) {
    use self::fast_sigmoid;
    blocks_per_sm(3);
    let (t, b) = walk((ceil_div(L, 64), B), block.x);
    let threads = layout!((8, 32) : (32, 1));
    let part = |x| parallelize(x, threads, thread.x, values = (8, 4));
    let channels_of = |w| parallelize(w, threads, thread.x, (_, 1), values = 4);
    let (w, bias) = (tile(w, (K, 128), (0, block.y)), tile(bias, 128, block.y));
    let x = tile(x, (1, 64, 128), (b, t, block.y))[(0, _, _)];
    let y = part(tile(y, (1, 64, 128), (b, t, block.y))[(0, _, _)]);
    let (mut taps, mut before) = (registers::<f32>((K, 4), 0.0), registers::<T>((K - 1, 4), 0.0));
    for k in unroll(0..K) {
        copy(channels_of(w[(k, _)]), taps[(k, _)]);
    }
    for k in unroll(0..K - 1) {
        copy(part(shift(x, (k + 1 - K, 0)))[(0, _)], before[(k, _)]);
    }
    let (own, bias) = (map(part(x), |x| x), map(channels_of(bias), |bias| bias as f32));
    for i in unroll(0..8) {
        let mut z = map(bias, |bias| bias);
        for k in unroll(0..K) {
            let x = if i + k < K - 1 { before[(i + k, _)] } else { own[(i + k + 1 - K, _)] };
            z = map((z, x, taps[(k, _)]), |z, x, w| fma(w, x as f32, z));
        }
        copy(map(z, |z| z * fast_sigmoid(z)), y[(i, _)]);
    }
}

/// A thread's part of the gradient of z for a tile of times and channels.
#[device]
fn slopes(x: View, dy: View, w: View, bias: View, taps: usize, threads: Arrangement, values: usize) -> View {
    use self::fast_sigmoid;
    let part = |x| parallelize(x, threads, thread.x, values = (1, values));
    let channels_of = |w| parallelize(w, threads, thread.x, (_, 1), values = values).along(1);
    let mut z = map((part(x), channels_of(bias)), |_, bias| bias as f32);
    for k in unroll(0..taps) {
        z = map((z, part(shift(x, (k - taps + 1, 0))), channels_of(w[(k, _)])), |z, x, w| {
            fma(w as f32, x as f32, z)
        });
    }
    map((z, part(dy)), |z, dy| {
        let s = fast_sigmoid(z);
        dy as f32 * s * fma(z, 1.0 - s, 1.0)
    })
}

/// Gradients of x, and parts of the gradients of the weights and, in row K, of the bias. The same channels have P blocks: each has every
/// P-th tile of times, and writes a part.
#[kernel(T = bf16 | f16 | f32, arch = sm_90)]
pub fn conv1d_causal_backward<T, const K: usize = 4>(
    w: &Tensor<T, { (K, D) }, (ldw, _1)>,
    bias: &Tensor<T, D>,
    x: &Tensor<T, (B, L, D), (batch_x, ldx, _1)>,
    dy: &Tensor<T, (B, L, D), (batch_dy, ldy, _1)>,
    dx: &mut Tensor<T, (B, L, D), (batch_dx, lddx, _1)>,
    parts: &mut Tensor<f32, { (P, K + 1, D) }, (part, ldp, _1)>,
) {
    use self::slopes;
    at_most(P, 65536);
    let (p, c, threads, few) =
        (walk(P, block.x), block.y, layout!((16, 8) : (8, 1)), layout!((4, 32) : (32, 1)));
    let part = |x| parallelize(x, threads, thread.x, values = (1, 4));
    let (w, bias, dz) =
        (tile(w, (K, 32), (0, c)), tile(bias, 32, c), shared::<f32>(layout!((20, 32) : (32, 1))));
    let (first, rest) = (tile(dz, (16, 32), (0, 0)), tile(dz, (4, 32), (4, 0)));
    let mut sums = registers::<f32>((K + 1, 4), 0.0);
    for b in 0..B {
        for i in 0..ceil_div(max(ceil_div(L, 16) - p, 0), P) {
            let t = P * i + p;
            let times = |x, n, at| tile(x, (1, n, 32), (b, at, c))[(0, _, _)];
            // The gradients of the next times depend on the last times of this tile.
            let dz4 = slopes(times(x, 4, 4 * t + 4), times(dy, 4, 4 * t + 4), w, bias, K, few, 1);
            let x16 = times(x, 16, t);
            let dz16 = slopes(x16, times(dy, 16, t), w, bias, K, threads, 4);
            copy(dz4, parallelize(rest, few, thread.x));
            copy(dz16, part(first));
            sync_threads();
            let mut d = registers_like::<f32>(dz16, 0.0);
            for k in unroll(0..K) {
                let w = parallelize(w[(k, _)], threads, thread.x, (_, 1), values = 4).along(1);
                d = map((d, part(shift(first, (K - 1 - k, 0))), w), |d, dz, w| fma(w as f32, dz, d));
                sums[(k, _)] += map((dz16, part(shift(x16, (k - K + 1, 0)))), |dz, x| dz * x as f32)[(0, _)];
            }
            sums[(K, _)] += dz16[(0, _)];
            sync_threads();
            copy(d, part(times(dx, 16, t)));
        }
    }
    for k in unroll(0..K + 1) {
        copy(sums[(k, _)].along(1), part(first));
        sync_threads();
        copy(sum(first, 0, out_of_bounds = 0.0), tile(parts, (1, 1, 32), (p, k, c))[(0, _, _)]);
        sync_threads();
    }
}
