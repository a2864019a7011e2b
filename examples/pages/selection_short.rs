//! The largest elements of short rows: a warp for each row.

use tilewright::prelude::*;

/// The K largest elements of each row and where they were, in descending order; of equal elements the first. NaN is the largest,
/// whatever its sign. A warp has a row in registers, and takes the largest of the items that are left, K times.
#[kernel(overlaps, choose(W in [128, 256, 512]))]
pub fn top_k_of_short<const W: usize, const K: usize = 2>(
    x: &Tensor<f32, (L, M), (_1, ldx)>,
    y: &mut Tensor<f32, (K, M), (_1, ldy)>,
    order: &mut Tensor<i32, (K, M), (_1, ldo)>,
) {
    use super::items::{item_of, key_of, put};
    assert(K <= L && L <= W);
    let (lane, warp) = (thread.x % 32, thread.x / 32);
    let (mut y, mut order) = (tile(y, (K, 8), (0, block.x)), tile(order, (K, 8), (0, block.x)));
    let from = parallelize(tile(x, (W, 8), (0, block.x)), layout!((32, 8)), thread.x, values = (4, 1));
    let mut items = map(from[(_, 0)], |x, at| if at.0 < L { item_of(key_of(x), at.0) } else { 0 });
    for k in unroll(0..K) {
        let own = maximum(items);
        let high = warp_maximum(map(own, |item| (item >> 32) as u32));
        let low = |item, high| if (item >> 32) as u32 == high { item as u32 } else { 0 };
        let low = warp_maximum(map((own, high), low));
        let most = map((high, low), |high, low| ((high as u64) << 32) | low as u64);
        items = map(items, |item| if item == most[(0)] { 0u64 } else { item });
        let rank = map(most, |_| if lane == 0 { k as i32 } else { -1i32 });
        put(most, rank, warp, &mut y, &mut order);
    }
}
