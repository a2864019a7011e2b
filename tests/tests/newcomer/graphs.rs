//! Kernels on keys, bits and graphs: digits and ranks, runs, hashes, frontiers, neighbourhoods.

use crate::{below, drawn, every, generated, right};
use tilewright::prelude::*;
use tilewright_sim::Arg;
use tilewright_tests::inputs::inputs;

/// How often each digit of four bits occurs among the keys of each block.
#[kernel]
fn digit_counts(shift: i32, keys: &Tensor<u32, N>, counts: &mut Tensor<i32, { (16, ceil_div(N, 256)) }>) {
    let digits = (tile(keys, 256, block.x) >> shift) & 15;
    let same = digits.along(1) == iota((16, 1), 0) as u32;
    copy(sum(same as i32, 1)[(_, 0)], tile(counts, (16, 1), (0, block.x))[(_, 0)]);
}

/// The position of a key is the number of keys with a lesser digit, and of earlier keys with the same digit.
#[kernel]
fn sorted_by_digit(
    shift: i32,
    keys: &Tensor<u32, N>,
    starts: &Tensor<i32, { (16, ceil_div(N, 256)) }>,
    sorted: &mut Tensor<u32, N>,
) {
    let keys = tile(keys, 256, block.x);
    let digits = (keys >> shift) & 15;
    let same = (digits.along(1) == iota((16, 1), 0) as u32) as i32;
    let before = scan(same, 0, |a, b| a + b, mode = 1, exclusive = true);
    let rank = sum(same * before, 0)[(0, _)];
    scatter((keys, digits, rank), sorted, |key, digit, rank| (starts[(digit as i32, block.x)] + rank, key));
}

#[test]
fn keys_are_sorted_by_a_digit() {
    for n in [1usize, 256, 700, 768] {
        let sizes = &*format!("shift = 4, N = {n}");
        inputs(digit_counts().def()).written([sizes]);
        // Each digit occurs 16 times in a block of 256.
        let (key, blocks) = (|at: usize| at * 7 % 16 * 16 + at % 5, n.div_ceil(256));
        inputs(sorted_by_digit().def())
            .indexed("keys", move |at, _| key(at) as f64)
            .indexed("starts", move |at, _| (16 * (at % 16 * blocks + at / 16)) as f64)
            .zero("sorted")
            .written([sizes]);
    }
}

/// The values and the beginnings of runs of equal elements, in one block.
#[kernel(allow(uncoalesced))]
fn runs(
    x: &Tensor<i32, N>,
    values: &mut Tensor<i32, N>,
    starts: &mut Tensor<i32, N>,
    count: &mut Tensor<i32, _1>,
) {
    let _ = walk(1, block.x);
    let from = tile(x, 1024, _);
    let mut runs = full::<i32>(1, 0);
    for k in 0..from.size(1) {
        let own = from[(_, k)];
        let begins =
            map((own, shift(own, -1)), |x, before, at| ((at.0 < N) & ((at.0 == 0) | (x != before))) as i32);
        let slot = scan(begins, 0, |a, b| a + b, exclusive = true, carry = &mut runs, out_of_bounds = 0);
        scatter((own, begins, slot), values, |x, b, p| (if b > 0 { p } else { -1 }, x), out_of_bounds = -1);
        scatter(
            (own, begins, slot),
            starts,
            |_, b, p, at| (if b > 0 { p } else { -1 }, at.0),
            out_of_bounds = -1,
        );
    }
    copy(runs, count);
}

#[test]
fn runs_of_equal_elements() {
    inputs(runs().def())
        .indexed("x", |at, _| ((at as f64).sqrt() % 7.0).floor())
        .with("values", |_| -7.0)
        .with("starts", |_| -7.0)
        .written(["N = 1", "N = 1000", "N = 2600"]);
}

/// Attention of a graph: softmax over the edges of each node, one block for each, and the mean of their features.
#[kernel(allow(uncoalesced))]
fn graph_attention<const D: usize = 16>(
    offsets: &Tensor<i32, { V + 1 }>,
    neighbours: &Tensor<i32, E>,
    score: &Tensor<f32, E>,
    x: &Tensor<f32, (D, V)>,
    y: &mut Tensor<f32, (D, V)>,
) {
    let (first, end) = (offsets[(block.x)], offsets[(block.x + 1)]);
    let (mut most, mut total) = (full::<f32>(1, f32::MIN), full::<f32>(1, 0.0));
    let mut acc = full::<f32>((D, 1), 0.0);
    for k in 0..ceil_div(end - first, 64) {
        let edges = shift(tile(neighbours, 64, k), (first));
        let s =
            map(
                (shift(tile(score, 64, k), (first)), edges),
                |s, _, at| if at.0 < end { s } else { f32::NEG_INFINITY },
            );
        let now = max(most, maximum(s, out_of_bounds = f32::NEG_INFINITY));
        let weight = exp(s - now);
        let old = exp(most - now);
        total = total * old + sum(weight, out_of_bounds = 0.0);
        let features = map((edges.along(1), iota((D, 1), 0)), |node, d| x[(d, node)]);
        acc = acc * old
            + sum(
                if weight.along(1) > 0.0 { weight.along(1) * features } else { 0.0 },
                1,
                out_of_bounds = 0.0,
            );
        most = now;
    }
    copy((acc / total)[(_, 0)], tile(y, (D, 1), (0, block.x))[(_, 0)]);
}

