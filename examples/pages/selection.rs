//! The largest elements of rows.

use tilewright::prelude::*;

/// The K largest elements of each row and where they were, in descending order; of equal elements the first. NaN is the largest,
/// whatever its sign. T threads read W elements at once and keep those that reach a bound, which at least K elements reach. If
/// there is no room for them, the bound is raised.
#[kernel(overlaps, choose((T, W, MOST, B) in [
    (32, 256, 256, 32), (32, 512, 512, 32), (32, 1024, 1024, 16), (64, 512, 2048, 16), (64, 1024, 4096, 16),
    (128, 2048, 16384, 8), (256, 4096, 1000000000, 4), (512, 4096, 1000000000, 2),
]))]
pub fn top_k<const T: usize, const W: usize, const MOST: usize, const B: usize = 0, const K: usize = 8>(
    x: &Tensor<f32, (L, M), (_1, ldx)>,
    y: &mut Tensor<f32, (K, M), (_1, ldy)>,
    order: &mut Tensor<i32, (K, M), (_1, ldo)>,
) {
    use super::items::{append, bound_of, item_of, key_of, put};
    assert(K <= L && L <= MOST);
    assert(4 * K <= T || T == 512);
    blocks_per_sm(B);
    let room = ceil_div(2 * K, T) * T;
    let (best, count) = (shared::<u64>(layout!(room)), shared::<i32>(layout!(1)));
    let (own, own_count) =
        (parallelize(best, layout!(T), thread.x), parallelize(count, layout!(T), thread.x, ragged = true));
    let from = parallelize(tile(x, (W, 1), (_, block.x)), layout!((T, 1)), thread.x, values = (4, 1)); // (W / T, 1, L / W)
    fill(own, 0);
    fill(own_count, 0);
    let mut bound = registers::<u32>(1, 0); // of the upper halves
    let mut kept = map(own, |_| 0u64);
    sync_threads();
    for k in 0..from.size(2) {
        let keys = map(from[(_, 0, k)], |x, at| if at.0 < L { key_of(x) } else { 0 });
        // K of the threads' largest elements reach a bound that few others reach.
        if T >= 2 * K && k == 0 {
            let largest = maximum(keys);
            let (none, high, low) = (map(largest, |_| 0u32), block_maximum(largest), block_minimum(largest));
            bound = bound_of(largest, none, high, low, 32, K, 3 * K / 2);
        }
        append(
            map(keys, |key, at| item_of(key, at.0)),
            map(keys, |key| (key >= bound[(0)]) as i32),
            &mut best,
            &mut count,
        );
        sync_threads();
        if count[(0)] > room {
            let items = map(keys, |key, at| if at.0 < L { item_of(key, at.0) } else { 0 });
            let high = block_maximum(map((maximum(kept), maximum(items)), |a, b| max(a, b)));
            let low = map(bound, |bound| (bound as u64) << 32);
            let exact = bound_of(kept, items, high, low, 64, K, 3 * K / 2);
            sync_threads();
            fill(own, 0);
            fill(own_count, 0);
            sync_threads();
            append(kept, map(kept, |item| (item >= exact[(0)]) as i32), &mut best, &mut count);
            append(items, map(items, |item| (item >= exact[(0)]) as i32), &mut best, &mut count);
            bound = map(exact, |exact| (exact >> 32) as u32);
            sync_threads();
        }
        kept = map(own, |item| item);
        sync_threads();
    }
    // An item's rank is the number of larger ones.
    let mut rank = map(kept, |_| 0i32);
    for k in 0..ceil_div(count[(0)], 4) {
        if maximum(kept)[(0)] == 0 {
            break;
        }
        for j in unroll(0..4) {
            let other = best[(4 * k + j)];
            rank = map((rank, kept), |rank, item| rank + (item < other) as i32);
        }
    }
    let rank = map((rank, kept), |rank, item| if item > 0 { rank } else { -1 });
    put(kept, rank, block.x, y, order);
}
