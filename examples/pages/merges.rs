//! Words of neighbouring threads in order.

use tilewright::prelude::*;

/// Puts words of N / 32 neighbouring threads in ascending order, 32 of each thread, by bitonic merges.
#[device]
pub fn order_words(words: &mut View, n: usize, lane: usize) {
    let both = |a, b| (min(a, b), max(a, b));
    for k in unroll(0..count_ones(n - 1)) {
        let run = 1 << k; // of words in order
        // Each word of a run and its mirror image in the next run, then words that are run / 2, … 1 apart.
        let upper = |a, b, threads| if lane / threads % 2 == 1 { max(a, b) } else { min(a, b) };
        if run < 32 {
            for i in unroll(0..16) {
                let (a, b) = (i / run * 2 * run + i % run, i / run * 2 * run + 2 * run - 1 - i % run);
                map((words[(a, 0)], words[(b, 0)]), (words[(a, 0)], words[(b, 0)]), both);
            }
        } else {
            let other = warp_shuffle(words, |lane| lane ^ (run / 16 - 1));
            for i in unroll(0..32) {
                map((words[(i, 0)], other[(31 - i, 0)]), words[(i, 0)], |a, b| upper(a, b, run / 32));
            }
        }
        for step in unroll(0..k) {
            let apart = run >> (step + 1);
            if apart < 32 {
                let pairs = regroup(words, (apart, 2, 16 / apart));
                map((pairs[(_, 0, _)], pairs[(_, 1, _)]), (pairs[(_, 0, _)], pairs[(_, 1, _)]), both);
            } else {
                let other = warp_shuffle(words, |lane| lane ^ (apart / 32));
                map((words, other), words, |a, b| upper(a, b, apart / 32));
            }
        }
    }
}