#[test]
fn nodes_attend_to_their_neighbours() {
    let (d, degrees) = (16, [1, 64, 100, 3]);
    let v = degrees.len();
    let e: usize = degrees.iter().sum();
    let offsets: Vec<i32> = (0..=v).map(|i| degrees[..i].iter().sum::<usize>() as i32).collect();
    let (neighbours, score, x) = (below(v as i32, e, 1), drawn(e, 2), drawn(d * v, 3));
    let mut wanted = vec![];
    for i in 0..v {
        let edges = offsets[i] as usize..offsets[i + 1] as usize;
        let total: f64 = edges.clone().map(|at| f64::from(score[at]).exp()).sum();
        for c in 0..d {
            let term = |at: usize| f64::from(score[at]).exp() * f64::from(x[c + d * neighbours[at] as usize]);
            wanted.push(edges.clone().map(term).sum::<f64>() / total);
        }
    }
    let args = [
        Arg::tensor(&offsets, [v + 1]),
        Arg::tensor(&neighbours, [e]),
        Arg::tensor(&score, [e]),
        Arg::tensor(&x, [d, v]),
        Arg::output::<f32>([d, v]),
    ];
    right(generated!(graph_attention()), &args, "y", &wanted, 1e-4);
}

/// A step of a breadth-first search over edges: nodes next to the nodes of a level, and whether there are any.
#[kernel]
fn frontier(
    level: i32,
    from: &Tensor<i32, E>,
    to: &Tensor<i32, E>,
    levels: &Tensor<i32, V>,
    next: &mut Tensor<i32, V>,
    result: &mut Tensor<i32, _1>,
) {
    let edges = (tile(from, 256, block.x), tile(to, 256, block.x));
    let reached = map(edges, |from, to| if (levels[(from)] == level) & (levels[(to)] < 0) { to } else { -1 });
    scatter(reached, next, |node| (node, level + 1), how = "atomic_max");
    copy(sum((reached >= 0) as i32), tile(result, 1, 0), how = "atomic_add");
}

#[test]
fn levels_of_a_search() {
    let (v, e) = (50, 300);
    let (from, to) = (below(v as i32, e, 1), below(v as i32, e, 2));
    let mut levels = vec![-1; v];
    levels[7] = 0;
    for level in 0..4 {
        let (mut wanted, mut count) = (levels.clone(), 0);
        for (from, to) in from.iter().zip(&to) {
            if levels[*from as usize] == level && levels[*to as usize] < 0 {
                wanted[*to as usize] = level + 1;
                count += 1;
            }
        }
        let args = [
            Arg::number(level),
            Arg::tensor(&from, [e]),
            Arg::tensor(&to, [e]),
            Arg::tensor(&levels, [v]),
            Arg::in_out(&levels, [v]),
            Arg::in_out(&[0], [1]),
        ];
        for out in every(generated!(frontier()), &args) {
            assert_eq!(out.get::<i32>("next").unwrap(), wanted);
            assert_eq!(out.get::<i32>("result").unwrap(), [count]);
        }
        levels = wanted;
    }
}

/// A histogram of weights over bins of equal width; numbers outside are not counted.
#[kernel]
fn weighted_histogram(
    low: f32,
    high: f32,
    x: &Tensor<f32, N>,
    w: &Tensor<f32, N>,
    bins: &mut Tensor<f32, B>,
) {
    let own = shared::<f32>(128);
    at_most(B, 128);
    fill(own, 0.0);
    let values = (tile(x, 512, block.x), tile(w, 512, block.x));
    scatter(values, own, |x, w| (floor((x - low) / (high - low) * B as f32) as i32, w), how = "atomic_add");
    copy(own, tile(bins, 128, 0), how = "atomic_add");
}

#[test]
fn weights_fall_into_bins() {
    inputs(weighted_histogram().def())
        .set("low = -2.001, high = 3")
        .zero("bins")
        .near(1e-3, ["N = 0, B = 10", "N = 1, B = 1", "N = 1300, B = 100"]);
}

/// Hashes of rows, word by word, after Murmur.
#[kernel]
fn hashes(seed: u32, x: &Tensor<u32, (N, K)>, y: &mut Tensor<u32, N>) {
    let rows = tile(x, (256, 1), (block.x, _))[(_, 0, _)];
    let rotated = |x, by| (x << by) | (x >> (32 - by));
    let mut h = full::<u32>(256, 0);
    h += seed;
    for k in 0..K {
        h = rotated(h ^ (rotated(rows[(_, k)] * 0xcc9e2d51, 15) * 0x1b873593), 13) * 5 + 0xe6546b64;
    }
    h = h ^ (4 * K) as u32;
    h = (h ^ (h >> 16)) * 0x85ebca6b;
    h = (h ^ (h >> 13)) * 0xc2b2ae35;
    copy(h ^ (h >> 16), tile(y, 256, block.x));
}

#[test]
fn rows_have_hashes() {
    inputs(hashes().def()).set("seed = 42").written(["N = 1, K = 1", "N = 256, K = 4", "N = 300, K = 3"]);
}

/// Products of signs, 32 in a word: how many agree minus how many differ.
#[kernel]
fn signs_product(bits: i32, a: &Tensor<u32, (M, K)>, b: &Tensor<u32, (N, K)>, c: &mut Tensor<i32, (M, N)>) {
    let (a, b) = (tile(a, (32, 1), (block.x, _)), tile(b, (32, 1), (block.y, _)));
    let mut differ = full::<i32>((32, 32), 0);
    for k in 0..K {
        differ += count_ones(a[(_, 0, k)].along(0) ^ b[(_, 0, k)].along(1)) as i32;
    }
    copy(bits - 2 * differ, tile(c, (32, 32), (block.x, block.y)));
}

#[test]
fn signs_are_multiplied() {
    inputs(signs_product().def()).set("bits = 96").written([
        "M = 1, N = 1, K = 1",
        "M = 32, N = 64, K = 2",
        "M = 40, N = 33, K = 3",
    ]);
}
