//! Searches: alignments, paths, samples of a cloud, merged lists.

use crate::{below, drawn, every, generated};
use tilewright::prelude::*;
use tilewright_sim::Arg;
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
    for (m, n, b) in [(70, 45, 3), (1, 1, 1)] {
        let text = |n, seed| below(4, n, seed).into_iter().map(|x| x as u8).collect::<Vec<u8>>();
        let (x, y) = (text(m * b, 1), text(n * b, 2));
        let wanted: Vec<i32> = (0..b)
            .map(|q| {
                let mut h = vec![0i32; (m + 1) * (n + 1)];
                for i in 1..=m {
                    for j in 1..=n {
                        let same = if x[q * m + i - 1] == y[q * n + j - 1] { 2 } else { -1 };
                        let up = h[(i - 1) * (n + 1) + j].max(h[i * (n + 1) + j - 1]) - 1;
                        h[i * (n + 1) + j] = (h[(i - 1) * (n + 1) + j - 1] + same).max(up).max(0);
                    }
                }
                h.into_iter().max().unwrap()
            })
            .collect();
        let args = [Arg::tensor(&x, [m, b]), Arg::tensor(&y, [n, b]), Arg::output::<i32>([b])];
        for outcome in every(generated!(smith_waterman()), &args) {
            assert_eq!(outcome.get::<i32>("score").unwrap(), wanted);
        }
    }
}

/// The most likely path of states.
#[kernel(threads = 128)]
fn viterbi<const S: usize = 48>(
    start: &Tensor<f32, S>,
    step: &Tensor<f32, (S, S)>,
    emit: &Tensor<f32, (S, T, B)>,
    path: &mut Tensor<i32, (T, B)>,
    back: &mut Tensor<i32, (S, T, B)>,
) {
    let b = block.x;
    let mut best = map((tile(start, S, 0), tile(emit, (S, 1, 1), (0, 0, b))[(_, 0, 0)]), |s, e| s + e);
    let larger = |(x, i), (y, j)| if (y > x) | ((y == x) & (j < i)) { (y, j) } else { (x, i) };
    let step = tile(step, (S, S), (0, 0));
    for t in 1..T {
        let all = map((step, best.along(0)), |p, v, at| (p + v, at.0));
        let (v, from) = reduce(all, (f32::NEG_INFINITY, i32::MAX), larger, mode = 0);
        copy(from[(0, _)], tile(back, (S, 1, 1), (0, t, b))[(_, 0, 0)]);
        best = v[(0, _)] + tile(emit, (S, 1, 1), (0, t, b))[(_, 0, 0)];
    }
    let (_, end) = reduce(map(best, |x, at| (x, at.0)), (f32::NEG_INFINITY, i32::MAX), larger);
    let mut state = end;
    for u in 0..T {
        let t = T - 1 - u;
        copy(state, tile(path, (1, 1), (t, b))[(_, 0)]);
        state = back[(state, t, b)];
    }
}

#[test]
#[allow(clippy::needless_range_loop)]
fn states_have_likely_paths() {
    for (t, b) in [(21, 2), (1, 1)] {
        let s = 48;
        let (start, step, emit) = (drawn(s, 1), drawn(s * s, 2), drawn(s * t * b, 3));
        let mut wanted = vec![];
        for q in 0..b {
            let at = |i: usize, u: usize| emit[(q * t + u) * s + i];
            let mut best: Vec<f32> = (0..s).map(|i| start[i] + at(i, 0)).collect();
            let mut back = vec![vec![0; s]; t];
            for u in 1..t {
                let mut next = vec![0.0; s];
                for j in 0..s {
                    let of = |i: usize| step[j * s + i] + best[i];
                    let from = (0..s).reduce(|a, b| if of(b) > of(a) { b } else { a }).unwrap();
                    (back[u][j], next[j]) = (from, of(from) + at(j, u));
                }
                best = next;
            }
            let mut state = (0..s).reduce(|a, b| if best[b] > best[a] { b } else { a }).unwrap();
            let mut path = vec![0; t];
            for u in (0..t).rev() {
                path[u] = state as i32;
                state = back[u][state];
            }
            wanted.extend(path);
        }
        let args = [
            Arg::tensor(&start, [s]),
            Arg::tensor(&step, [s, s]),
            Arg::tensor(&emit, [s, t, b]),
            Arg::output::<i32>([t, b]),
            Arg::in_out(&vec![-1i32; s * t * b], [s, t, b]),
        ];
        for outcome in every(generated!(viterbi()), &args) {
            assert_eq!(outcome.get::<i32>("path").unwrap(), wanted);
        }
    }
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
    for (m, n) in [(700, 300), (1, 1)] {
        let sorted = |n: usize, seed| {
            let mut all = below(500, n, seed);
            all.sort();
            all
        };
        let (a, b) = (sorted(m, 1), sorted(n, 2));
        let mut wanted = [a.clone(), b.clone()].concat();
        wanted.sort();
        let args = [Arg::tensor(&a, [m]), Arg::tensor(&b, [n]), Arg::output::<i32>([m + n])];
        for outcome in every(generated!(merge()), &args) {
            assert_eq!(outcome.get::<i32>("c").unwrap(), wanted);
        }
    }
}
