//! Kernels on bits and graphs: runs, hashes, frontiers, neighbourhoods.

use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

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
    inputs(graph_attention().def())
        .list("offsets", [0, 1, 65, 165, 168])
        .below("neighbours", 4)
        .near(1e-4, ["V = 4, E = 168"]);
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
    let level = |at, _| [-1.0, 0.0, 1.0, -1.0][at % 4];
    inputs(frontier().def())
        .below("from", 50)
        .below("to", 50)
        .indexed("levels", level)
        .indexed("next", level)
        .zero("result")
        .written(["level = 0, E = 300, V = 50", "level = 1, E = 300, V = 50", "level = 2, E = 300, V = 50"]);
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
