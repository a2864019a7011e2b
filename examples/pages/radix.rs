//! Keys in order by their bytes, in one pass over all keys for each byte.

use tilewright::prelude::*;

/// A byte of a key.
#[device]
fn byte(key: u32, pass: i32) -> i32 {
    ((key >> (8 * pass)) & 255) as i32
}

/// Counts each byte of all keys, in G blocks of T threads; R lanes have counters of their own, in different banks. It clears the words of
/// the passes; `bins` must be 0 before the launch.
#[kernel]
pub fn radix_counts<const K: usize = 32, const G: usize = 132, const T: usize = 1024, const R: usize = 32>(
    keys: &Tensor<u32, N>,
    bins: &mut Tensor<i32, (_256, _4)>,
    words: &mut Tensor<u32, { (256, ceil_div(N, 256 * K), 4) }, (_1, _256, ldw)>,
) {
    use self::byte;
    threads(T);
    let _ = walk(G, block.x);
    for k in 0..ceil_div(words.size(1) - block.x, G) {
        fill(tile(words, (256, 1, 4), (0, block.x + G * k, 0)), 0);
    }
    let counts = shared::<i32>(layout!((256, 4, R) : (R, 256 * R, 1)));
    fill(counts, 0);
    sync_threads();
    for k in 0..ceil_div(ceil_div(N, 16 * T) - block.x, G) {
        let some = parallelize(tile(keys, 16 * T, block.x + G * k), layout!(T), thread.x, values = 4);
        let key = map(some, |key| key);
        for pass in unroll(0..4) {
            let of = |key| ((byte(key, pass), pass, thread.x % R), 1);
            scatter(key, counts, of, how = "atomic_add", order = "relaxed");
        }
    }
    sync_threads();
    copy(sum(counts, 2), regroup(bins, (256, 4, 1)), how = "atomic_add");
}

/// Keys and their values, or with V = 0 keys alone, in the order of one byte; keys of equal bytes keep their order. A block takes a tile
/// of 256·K keys, in the order in which blocks begin, and puts it in order in shared memory, so that neighbours are stored together.
/// Values of B keys of a thread are loaded at once, and words of L tiles.
#[kernel(allow(unread, unwritten, unused))]
pub fn radix_pass<
    const K: usize = 32,
    const V: usize = 1,
    const Q: usize = 2,
    const B: usize = 8,
    const L: usize = 8,
>(
    pass: i32,
    keys: &Tensor<u32, N>,
    values: &Tensor<u32, P>,
    keys_to: &mut Tensor<u32, N>,
    values_to: &mut Tensor<u32, P>,
    bins: &mut Tensor<i32, (_256, _4)>,
    words: &mut Tensor<u32, { (256, ceil_div(N, 256 * K), 4) }, (_1, _256, ldw)>,
    arrived: &mut Tensor<i32, _1>,
) {
    use self::byte;
    blocks_per_sm(Q);
    at_most(N, 1 << 30);
    assert(V == 0 || P == N);
    let _ = walk(words.size(1), block.x);
    let ticket = copy(1, arrived[(0)], how = "atomic_add", order = "relaxed");
    let (t, pass) = (min(max(ticket[(0)], 0), words.size(1) - 1), min(max(pass, 0), 3));
    // A thread's keys or values: each warp has 32·K neighbours.
    let (lane, warp) = (thread.x % 32, thread.x / 32);
    let part =
        |of| parallelize(regroup(tile(of, 256 * K, t), (32, B, K / B, 8)), layout!((32, 1, 1, 8)), thread.x);
    let mut key = registers::<u32>((1, B, K / B, 1), 0);
    copy(part(keys), key, clamp = true);
    // The counts of each warp's bytes, and then the positions of their next keys in the tile; a thread for each byte.
    let next = shared::<i32>(layout!((256, 8)));
    let of_byte = parallelize(next, layout!((256, 1)), thread.x);
    let sorted = shared::<u32>(layout!(256 * K));
    let sorted_values = if V > 0 { shared::<u32>(layout!(256 * K)) } else { sorted };
    fill(of_byte, 0);
    if t == words.size(1) - 1 {
        key = map(key, |key, at| if at.0 < N { key } else { u32::MAX }); // after the last key: they are stored nowhere
        fill(parallelize(sorted_values, layout!(256), thread.x), 0);
    }
    sync_threads();
    scatter(key, next, |key| ((byte(key, pass), warp), 1), how = "atomic_add", order = "relaxed");
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
    for g in unroll(0..K / B) {
        let value = registers::<u32>((1, B, 1), 0);
        if V > 0 {
            copy(part(values)[(_, _, g, _)], value);
        }
        for k in unroll(0..B) {
            let own = key[(_, k, g, _)];
            let same = warp_match(map(own, |key| byte(key, pass) as u8));
            let before = map(same, |same| count_ones(same & ((1u32 << lane) - 1)) as i32);
            let number = |key, same| if (same >> lane) == 1 { byte(key, pass) } else { -1 }; // the last lane adds for all
            let add = |key, same, before| ((number(key, same), warp), before + 1);
            let old = scatter((own, same, before), next, add, how = "atomic_add", order = "relaxed");
            let first = warp_shuffle(old, map(same, |same| 31 - leading_zeros(same) as i32));
            let position = map((before, first), |before, first| before + first);
            scatter((own, position), sorted, |key, position| (position, key));
            if V > 0 {
                scatter((value[(_, k, _)], position), sorted_values, |value, position| (position, value));
            }
        }
    }
    // The slot of a byte's first key: the first tile takes the counts of lower bytes, the others add the counts of tiles before.
    let (mut slot, mut open) = (registers::<u32>(1, 0), registers::<u32>(1, 1));
    if t == 0 {
        let all = parallelize(tile(bins, (256, 1), (0, pass))[(_, 0)], layout!(256), thread.x);
        slot = map(block_scan(map(all, |n| n), 0, |a, b| a + b, exclusive = true), |n| n as u32);
        fill(all, 0);
    }
    for j in 0..ceil_div(t, L) {
        let some = shift(tile(words, (256, L, 1), (0, 0, pass))[(_, _, 0)], (0, t - L * j - L));
        let seen = wait(parallelize(some, layout!((256, 1)), thread.x), 1, order = "relaxed");
        for k in unroll(0..L) {
            let add = |slot, open, word| slot + open * (word & ((1u32 << 30) - 1));
            slot = map((slot, open, seen[(_, L - 1 - k)]), add);
            open =
                map((open, seen[(_, L - 1 - k)]), |open, word| if word >= (1u32 << 31) { 0 } else { open });
        }
        if open == 0 {
            break;
        }
    }
    copy(map((slot, count), |slot, n| (slot + n) | (1u32 << 31)), word, how = "atomic_exchange");
    let offsets = shared::<i32>(layout!(256));
    map((slot, start), parallelize(offsets, layout!(256), thread.x), |slot, start| slot as i32 - start);
    sync_threads();
    let own = parallelize(sorted, layout!(256), thread.x);
    let to = registers_like::<i32>(own, 0);
    for k in unroll(0..K) {
        to[(k)] = map(own[(k)], |key| offsets[(byte(key, pass))] + (256 * k + thread.x));
    }
    scatter((own, to), keys_to, |key, to| (to, key));
    if V > 0 {
        scatter((parallelize(sorted_values, layout!(256), thread.x), to), values_to, |value, to| (to, value));
    }
    if t == words.size(1) - 1 {
        copy(0, arrived[(0)], how = "atomic_exchange", order = "relaxed");
    }
}
