//! Kernels on keys, bits and graphs: digits and ranks, runs, hashes, frontiers, neighbourhoods.

use crate::{below, close, drawn, every, generated, right, written};
use tilewright::prelude::*;
use tilewright_sim::Arg;

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
    for n in [1, 256, 700] {
        let keys: Vec<u32> = below(1 << 20, n, 1).into_iter().map(|key| key as u32).collect();
        let digit = |key: &u32| (key >> 4 & 15) as usize;
        let blocks = n.div_ceil(256);
        let mut counts = vec![0; 16 * blocks];
        keys.iter().enumerate().for_each(|(at, key)| counts[digit(key) + at / 256 * 16] += 1);
        let (mut starts, mut next) = (vec![0; 16 * blocks], 0);
        for at in (0..16).flat_map(|digit| (0..blocks).map(move |block| digit + 16 * block)) {
            starts[at] = next;
            next += counts[at];
        }
        let args = [Arg::number(4), Arg::tensor(&keys, [n]), Arg::output::<i32>([16, blocks])];
        written(digit_counts().def(), &args);
        let starts = Arg::tensor(&starts, [16, blocks]);
        let args = [Arg::number(4), Arg::tensor(&keys, [n]), starts, Arg::output::<u32>([n])];
        written(sorted_by_digit().def(), &args);
    }
}

/// Runs of equal values: the value and the start of each, and how many there are.
#[kernel]
fn runs(
    x: &Tensor<i32, N>,
    values: &mut Tensor<i32, N>,
    starts: &mut Tensor<i32, N>,
    count: &mut Tensor<i32, _1>,
) {
    at_most(N, 1024);
    let all = tile(x, 1024, 0);
    let begins = map(all, |here, at| ((at.0 == 0) | (here != x[(at.0 - 1)])) as i32);
    let index = scan(begins, 0, |a, b| a + b, exclusive = true);
    let to = if begins > 0 { index } else { -1 };
    scatter((to, all), values, |to, value| (to, value));
    scatter((to, all), starts, |to, _, at| (to, at.0));
    copy(sum(begins), tile(count, 1, 0));
}

#[test]
fn runs_are_found() {
    for n in [1, 300, 1024] {
        let x = below(3, n, 1);
        let begins: Vec<usize> = (0..n).filter(|i| *i == 0 || x[*i] != x[i - 1]).collect();
        let untouched = vec![-7; n];
        let args = [
            Arg::tensor(&x, [n]),
            Arg::in_out(&untouched, [n]),
            Arg::in_out(&untouched, [n]),
            Arg::output::<i32>([1]),
        ];
        for out in every(generated!(runs()), &args) {
            assert_eq!(out.get::<i32>("count").unwrap(), [begins.len() as i32]);
            let (values, starts) = (out.get::<i32>("values").unwrap(), out.get::<i32>("starts").unwrap());
            for i in 0..n {
                let run = begins.get(i).map(|at| (x[*at], *at as i32));
                assert_eq!((values[i], starts[i]), run.unwrap_or((-7, -7)));
            }
        }
    }
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
    let (low, high) = (-2.0, 3.0);
    for (n, b) in [(0, 10), (1, 1), (1300, 100)] {
        let (x, w) = (drawn(n, 1), drawn(n, 2));
        let mut wanted = vec![0.0; b];
        for (x, w) in x.iter().zip(&w) {
            let at = ((x - low) / (high - low) * b as f32).floor();
            if at >= 0.0 && (at as usize) < b {
                wanted[at as usize] += f64::from(*w);
            }
        }
        let args = [
            Arg::number(low),
            Arg::number(high),
            Arg::tensor(&x, [n]),
            Arg::tensor(&w, [n]),
            Arg::in_out(&vec![0f32; b], [b]),
        ];
        for out in every(generated!(weighted_histogram()), &args) {
            close(&out.get::<f32>("bins").unwrap(), &wanted, 1e-3);
        }
    }
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
    for (n, k) in [(1, 1), (256, 4), (300, 3)] {
        let x: Vec<u32> =
            below(i32::MAX, n * k, 1).into_iter().map(|x| (x as u32).wrapping_mul(77)).collect();

        let args = [Arg::number(42u32), Arg::tensor(&x, [n, k]), Arg::output::<u32>([n])];
        written(hashes().def(), &args);
    }
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
    for (m, n, k) in [(1, 1, 1), (32, 64, 2), (40, 33, 3)] {
        let words = |count, seed| -> Vec<u32> {
            below(i32::MAX, count, seed).into_iter().map(|x| x as u32 * 3).collect()
        };
        let (a, b) = (words(m * k, 1), words(n * k, 2));

        let args = [
            Arg::number(32 * k as i32),
            Arg::tensor(&a, [m, k]),
            Arg::tensor(&b, [n, k]),
            Arg::output::<i32>([m, n]),
        ];
        written(signs_product().def(), &args);
    }
}
