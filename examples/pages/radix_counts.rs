//! How often each byte of keys occurs, for `radix_pass`.

use tilewright::prelude::*;

/// Counts each byte of all keys, in G blocks of T threads, which load W neighbours at once. Each byte has T / 32 counters in different banks,
/// and a lane uses one. It clears the words of the passes; `bins` must be 0 before the launch.
#[kernel(choose(W in [4, 1]))]
pub fn radix_counts<const W: usize, const K: usize = 32, const G: usize = 132, const T: usize = 1024>(
    keys: &Tensor<u32, N>,
    bins: &mut Tensor<i32, (_256, _4)>,
    words: &mut Tensor<u32, { (256, ceil_div(N, 256 * K), 4) }, (_1, _256, ldw)>,
) {
    threads(T);
    at_most(N, 1 << 30);
    let (_, lanes) = (walk(G, block.x), T / 32);
    for k in 0..ceil_div(words.size(1) - block.x, G) {
        fill(tile(words, (256, 1, 4), (0, block.x + G * k, 0)), 0);
    }
    let counts = shared::<i32>(layout!((256, 4, lanes) : (lanes, 256 * lanes, 1)));
    fill(counts, 0);
    sync_threads();
    for k in 0..ceil_div(ceil_div(N, 16 * T) - block.x, G) {
        let some = parallelize(tile(keys, 16 * T, block.x + G * k), layout!(T), thread.x, values = W);
        let key = map(some, |key| key);
        for pass in unroll(0..4) {
            let of = |key| ((((key >> (8 * pass)) & 255) as i32, pass, thread.x % lanes), 1);
            scatter(key, counts, of, how = "atomic_add", order = "relaxed");
        }
    }
    sync_threads();
    copy(sum(counts, 2), regroup(bins, (256, 4, 1)), how = "atomic_add");
}
