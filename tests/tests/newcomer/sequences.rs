//! Sequences: runs of equal elements, distances of texts, most likely paths.

use crate::{drawn, every, generated, written};
use tilewright::prelude::*;
use tilewright_sim::Arg;

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
    for n in [1, 1000, 2600] {
        let x: Vec<i32> = (0..n).map(|i| (i as f32).sqrt() as i32 % 7).collect();
        let spare = Arg::in_out(&vec![-7i32; n], [n]);
        let args = [Arg::tensor(&x, [n]), spare.clone(), spare, Arg::output::<i32>([1])];
        written(runs().def(), &args);
    }
}

/// How many letters differ between two texts, row by row. Cells of an anti-diagonal `k` have `i + j == k`.
#[kernel]
fn distances(
    a: &Tensor<u8, (M, L), (lda, _1)>,
    b: &Tensor<u8, (M, L), (ldb, _1)>,
    lengths: &Tensor<i32, (M, _2)>,
    d: &mut Tensor<i32, M>,
) {
    at_most(L, 255);
    let row = block.x;
    let (m, n) = (lengths[(row, 0)], lengths[(row, 1)]);
    let (last, before) = (shared::<i32>(256), shared::<i32>(256));
    fill(last, 0);
    fill(before, 0);
    for k in 1..m + n + 1 {
        let next = map(iota(256), |i| {
            let j = k - i;
            let differs = (a[(row, i - 1)] != b[(row, j - 1)]) as i32;
            let least = min(min(last[(i - 1)], last[(i)]) + 1, before[(i - 1)] + differs);
            if i == 0 {
                j
            } else if j == 0 {
                i
            } else {
                least
            }
        });
        copy(last, before);
        copy(next, last);
    }
    map(tile(d, 1, row), tile(d, 1, row), |_| last[(m)]);
}

#[test]
fn distances_of_texts() {
    let (l, lengths) = (50, [(50, 40), (0, 5), (17, 50), (33, 33), (1, 0)]);
    let m = lengths.len();
    let text = |seed| drawn(m * l, seed).iter().map(|x| (x * 100.0) as i32 as u8 % 4).collect::<Vec<u8>>();
    let (a, b) = (text(1), text(2));
    let both: Vec<i32> = lengths.iter().map(|pair| pair.0).chain(lengths.iter().map(|pair| pair.1)).collect();
    let rows = |x: &[u8]| Arg::tensor(x, [m, l]).strides([l, 1]);
    let args = [rows(&a), rows(&b), Arg::tensor(&both, [m, 2]), Arg::output::<i32>([m])];
    written(distances().def(), &args);
}

/// Scores of the most likely paths to each of 64 states, and the states before.
#[kernel]
fn paths(
    emit: &Tensor<f32, (B, T, _64), (sb, st, _1)>,
    change: &Tensor<f32, (_64, _64), (_64, _1)>,
    back: &mut Tensor<i32, (B, T, _64), (kb, kt, _1)>,
    last: &mut Tensor<f32, (B, _64), (lb, _1)>,
) {
    let (e, b) = (tile(emit, (1, 1, 64), (block.x, _, 0)), tile(back, (1, 1, 64), (block.x, _, 0)));
    let change = map(tile(change, (64, 64), (0, 0)), |x| x);
    let score = shared::<f32>(64);
    copy(e[(0, 0, _, 0)], score);
    fill(b[(0, 0, _, 0)], 0);
    let first = |(a, i), (b, j)| if (b > a) | ((b == a) & (j < i)) { (b, j) } else { (a, i) };
    for t in 1..e.size(3) {
        let given = (score.along(0) + change, iota((64, 64), 0));
        let (best, state) = reduce(given, (f32::NEG_INFINITY, i32::MAX), first, mode = 0);
        copy(best[(0, _)] + e[(0, 0, _, t)], score);
        copy(state[(0, _)], b[(0, 0, _, t)]);
    }
    copy(score, tile(last, (1, 64), (block.x, 0))[(0, _)]);
}

#[test]
fn most_likely_paths() {
    let (b, t) = (2, 11);
    let (emit, change) = (drawn(b * t * 64, 3), drawn(64 * 64, 4));
    let (mut back, mut last) = (vec![0i32; b * t * 64], Vec::new());
    for m in 0..b {
        let mut score = emit[m * t * 64..][..64].to_vec();
        for k in 1..t {
            let at = (m * t + k) * 64;
            let one = |j: usize| {
                let to = |i: usize| score[i] + change[i * 64 + j];
                (1..64).fold(0, |best, i| if to(i) > to(best) { i } else { best })
            };
            let from: Vec<usize> = (0..64).map(one).collect();
            score = (0..64).map(|j| score[from[j]] + change[from[j] * 64 + j] + emit[at + j]).collect();
            from.iter().enumerate().for_each(|(j, from)| back[at + j] = *from as i32);
        }
        last.extend(score);
    }
    let three = |arg: Arg| arg.strides([t * 64, 64, 1]);
    let args = [
        three(Arg::tensor(&emit, [b, t, 64])),
        Arg::tensor(&change, [64, 64]).strides([64, 1]),
        three(Arg::output::<i32>([b, t, 64])),
        Arg::output::<f32>([b, 64]).strides([64, 1]),
    ];
    for done in every(generated!(paths()), &args) {
        assert_eq!(done.get::<i32>("back").unwrap(), back);
        assert_eq!(done.get::<f32>("last").unwrap(), last);
    }
}
