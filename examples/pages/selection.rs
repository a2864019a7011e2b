//! The largest elements of rows.

use tilewright::prelude::*;

/// How many items of all threads reach a bound.
#[device]
fn reaching(items: View, kept: View, bound: View) -> View {
    let reaches = |item| (item >= bound[(0)]) as i32;
    block_sum(map((sum(map(items, reaches)), sum(map(kept, reaches))), |new, old| new + old))
}

/// A bound that at least k items reach, and if there is one at most `most`: bit by bit.
#[device]
fn bound_of(items: View, kept: View, k: usize, most: usize) -> View {
    use self::reaching;
    let mut bound = registers::<u64>(1, 0);
    for bit in 0..64 {
        let next = map(bound, |bound| bound | (1u64 << (63 - bit)));
        let reach = reaching(items, kept, next);
        bound = map((bound, next, reach), |bound, next, reach| if reach >= k { next } else { bound });
        if reach[(0)] >= k && reach[(0)] <= most {
            break;
        }
    }
    bound
}

/// Appends the items that reach a bound to a list.
#[device]
fn append(items: View, bound: View, list: &mut View, count: &mut View) {
    let add = |item| (if item >= bound[(0)] { 0 } else { -1 }, 1);
    let slot = scatter(items, count, add, how = "atomic_add", order = "relaxed");
    scatter((items, slot), list, |item, slot| (if item >= bound[(0)] { slot } else { -1 }, item));
}

/// The K largest elements of each row and where they were, in descending order; of equal elements the first. T threads read W elements
/// at once, and keep those that reach a bound. When more than there is room for would reach it, the bound is raised: at least K of the
/// elements so far reach it.
#[kernel(choose((T, W, MOST) in [
    (32, 256, 256), (32, 512, 2048), (128, 2048, 4096), (256, 4096, 1000000000), (512, 8192, 1000000000),
]))]
pub fn top_k<const T: usize, const W: usize, const MOST: usize, const K: usize = 8>(
    x: &Tensor<f32, (L, M), (_1, ldx)>,
    y: &mut Tensor<f32, (K, M), (_1, ldy)>,
    order: &mut Tensor<i32, (K, M), (_1, ldo)>,
) {
    use self::{append, bound_of, reaching};
    assert(K <= L);
    assert(L <= MOST);
    assert(4 * K <= T || T == 512);
    let room = ceil_div(2 * K, T) * T;
    let (best, count) = (shared::<u64>(layout!(room)), shared::<i32>(layout!(1)));
    let (own, own_count) =
        (parallelize(best, layout!(T), thread.x), parallelize(count, layout!(T), thread.x, ragged = true));
    // The upper half of an item is an integer in the order of the numbers, and the lower half prefers the first of equal elements.
    let key = |x| bits::<u32>(x) ^ ((bits::<i32>(x) >> 31) as u32 | (1u32 << 31));
    let number = |key| bits::<f32>(if key >= (1u32 << 31) { key ^ (1u32 << 31) } else { !key });

    let from = parallelize(tile(x, (W, 1), (_, block.x)), layout!((T, 1)), thread.x, values = (4, 1)); // (W / T, 1, L / W)
    fill(own, 0);
    fill(own_count, 0);
    let mut bound = registers::<u64>(1, 1);
    sync_threads();
    for k in 0..from.size(2) {
        let items = map(from[(_, 0, k)], |x, at| {
            if at.0 < L { ((key(x) as u64) << 32) | (u32::MAX - at.0 as u32) as u64 } else { 0 }
        });
        let kept = map(own, |item| item);
        let reached = reaching(items, kept, bound);
        if reached[(0)] > room {
            // Those that K of the threads' largest reach are often few enough.
            if T >= 3 * K {
                let most = map(maximum(items), |item| item);
                bound = map((bound, bound_of(most, kept, K, 3 * K / 2)), |old, new| max(old, new));
            }
            let left = reaching(items, kept, bound);
            if left[(0)] > room {
                bound = bound_of(items, kept, K, room);
            }
            fill(own, 0);
            fill(own_count, 0);
            sync_threads();
            append(kept, bound, &mut best, &mut count);
        }
        sync_threads();
        append(items, bound, &mut best, &mut count);
        sync_threads();
    }
    // An item's rank is the number of larger ones.
    let mine = map(own, |item| item);
    let mut rank = map(own, |_| 0i32);
    for k in 0..ceil_div(count[(0)], 4) {
        for j in unroll(0..4) {
            let other = best[(4 * k + j)];
            rank = map((rank, mine), |rank, item| rank + (item < other) as i32);
        }
    }
    scatter((mine, rank), y, |item, rank| ((rank, block.x), number((item >> 32) as u32)));
    scatter((mine, rank), order, |item, rank| ((rank, block.x), (u32::MAX - item as u32) as i32));
}
