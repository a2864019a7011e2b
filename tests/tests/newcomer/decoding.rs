//! Tokens on their way through a language model: experts, beams, drafts.

use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

/// Where each token goes when tokens are grouped by expert, in their order.
#[kernel]
fn token_order<const E: usize = 8>(
    expert: &Tensor<i32, T>,
    index: &mut Tensor<i32, T>,
    counts: &mut Tensor<i32, E>,
) {
    // One block walks through all tokens twice.
    let ids = tile(expert, 256, _);
    let out = tile(index, 256, _);
    let mut total = full::<i32>((1, E), 0);
    for k in 0..ids.size(1) {
        let hot = map((ids[(_, k)].along(0), iota((256, E), 1)), |e, j| (e == j) as i32);
        total += sum(hot, 0);
    }
    copy(total[(0, _)], tile(counts, E, 0));
    let mut next = scan(total, 0, |a, b| a + b, mode = 1, exclusive = true);
    for k in 0..ids.size(1) {
        let hot = map((ids[(_, k)].along(0), iota((256, E), 1)), |e, j| (e == j) as i32);
        let rank = scan(hot, 0, |a, b| a + b, mode = 0, exclusive = true, carry = &mut next);
        copy(sum(rank * hot, 1)[(_, 0)], out[(_, k)]);
    }
}

#[test]
fn tokens_are_in_the_order_of_experts() {
    inputs(token_order().def()).below("expert", 8).written(["T = 700", "T = 1"]);
}

/// The K best continuations of B beams over a vocabulary, for each sentence.
#[kernel]
fn beam_search<const K: usize = 4, const W: usize = 512>(
    logp: &Tensor<f32, (V, B, S)>,
    score: &Tensor<f32, (B, S)>,
    best: &mut Tensor<f32, (K, S)>,
    beam: &mut Tensor<i32, (K, S)>,
    token: &mut Tensor<i32, (K, S)>,
) {
    let s = block.x;
    let better = |(a, i), (b, j)| if (b > a) | ((b == a) & (j < i)) { (b, j) } else { (a, i) };
    let mut bound = full::<f32>((1), f32::INFINITY);
    let mut bound_at = full::<i32>((1), -1);
    for r in 0..K {
        let mut top = full::<f32>((1), f32::NEG_INFINITY);
        let mut top_at = full::<i32>((1), i32::MAX);
        for b in 0..B {
            let row = tile(logp, (W, 1, 1), (_, b, s))[(_, 0, 0, _)];
            for k in 0..row.size(1) {
                let seen = map((row[(_, k)], bound, bound_at), |x, most, most_at, at| {
                    let (x, i) = (x + score[(b, s)], b * V + at.0);
                    let taken = (x > most) | ((x == most) & (i <= most_at));
                    (if taken { f32::NEG_INFINITY } else { x }, i)
                });
                let here = reduce(seen, (f32::NEG_INFINITY, i32::MAX), better);
                (top, top_at) = map((top, top_at, here.0, here.1), |a, i, b, j| better((a, i), (b, j)));
            }
        }
        copy(top, tile(best, (1, 1), (r, s))[(_, 0)]);
        copy(max(top_at, 0) / V, tile(beam, (1, 1), (r, s))[(_, 0)]);
        copy(max(top_at, 0) % V, tile(token, (1, 1), (r, s))[(_, 0)]);
        bound = top;
        bound_at = top_at;
    }
}

#[test]
fn beams_go_on() {
    // Sums of whole numbers, so that equal ones are equal.
    let whole = |x: f64| (250.0 * x).trunc();
    inputs(beam_search().def()).with("logp", whole).with("score", whole).written(["V = 700, B = 3, S = 2"]);
}

/// How many drafted tokens are accepted, and the first that is not.
#[kernel]
fn verify<const W: usize = 16>(
    draft: &Tensor<i32, (B, K), (ldd, _1)>,
    p: &Tensor<f32, (V, K, B)>,
    q: &Tensor<f32, (V, K, B)>,
    u: &Tensor<f32, (B, K), (ldu, _1)>,
    accepted: &mut Tensor<i32, B>,
) {
    at_most(K, W);
    let ids = tile(draft, (8, W), (block.x, 0));
    let ok = map((ids, tile(u, (8, W), (block.x, 0))), |t, u, at| {
        (u * q[(t, at.1, at.0)] < p[(t, at.1, at.0)]) as i32
    });
    let run = scan(ok, 1, |a, b| a * b, mode = 1);
    copy(sum(run, 1)[(_, 0)], tile(accepted, 8, block.x));
}

#[test]
fn drafts_are_accepted() {
    inputs(verify().def())
        .below("draft", 30)
        .with("p", f64::abs)
        .with("q", f64::abs)
        .with("u", |x| x.abs() / 4.0)
        .near(1e-6, ["B = 11, K = 5, V = 30", "B = 1, K = 1, V = 30"]);
}
