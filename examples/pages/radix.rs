//! Keys in order by their bytes, in one pass over all keys for each byte.

use tilewright::prelude::*;

/// A byte of a key.
#[device]
fn byte(key: u32, pass: i32) -> i32 {
    ((key >> (8 * pass)) & 255) as i32
}

/// Counts each byte of all keys, G tiles in a block. It clears the words of the passes; `bins` must be 0 before the launch.
#[kernel]
pub fn radix_counts<const K: usize = 24, const G: usize = 8>(
    keys: &Tensor<u32, N>,
    bins: &mut Tensor<i32, (_256, _4)>,
    words: &mut Tensor<u32, { (256, ceil_div(N, 256 * K), 4) }, (_1, _256, ldw)>,
) {
    use self::byte;
    let _ = walk(ceil_div(words.size(1), G), block.x);
    let counts = shared::<i32>(layout!((256, 4)));
    fill(counts, 0);
    for k in 0..G {
        fill(tile(words, (256, 1, 4), (0, G * block.x + k, 0)), 0);
        let key = map(tile(keys, 256 * K, G * block.x + k), |key| key);
        for pass in unroll(0..4) {
            scatter(key, counts, |key| ((byte(key, pass), pass), 1), how = "atomic_add");
        }
    }
    for pass in unroll(0..4) {
        copy(counts[(_, pass)], tile(bins, (256, 1), (0, pass))[(_, 0)], how = "atomic_add");
    }
}

/// Adds a thread's keys to the counts of their bytes in a warp; for each key the count before it.
#[device]
fn ranked(own: View, counts: &mut View, pass: i32, items: usize) -> View {
    use self::byte;
    let (lane, warp) = (thread.x % 32, thread.x / 32);
    let rank = registers::<i32>((1, items, 1), 0);
    for k in unroll(0..items) {
        let same = warp_match(map(own[(_, k, _)], |key| byte(key, pass) as u8));
        let lower = map(same, |same| count_ones(same & ((1u32 << lane) - 1)) as i32);
        let number = |key, same| if (same >> lane) == 1 { byte(key, pass) } else { -1 }; // the last lane adds for all
        let add = |key, same, lower| ((number(key, same), warp), lower + 1);
        let old = scatter((own[(_, k, _)], same, lower), counts, add, how = "atomic_add", order = "relaxed");
        rank[(_, k, _)] = lower + warp_shuffle(old, map(same, |same| 31 - leading_zeros(same) as i32));
    }
    rank
}

