//! The largest elements of few, long rows: a cluster for each row.

use tilewright::prelude::*;

/// The K largest elements of each row and where they were, in descending order; of equal elements the first. NaN is the largest,
/// whatever its sign. C blocks of T threads read a row twice: first each thread finds its largest element,
/// then each block lists the elements that reach a bound, as K of these do and few more.
#[kernel(arch = 90, allow(uncoalesced), choose((T, C, B) in [
    (1024, 2, 1), (256, 4, 4), (512, 1, 2), (512, 4, 2), (256, 8, 4), (512, 8, 2), (512, 16, 2),
]))]
pub fn top_k_of_long<const T: usize = 1024, const C: usize = 2, const B: usize = 1, const K: usize = 512>(
    x: &Tensor<f32, (L, M), (_1, ldx)>,
    y: &mut Tensor<f32, (K, M), (_1, ldy)>,
    order: &mut Tensor<i32, (K, M), (_1, ldo)>,
) {
    use super::items::{append_one, bound_of, in_order, item_of, key_of, put};
    assert(K <= L && 2 * K <= C * T);
    cluster(C);
    blocks_per_sm(B);
    let ((p, row), tiles) = (walk((C, M), block.x), ceil_div(L, 16 * T * C));
    // The elements of a thread in the k-th tile of a row, which has four vectors for each thread of the C blocks.
    let part = |k| {
        let vectors = permute(regroup(tile(x, (16 * T * C, 1), (k, row)), (4 * T, C, 4)), (0, 2, 1));
        parallelize(regroup(vectors, (16 * T, C))[(_, p)], layout!(T), thread.x, values = 4)
    };
    let item = |x, at| if at.0 < L { item_of(key_of(x), at.0) } else { 0 };
    let keys_of = |k| map(map(part(k), item), |item| (item >> 32) as u32);
    let room = ceil_div(4 * K, T) * T;
    let (list, sorted) = (shared::<u64>(layout!(room)), shared::<u64>(layout!(room)));
    let (maxima, count) = (shared::<u32>(layout!(T)), shared::<i32>(layout!(1)));
    let own = |of| parallelize(of, layout!(T), thread.x);
    let mut most = registers::<u32>(1, 0);
    for k in 0..tiles {
        most = map((most, maximum(keys_of(k))), |a, b| max(a, b));
    }
    copy(most, own(maxima));
    sync_cluster();
    let mut largest = registers::<u32>(C, 0);
    for j in unroll(0..C) {
        largest[(j)] = peer(own(maxima), j)[(0)];
    }
    let (high, low) = (block_maximum(maximum(largest)), block_minimum(minimum(largest)));
    let bound = bound_of(largest, map(largest, |_| 0u32), high, low, 32, K, 9 * K / 8);
    let mut least = map(bound, |bound| (bound as u64) << 32);
    let counts = registers::<i32>((1, C), 0);
    for _ in 0..2 {
        fill(own(list), 0);
        fill(parallelize(count, layout!(T), thread.x, ragged = true), 0);
        sync_threads();
        for k in 0..tiles {
            let keys = keys_of(k);
            // The elements that reach the bound, few in a tile, as bits.
            let mut bits = registers::<u32>(1, 0);
            for j in unroll(0..16) {
                let reached = |bits, key, least| bits | (((key >= (least >> 32) as u32) as u32) << j);
                bits = map((bits, keys[(j)], least), reached);
            }
            while bits[(0)] != 0 {
                let bit = map(bits, |bits| 31 - leading_zeros(bits));
                let one = tile(regroup(part(k), (4, 4)), (1, 1), (bit[(0)] % 4, bit[(0)] / 4))[(_, 0)];
                append_one(map(one, item), least, &mut list, &mut count);
                bits = map((bits, bit), |bits, bit| bits ^ (1u32 << bit));
            }
        }
        sync_cluster();
        for j in unroll(0..C) {
            copy(peer(count, j), counts[(0, j)]);
        }
        if block_maximum(sum(counts)) <= room {
            break;
        }
        // There is no room: the largest bound that K items reach, bit by bit.
        least = map(least, |_| 0u64);
        for bit in 0..64 {
            let trial = map(least, |least| least | ((1u64 << 63) >> bit));
            let mut reach = registers::<i32>(1, 0);
            for k in 0..tiles {
                reach += sum(map(map(part(k), item), |item| (item >= trial[(0)]) as i32));
            }
            least = map((least, trial, cluster_sum(reach)), |old, trial, n| if n >= K { trial } else { old });
        }
    }
    in_order(list, count, &mut sorted, T);
    sync_cluster();
    // An item's rank is the number of larger ones in the lists of all blocks, by bisection.
    let steps = map(maximum(counts), |count| 32 - leading_zeros(count) as i32)[(0, 0)];
    for i in 0..ceil_div(count[(0)] - thread.x, T) {
        let item = sorted[(T * i + thread.x)];
        let mut larger = registers::<i32>((1, C), 0);
        for step in 0..steps {
            for j in unroll(0..C) {
                let further = map((larger[(0, j)], steps), |n, steps| n + (1i32 << (steps - 1 - step)));
                let other = |n, count| peer(sorted, j)[(if n <= count { n - 1 } else { -1 })];
                let more = |old, n, count| if item < other(n, count) { n } else { old };
                larger[(0, j)] = map((larger[(0, j)], further, counts[(0, j)]), more);
            }
        }
        put(item, sum(larger)[(0, 0)], row, y, order);
    }
    sync_cluster();
}
