//! Keys in order by their bytes: `radix_counts` counts all bytes, then each byte takes a pass over all keys.

use tilewright::prelude::*;

/// Keys and their values, or with V = 0 keys alone, in the order of one byte; keys of equal bytes keep their order. A block takes a tile
/// of 256·K keys, in the order in which blocks begin, and puts it in order in shared memory, so that neighbours are stored together.
#[kernel(allow(unread, unwritten, unused))]
pub fn radix_pass<const K: usize = 32, const V: usize = 1>(
    pass: i32,
    keys: &Tensor<u32, N>,
    values: &Tensor<u32, P>,
    keys_to: &mut Tensor<u32, N>,
    values_to: &mut Tensor<u32, P>,
    bins: &mut Tensor<i32, (_256, _4)>,
    words: &mut Tensor<u32, { (256, ceil_div(N, 256 * K), 4) }, (_1, _256, ldw)>,
    arrived: &mut Tensor<i32, _1>,
) {
    blocks_per_sm(if V > 0 { 2 } else { 3 });
    let b = if V > 0 { min(8, K) } else { 1 }; // keys that a thread ranks at once
    at_most(N, 1 << 30);
    assert(V == 0 || P == N);
    let _ = walk(words.size(1), block.x);
    let ticket = copy(1, arrived[(0)], how = "atomic_add", order = "relaxed");
    let (t, pass) = (min(max(ticket[(0)], 0), words.size(1) - 1), min(max(pass, 0), 3));
    let (lane, warp, byte) = (thread.x % 32, thread.x / 32, |key| ((key >> (8 * pass)) & 255) as i32);
    // A word has the count of a tile and `counted`, or the slot after its last key and `closed`.
    let (counted, closed) = (1u32 << 30, 1u32 << 31);
    // A thread's keys or values: each warp has 32·K neighbours. After sorting, and for bytes, a thread has every 256th.
    let own = |of| parallelize(of, layout!(256), thread.x);
    let part =
        |x| parallelize(regroup(tile(x, 256 * K, t), (32, b, K / b, 8)), layout!((32, 1, 1, 8)), thread.x);
    let mut key = registers::<u32>((1, b, K / b, 1), 0);
    copy(part(keys), key, clamp = true);
    // The counts of each warp's bytes, and then the positions of their next keys in the tile.
    let (next, offsets) = (shared::<u32>(layout!((256, 8))), shared::<u32>(layout!(256)));
    let of_byte = parallelize(next, layout!((256, 1)), thread.x);
    let sorted = shared::<u32>(layout!(256 * K));
    let sorted_values = if V > 0 { shared::<u32>(layout!(256 * K)) } else { sorted };
    fill(of_byte, 0);
    if t == words.size(1) - 1 {
        copy(0, arrived[(0)], how = "atomic_exchange", order = "relaxed");
        key = map(key, |key, at| if at.0 < N { key } else { u32::MAX }); // after the last key: they are stored nowhere
        fill(own(sorted_values), 0);
    }
    sync_threads();
    scatter(key, next, |key| ((byte(key), warp), 1), how = "atomic_add", order = "relaxed");
    sync_threads();
    let lower = scan(map(of_byte, |n| n), 0, |a, b| a + b, mode = 1, exclusive = true);
    let count = sum(of_byte, 1)[(_, 0)];
    let word = own(tile(words, (256, 1, 1), (0, t, pass))[(_, 0, 0)]);
    copy(map(count, |n| if t > 0 { n | counted } else { 0 }), word, how = "atomic_exchange");
    let start = block_scan(count, 0, |a, b| a + b, exclusive = true);
    map((lower, start.along(0)), of_byte, |n, start| n + start);
    sync_threads();
    let value = map(if V > 0 { part(values) } else { key }, |value| value);
    for g in unroll(0..K / b) {
        let (same, first) = (registers::<u32>((1, b, 1), 0), registers::<u32>((1, b, 1), 0));
        for k in unroll(0..b) {
            let own = key[(_, k, g, _)];
            let lanes = warp_match(map(own, |key| byte(key) as u8));
            same[(_, k, _)] = lanes;
            let last = |key, same| if (same >> lane) == 1 { byte(key) } else { -1 }; // the last lane adds for all
            let add = |key, same| ((last(key, same), warp), count_ones(same));
            first[(_, k, _)] = scatter((own, lanes), next, add, how = "atomic_add", order = "relaxed");
        }
        let first = warp_shuffle(first, map(same, |same| 31 - leading_zeros(same) as i32));
        let slot = map((same, first), |same, first| (first + count_ones(same & ((1u32 << lane) - 1))) as i32);
        scatter((key[(_, _, g, _)], slot), sorted, |key, slot| (slot, key));
        if V > 0 {
            scatter((value[(_, _, g, _)], slot), sorted_values, |value, slot| (slot, value));
        }
    }
    // The slot of a byte's first key: the first tile adds the counts of lower bytes, the others the counts of tiles before.
    let mut slot = registers::<u32>(1, 0);
    if t == 0 {
        let all = own(tile(bins, (256, 1), (0, pass))[(_, 0)]);
        slot = map(block_scan(map(all, |n| n as u32), 0, |a, b| a + b, exclusive = true), |n| n | closed);
        fill(all, 0);
    }
    for j in 0..ceil_div(t, 8) {
        let some = shift(tile(words, (256, 8, 1), (0, 0, pass))[(_, _, 0)], (0, t - 8 * j - 8));
        let seen = wait(parallelize(some, layout!((256, 1)), thread.x), 1, order = "relaxed");
        let add = |slot, word| if slot >= closed { slot } else { slot + (word & (u32::MAX - counted)) };
        for k in unroll(0..8) {
            slot = map((slot, seen[(_, 7 - k)]), add);
        }
        if slot >= closed {
            break;
        }
    }
    copy(map((slot, count), |slot, n| slot + n), word, how = "atomic_exchange");
    map((slot, start), own(offsets), |slot, start| (slot ^ closed) - start - (256 * K * t) as u32);
    sync_threads();
    let to = |key, _, at| (offsets[(byte(key))] as i32) + at.0;
    let to = map((own(sorted), own(tile(keys_to, 256 * K, t))), to);
    scatter((own(sorted), to), keys_to, |key, to| (to, key));
    if V > 0 {
        scatter((own(sorted_values), to), values_to, |value, to| (to, value));
    }
}
