//! Searches: alignments, paths, samples of a cloud, merged lists.

use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

/// The best local alignment of two texts, by antidiagonals; a pair for each block.
#[kernel]
fn smith_waterman<const W: usize = 256>(
    a: &Tensor<u8, (M, B)>,
    b: &Tensor<u8, (N, B)>,
    score: &mut Tensor<i32, B>,
) {
    at_most(M, W - 1);
    let pair = block.x;
    let mut last = full::<i32>((W), 0);
    let mut before = full::<i32>((W), 0);
    let mut best = full::<i32>((W), 0);
    let left = shared::<i32>((W));
    let diagonal = shared::<i32>((W));
    for d in 0..M + N - 1 {
        copy(last, left);
        copy(before, diagonal);
        let now = map((iota(W), last), |i, up| {
            let j = d - i;
            let same = if a[(i, pair)] == b[(j, pair)] { 2 } else { -1 };
            let inside = (j >= 0) & (j < N) & (i < M);
            let from = max(max(diagonal[(i - 1)] + same, left[(i - 1)] - 1), max(up - 1, 0));
            if inside { from } else { 0 }
        });
        best = map((best, now), |a, b| max(a, b));
        before = last;
        last = now;
    }
    copy(maximum(best), tile(score, 1, pair));
}

#[test]
fn texts_are_aligned() {
    inputs(smith_waterman().def())
        .below("a", 4)
        .below("b", 4)
        .written(["M = 70, N = 45, B = 3", "M = 1, N = 1, B = 1"]);
}

/// Farthest points, one after another, of clouds.
#[kernel]
fn farthest<const W: usize = 1024>(points: &Tensor<f32, (P, _3, B)>, chosen: &mut Tensor<i32, (K, B)>) {
    at_most(P, W);
    let b = block.x;
    let c = |i| tile(points, (W, 1, 1), (0, i, b))[(_, 0, 0)];
    let (x, y, z) = (map(c(0), |x| x), map(c(1), |x| x), map(c(2), |x| x));
    let mut far = map(x, |x| f32::INFINITY);
    let mut last = full::<i32>((1), 0);
    for k in 0..K {
        copy(last, tile(chosen, (1, 1), (k, b))[(_, 0)]);
        far = map((far, x, y, z), |f, x, y, z| {
            let (dx, dy, dz) = (x - points[(last, 0, b)], y - points[(last, 1, b)], z - points[(last, 2, b)]);
            min(f, dx * dx + dy * dy + dz * dz)
        });
        let pick = |(a, i), (b, j)| if (b > a) | ((b == a) & (j < i)) { (b, j) } else { (a, i) };
        let (_, next) = reduce(
            map((far, iota(W)), |f, i| if i < P { (f, i) } else { (-1.0, i32::MAX) }),
            (-1.0, i32::MAX),
            pick,
            out_of_bounds = (-1.0, i32::MAX),
        );
        last = next;
    }
}

#[test]
fn points_are_far_apart() {
    inputs(farthest().def()).written(["P = 1000, K = 7, B = 2", "P = 1, K = 1, B = 1"]);
}

/// Two sorted lists become one, by ranks.
#[kernel]
fn merge(a: &Tensor<i32, M>, b: &Tensor<i32, N>, c: &mut Tensor<i32, { M + N }>) {
    let x = tile(a, 256, block.x);
    let mut low = map(x, |x| 0);
    let mut high = map(x, |x| N);
    for step in 0..32 {
        (low, high) = map((x, low, high), |x, low, high| {
            let mid = (low + high) / 2;
            let right = (low < high) & (b[(mid)] < x);
            (if right { mid + 1 } else { low }, if right | (low >= high) { high } else { mid })
        });
    }
    if block.y == 0 {
        scatter((x, low), c, |x, r, at| (at.0 + r, x));
    }
    // Of equal elements, the elements of the first list come first.
    let y = tile(b, 256, block.y);
    let mut least = map(y, |y| 0);
    let mut most = map(y, |y| M);
    for step in 0..32 {
        (least, most) = map((y, least, most), |y, low, high| {
            let mid = (low + high) / 2;
            let right = (low < high) & (a[(mid)] <= y);
            (if right { mid + 1 } else { low }, if right | (low >= high) { high } else { mid })
        });
    }
    if block.x == 0 {
        scatter((y, least), c, |y, r, at| (at.0 + r, y));
    }
}

#[test]
fn sorted_lists_are_merged() {
    inputs(merge().def())
        .indexed("a", |at, _| (at * 5 / 7) as f64)
        .indexed("b", |at, _| (at * 3 / 2) as f64)
        .written(["M = 700, N = 300", "M = 1, N = 1"]);
}
