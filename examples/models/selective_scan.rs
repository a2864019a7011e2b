//! The scan of a selective model of state spaces. Channels are contiguous.

use tilewright::prelude::*;

/// h(t) = exp(dt(t) · a) · h(t - 1) + dt(t) · x(t) · b(t) and y(t) = Σ c(t) · h(t) + skip · x(t). Each channel has 16 states. A block has
/// 128/G channels of a sequence, and G neighbouring lanes share the states of a channel. `state` is h before and after.
#[kernel(T = bf16 | f16 | f32, threads = 128, choose(G in [1, 2, 4]))]
pub fn selective_scan<T, const G: usize>(
    a: &Tensor<f32, (D, _16), (lda, _1)>,
    skip: &Tensor<f32, D>,
    x: &Tensor<T, (B, L, D), (batch_x, ldx, _1)>,
    dt: &Tensor<T, (B, L, D), (batch_dt, lddt, _1)>,
    b: &Tensor<T, (B, L, _16), (batch_b, ldb, _1)>,
    c: &Tensor<T, (B, L, _16), (batch_c, ldc, _1)>,
    state: &mut Tensor<f32, (B, D, _16), (batch_h, ldh, _1)>,
    y: &mut Tensor<T, (B, L, D), (batch_y, ldy, _1)>,
) {
    let (channels, batch, threads) = (block.x, block.y, layout!((128 / G, G) : (G, 1)));
    let (sx, sdt) = (shared::<T>((16, 128 / G)), shared::<T>((16, 128 / G)));
    let (sb, sc) = (shared::<T>((16, 16)), shared::<T>((16, 16)));
    let rows = layout!((16, 16) : (16, 1));
    let (fb, fc) = (shared::<f32>(rows), shared::<f32>(rows));
    let sy = shared::<f32>(layout!((16, 128 / G) : (128 / G, 1)));
    let channel_of = |x| parallelize(x, threads, thread.x, (1, _)).along(0);
    let states_of = |x| parallelize(x, threads, thread.x, (_, 1), values = 16 / G).along(1);
    let part = |x| parallelize(x, threads, thread.x, values = (1, 16 / G));
    let a = map(part(tile(a, (128 / G, 16), (channels, 0))), |a| 1.4426950408889634 * a);
    let skip = map(channel_of(tile(skip, 128 / G, channels)), |d| d);
    let memory = part(tile(state, (1, 128 / G, 16), (batch, channels, 0))[(0, _, _)]);
    let mut h = map(memory, |h| h);
    for k in pipelined(0..ceil_div(L, 16), stages = 3) {
        copy(tile(x, (1, 16, 128 / G), (batch, k, channels))[(0, _, _)], sx);
        copy(tile(dt, (1, 16, 128 / G), (batch, k, channels))[(0, _, _)], sdt);
        copy(tile(b, (1, 16, 16), (batch, k, 0))[(0, _, _)], sb);
        copy(tile(c, (1, 16, 16), (batch, k, 0))[(0, _, _)], sc);
        // Once for all channels.
        copy(sb, fb);
        copy(sc, fc);
        sync_threads();
        for t in unroll(0..16) {
            let (x, dt) =
                (map(channel_of(sx[(t, _)]), |x| x as f32), map(channel_of(sdt[(t, _)]), |x| x as f32));
            let (dtx, c) = (map((dt, x), |dt, x| dt * x), map(states_of(fc[(t, _)]), |c| c));
            h = map((h, a, dt, dtx, states_of(fb[(t, _)])), |h, a, dt, dtx, b| fma(exp2(dt * a), h, dtx * b));
            let mut part_sum = map((h[(_, 0)], c[(_, 0)]), |h, c| h * c);
            for n in unroll(1..16 / G) {
                part_sum = map((part_sum, h[(_, n)], c[(_, n)]), |sum, h, c| fma(h, c, sum));
            }
            let part_sum = part_sum.along(0);
            let total = map((warp_sum(part_sum, lanes = G, out_of_bounds = 0.0), skip, x), |sum, d, x| {
                fma(d, x, sum)
            });
            if thread.x % G == 0 {
                copy(total, channel_of(sy[(t, _)]));
            }
        }
        copy(sy, tile(y, (1, 16, 128 / G), (batch, k, channels))[(0, _, _)]);
    }
    copy(h, memory);
}
