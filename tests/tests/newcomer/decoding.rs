//! Tokens on their way through a language model: experts, gates, beams, drafts, packed sequences.

use crate::{below, drawn, every, generated};
use tilewright::prelude::*;
use tilewright_sim::Arg;
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
    for t in [700, 1] {
        let ids = below(8, t, 3);
        let counts: Vec<i32> = (0..8).map(|e| ids.iter().filter(|id| **id == e).count() as i32).collect();
        let mut order: Vec<usize> = (0..t).collect();
        order.sort_by_key(|i| ids[*i]);
        let mut index = vec![0i32; t];
        order.iter().enumerate().for_each(|(at, i)| index[*i] = at as i32);
        let args = [Arg::tensor(&ids, [t]), Arg::output::<i32>([t]), Arg::output::<i32>([8])];
        for outcome in every(generated!(token_order()), &args) {
            assert_eq!(outcome.get::<i32>("counts").unwrap(), counts);
            assert_eq!(outcome.get::<i32>("index").unwrap(), index);
        }
    }
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
    let (v, b, s) = (700, 3, 2);
    let (logp, score) = (drawn(v * b * s, 1), drawn(b * s, 2));
    let (mut best, mut beam, mut token) = (vec![], vec![], vec![]);
    for q in 0..s {
        let mut all: Vec<(f32, usize)> =
            (0..b * v).map(|i| (logp[q * b * v + i] + score[q * b + i / v], i)).collect();
        all.sort_by(|x, y| y.0.total_cmp(&x.0).then(x.1.cmp(&y.1)));
        for (x, i) in &all[..4] {
            best.push(*x);
            beam.push((i / v) as i32);
            token.push((i % v) as i32);
        }
    }
    let args = [
        Arg::tensor(&logp, [v, b, s]),
        Arg::tensor(&score, [b, s]),
        Arg::output::<f32>([4, s]),
        Arg::output::<i32>([4, s]),
        Arg::output::<i32>([4, s]),
    ];
    for outcome in every(generated!(beam_search()), &args) {
        assert_eq!(outcome.get::<f32>("best").unwrap(), best);
        assert_eq!(outcome.get::<i32>("beam").unwrap(), beam);
        assert_eq!(outcome.get::<i32>("token").unwrap(), token);
    }
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
    for (b, k, v) in [(11, 5, 30), (1, 1, 1)] {
        let draft = below(v as i32, b * k, 1);
        let part = |seed| drawn(v * k * b, seed).into_iter().map(|x| x.abs()).collect::<Vec<f32>>();
        let (p, q) = (part(2), part(3));
        let u: Vec<f32> = drawn(b * k, 4).into_iter().map(|x| x.abs() / 4.0).collect();
        let wanted: Vec<i32> = (0..b)
            .map(|i| {
                let ok = |j: usize| {
                    let at = (i * k + j) * v + draft[i * k + j] as usize;
                    u[i * k + j] * q[at] < p[at]
                };
                (0..k).take_while(|j| ok(*j)).count() as i32
            })
            .collect();
        let args = [
            Arg::tensor(&draft, [b, k]).strides([k, 1]),
            Arg::tensor(&p, [v, k, b]),
            Arg::tensor(&q, [v, k, b]),
            Arg::tensor(&u, [b, k]).strides([k, 1]),
            Arg::output::<i32>([b]),
        ];
        for outcome in every(generated!(verify()), &args) {
            assert_eq!(outcome.get::<i32>("accepted").unwrap(), wanted);
        }
    }
}

/// Attention of packed sequences of many lengths, with a soft cap and a sink for each head.
#[kernel]
fn packed_attention<const BM: usize = 32, const BN: usize = 32, const D: usize = 64, const G: usize = 2>(
    scale: f32,
    cap: f32,
    start: &Tensor<i32, { B + 1 }>,
    lengths: &Tensor<i32, B>,
    sink: &Tensor<f32, H>,
    q: &Tensor<bf16, (T, H, D), (tq, hq, _1)>,
    k: &Tensor<bf16, (T, J, D), (tk, hk, _1)>,
    v: &Tensor<bf16, (T, J, D), (tv, hv, _1)>,
    o: &mut Tensor<bf16, (T, H, D), (to, ho, _1)>,
) {
    assert(H == G * J);
    let (seq, head) = walk((B, H), block.x);
    let first = start[(seq)];
    let count = max(min(start[(seq + 1)] - first, T), 0);
    let (sq, sk, sv) = (shared::<bf16>((BM, D)), shared::<bf16>((BN, D)), shared::<bf16>((BN, D)));
    let mma = tiled_mma::<bf16, f32>(warps = 2);
    for m in 0..ceil_div(count, BM) {
        copy(shift(tile(q, (BM, 1, D), (0, head, 0))[(_, 0, _)], (first + m * BM, 0)), sq);
        let mut out = mma.accumulators((BM, D), 0.0);
        let mut most = full::<f32>((BM, 1), f32::MIN);
        most = most * 0.0 + sink[(head)];
        let mut total = full::<f32>((BM, 1), 1.0);
        for n in 0..m + 1 {
            copy(shift(tile(k, (BN, 1, D), (0, head / G, 0))[(_, 0, _)], (first + n * BN, 0)), sk);
            copy(shift(tile(v, (BN, 1, D), (0, head / G, 0))[(_, 0, _)], (first + n * BN, 0)), sv);
            let mut s = mma.accumulators((BM, BN), 0.0);
            gemm(sq, sk, &mut s);
            let s = map((s, iota((BM, BN), 0), iota((BM, BN), 1)), |s, i, j| {
                let i = i + m * BM;
                let j = j + n * BN;
                if (j <= i) & (j < count) { cap * tanh(s * scale / cap) } else { f32::NEG_INFINITY }
            });
            let next = map((most, maximum(s, 1, out_of_bounds = f32::NEG_INFINITY)), |a, b| max(a, b));
            let p = exp(s - next);
            total = total * exp(most - next) + sum(p, 1, out_of_bounds = 0.0);
            out = out * exp(most - next);
            gemm(p as bf16, permute(sv, (1, 0)), &mut out);
            most = next;
        }
        let (row, column) = (iota((BM, D), 0), iota((BM, D), 1));
        scatter((out / total, row, column), o, out_of_bounds = -1, |x, i, c| {
            let row = if m * BM + i < count { first + m * BM + i } else { -1 };
            ((row, head, c), x as bf16)
        });
    }
}

#[test]
fn sequences_are_packed() {
    inputs(packed_attention().def())
        .set("scale = 0.125, cap = 5")
        .list("start", [0, 37, 38, 75])
        .near(0.02, ["B = 3, T = 75, H = 4, J = 2"]);
}