/// Keys and their values, or with V = 0 keys alone, in the order of one byte; keys of equal bytes keep their order. A block takes a tile
/// of 256·K keys, in the order in which blocks begin, and puts it in order in shared memory, so that neighbours are stored together.
#[kernel(allow(unread, unwritten, unused))]
pub fn radix_pass<const K: usize = 24, const V: usize = 1, const Q: usize = 2>(
    pass: i32,
    keys: &Tensor<u32, N>,
    values: &Tensor<u32, P>,
    keys_to: &mut Tensor<u32, N>,
    values_to: &mut Tensor<u32, P>,
    bins: &mut Tensor<i32, (_256, _4)>,
    words: &mut Tensor<u32, { (256, ceil_div(N, 256 * K), 4) }, (_1, _256, ldw)>,
    arrived: &mut Tensor<i32, _1>,
) {
    use self::{byte, ranked};
    blocks_per_sm(Q);
    at_most(N, 1 << 30);
    assert(V == 0 || P == N);
    let _ = walk(words.size(1), block.x);
    let ticket = copy(1, arrived[(0)], how = "atomic_add", order = "relaxed");
    let (t, pass) = (min(max(ticket[(0)], 0), words.size(1) - 1), min(max(pass, 0), 3));
    let s = shared::<u32>(layout!(256 * K));
    let own = parallelize(s, layout!(256), thread.x);
    if t == words.size(1) - 1 {
        fill(own, u32::MAX); // after the last key, so that these elements are stored nowhere
        copy(0, arrived[(0)], how = "atomic_exchange", order = "relaxed");
    }
    // A thread's keys or values: each warp has 32·K neighbours.
    let part = |of| parallelize(regroup(tile(of, 256 * K, t), (32, K, 8)), layout!((32, 1, 8)), thread.x);
    let key = map(part(keys), |key| key);
    // The counts of each warp's bytes, and then the positions of their first keys in the tile; a thread for each byte.
    let first = shared::<i32>(layout!((256, 8)));
    let of_byte = parallelize(first, layout!((256, 1)), thread.x);
    fill(of_byte, 0);
    sync_threads();
    let rank = if V > 0 { ranked(key, &mut first, pass, K) } else { key };
    if V == 0 {
        let of = |key| ((byte(key, pass), thread.x / 32), 1);
        scatter(key, first, of, how = "atomic_add", order = "relaxed"); // sooner than their ranks
    }
    sync_threads();
    let mut total = registers::<i32>((1, 1), 0);
    let lower = scan(map(of_byte, |n| n), 0, |a, b| a + b, mode = 1, exclusive = true, carry = &mut total);
    // A word has the count of a tile and 2^30, or the slot after its last key and 2^31.
    let count = map(total[(_, 0)], |n| n as u32);
    let word = parallelize(tile(words, (256, 1, 1), (0, t, pass))[(_, 0, 0)], layout!(256), thread.x);
    if t > 0 {
        copy(map(count, |n| n | (1u32 << 30)), word, how = "atomic_exchange");
    }
    let start = block_scan(total[(_, 0)], 0, |a, b| a + b, exclusive = true);
    map((lower, start.along(0)), of_byte, |n, start| n + start);
    sync_threads();
    let after = |key, rank| first[(byte(key, pass), thread.x / 32)] + rank;
    let position = if V > 0 { map((key, rank), after) } else { ranked(key, &mut first, pass, K) };
    scatter((key, position), s, |key, position| (position, key));
    let value = if V > 0 { map(part(values), |value| value) } else { key };
    // The slot of a byte's first key: the first tile takes the counts of lower bytes, the others add the counts of tiles before.
    let (mut slot, mut open) = (registers::<u32>(1, 0), registers::<u32>(1, 1));
    if t == 0 {
        let all = parallelize(tile(bins, (256, 1), (0, pass))[(_, 0)], layout!(256), thread.x);
        slot = map(block_scan(map(all, |n| n), 0, |a, b| a + b, exclusive = true), |n| n as u32);
        fill(all, 0);
    }
    for j in 0..ceil_div(t, 4) {
        let four = shift(tile(words, (256, 4, 1), (0, 0, pass))[(_, _, 0)], (0, t - 4 * j - 4));
        let seen = wait(parallelize(four, layout!((256, 1)), thread.x), 1, order = "relaxed");
        for k in unroll(0..4) {
            let add = |slot, open, word| slot + open * (word & ((1u32 << 30) - 1));
            slot = map((slot, open, seen[(_, 3 - k)]), add);
            open = map((open, seen[(_, 3 - k)]), |open, word| if word >= (1u32 << 31) { 0 } else { open });
        }
        if open == 0 {
            break;
        }
    }
    copy(map((slot, count), |slot, n| (slot + n) | (1u32 << 31)), word, how = "atomic_exchange");
    let offsets = shared::<i32>(layout!(256));
    map((slot, start), parallelize(offsets, layout!(256), thread.x), |slot, start| slot as i32 - start);
    sync_threads();
    let at_first = parallelize(tile(keys, 256 * K, 0), layout!(256), thread.x);
    let to = map((own, at_first), |key, _, at| offsets[(byte(key, pass))] + at.0);
    scatter((own, to), keys_to, |key, to| (to, key));
    if V > 0 {
        sync_threads();
        scatter((value, position), s, |value, position| (position, value));
        sync_threads();
        scatter((own, to), values_to, |value, to| (to, value));
    }
}
