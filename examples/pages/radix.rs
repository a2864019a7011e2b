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
        let own = map(tile(keys, 256 * K, G * block.x + k), |key| key);
        for pass in unroll(0..4) {
            scatter(own, counts, |key| ((byte(key, pass), pass), 1), how = "atomic_add");
            fill(tile(words, (256, 1, 1), (0, G * block.x + k, pass)), 0);
        }
    }
    for pass in unroll(0..4) {
        copy(counts[(_, pass)], tile(bins, (256, 1), (0, pass))[(_, 0)], how = "atomic_add");
    }
}

/// A thread's keys or values of a tile: each warp has 32·K neighbours.
#[device]
fn part(of: View, t: usize, items: usize) -> View {
    parallelize(regroup(tile(of, 256 * items, t), (32, items, 8)), layout!((32, 1, 8)), thread.x)
}

/// The positions of a thread's keys in their tile in the order of a byte; for each byte its count and its first position.
#[device]
fn ranked(own: View, words: &mut View, t: usize, pass: i32, items: usize) -> (View, View, View) {
    use self::byte;
    let (lane, warp) = (thread.x % 32, thread.x / 32);
    let counts = shared::<i32>(layout!((256, 8)));
    let own_counts = parallelize(counts, layout!((256, 1)), thread.x);
    fill(own_counts, 0);
    sync_threads();
    let rank = registers::<i32>((1, items, 1), 0); // among the keys of the warp with the same byte
    for k in unroll(0..items) {
        let same = warp_match(map(own[(_, k, _)], |key| byte(key, pass) as u8));
        let lower = map(same, |same| count_ones(same & ((1u32 << lane) - 1)) as i32);
        // The last lane with the byte adds for all.
        let add = |key, same, lower| {
            let number = if (same >> lane) == 1 { byte(key, pass) } else { -1 };
            ((number, warp), lower + 1)
        };
        let before =
            scatter((own[(_, k, _)], same, lower), counts, add, how = "atomic_add", order = "relaxed");
        rank[(_, k, _)] = lower + warp_shuffle(before, map(same, |same| 31 - leading_zeros(same) as i32));
    }
    sync_threads();
    let mut total = registers::<i32>((1, 1), 0);
    let before =
        scan(map(own_counts, |n| n), 0, |a, b| a + b, mode = 1, exclusive = true, carry = &mut total);
    let count = total[(_, 0)];
    let word = parallelize(tile(words, (256, 1, 1), (0, t, pass))[(_, 0, 0)], layout!(256), thread.x);
    if t > 0 {
        copy(map(count, |n| (n as u32) | (1u32 << 30)), word, how = "atomic_exchange");
    }
    let start = block_scan(count, 0, |a, b| a + b, exclusive = true);
    map((before, start.along(0)), own_counts, |n, start| n + start);
    sync_threads();
    (map((own, rank), |key, rank| counts[(byte(key, pass), warp)] + rank), count, start)
}

/// For each byte the slot of its first key among all keys, less the position of that key in the tile. A thread for each byte adds the
/// counts of the tiles before: a word has the count of a tile and 2^30, or the slot after its last key and 2^31. The first tile adds the
/// counts of lower bytes among all keys.
#[device]
fn look_back(bins: &mut View, words: &mut View, count: View, start: View, t: usize, pass: i32) -> View {
    let (mut before, mut open) = (registers::<u32>(1, 0), registers::<u32>(1, 1));
    if t == 0 {
        let all = parallelize(tile(bins, (256, 1), (0, pass))[(_, 0)], layout!(256), thread.x);
        before = map(block_scan(map(all, |n| n), 0, |a, b| a + b, exclusive = true), |n| n as u32);
        fill(all, 0);
    }
    for j in 0..ceil_div(t, 4) {
        let four = shift(tile(words, (256, 4, 1), (0, 0, pass))[(_, _, 0)], (0, t - 4 * j - 4));
        let seen = wait(parallelize(four, layout!((256, 1)), thread.x), 1, order = "relaxed");
        for k in unroll(0..4) {
            let add = |before, open, word| before + open * (word & ((1u32 << 30) - 1));
            before = map((before, open, seen[(_, 3 - k)]), add);
            open = map((open, seen[(_, 3 - k)]), |open, word| if word >= (1u32 << 31) { 0 } else { open });
        }
        if open == 0 {
            break;
        }
    }
    let word = parallelize(tile(words, (256, 1, 1), (0, t, pass))[(_, 0, 0)], layout!(256), thread.x);
    copy(map((before, count), |before, n| (before + n as u32) | (1u32 << 31)), word, how = "atomic_exchange");
    let offsets = shared::<i32>(layout!(256));
    map((before, start), parallelize(offsets, layout!(256), thread.x), |before, start| before as i32 - start);
    offsets
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
    use self::{byte, look_back, part, ranked};
    blocks_per_sm(Q);
    at_most(N, 1 << 30);
    assert(V == 0 || P == N);
    let _ = walk(words.size(1), block.x);
    let ticket = copy(1, arrived[(0)], how = "atomic_add", order = "relaxed");
    let t = min(max(ticket[(0)], 0), words.size(1) - 1);
    let pass = min(max(pass, 0), 3);
    let s = shared::<u32>(layout!(256 * K));
    let own = parallelize(s, layout!(256), thread.x);
    if t == words.size(1) - 1 {
        fill(own, u32::MAX); // after the last key, so that these elements are stored nowhere
        copy(0, arrived[(0)], how = "atomic_exchange", order = "relaxed");
    }
    let key = map(part(keys, t, K), |key| key);
    let (position, count, start) = ranked(key, &mut words, t, pass, K);
    scatter((key, position), s, |key, position| (position, key));
    let value = if V > 0 { map(part(values, t, K), |value| value) } else { key };
    let offsets = look_back(&mut bins, &mut words, count, start, t, pass);
    sync_threads();
    let at_first = parallelize(tile(keys, 256 * K, 0), layout!(256), thread.x);
    let slot = map((own, at_first), |key, _, at| offsets[(byte(key, pass))] + at.0);
    scatter((own, slot), keys_to, |key, slot| (slot, key));
    if V > 0 {
        sync_threads();
        scatter((value, position), s, |value, position| (position, value));
        sync_threads();
        scatter((own, slot), values_to, |value, slot| (slot, value));
    }
}
