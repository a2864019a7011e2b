//! Windows that slide over a sequence or an image.

use crate::{close, drawn, every, generated};
use tilewright::prelude::*;
use tilewright_sim::Arg;

/// Attention in which a query sees the `window` keys up to its own, counted from the end, with H / J heads of queries for
/// each head of keys. Tiles of keys that no query of a block sees are not loaded.
#[kernel]
fn window_attention<const BM: usize = 64, const BN: usize = 64, const D: usize = 64>(
    q: &Tensor<bf16, (M, D, H), (ldq, _1, hq)>,
    k: &Tensor<bf16, (N, D, J), (ldk, _1, hk)>,
    v: &Tensor<bf16, (N, D, J), (ldv, _1, hv)>,
    o: &mut Tensor<bf16, (M, D, H), (ldo, _1, ho)>,
    window: i32,
    scale: f32,
) {
    assert(H % J == 0);
    let head = block.y;
    let group = head / (H / J);
    let gq = tile(q, (BM, D, 1), (block.x, 0, head))[(_, _, 0)];
    let (gk, gv) = (tile(k, (BN, D, 1), (_, 0, group)), tile(v, (BN, D, 1), (_, 0, group)));
    let (sq, sk, sv) = (shared::<bf16>((BM, D)), shared::<bf16>((BN, D)), shared::<bf16>((BN, D)));
    copy(gq, sq);
    let mma = tiled_mma::<bf16, f32>(warps = (4, 1)); // whole rows of scores for each warp
    let mut out = mma.accumulators((BM, D), 0.0);
    let (mut most, mut total) = (full::<f32>((BM, 1), f32::MIN), full::<f32>((BM, 1), 0.0));
    let unit = scale * 1.442695;
    let last = N - M;
    let first = max(0, (block.x * BM + last - window + 1) / BN);
    let end = min(ceil_div(N, BN), ceil_div(max(0, (block.x + 1) * BM + last), BN));
    for n in pipelined(first..end, stages = 2) {
        copy(gk[(_, _, 0, n)], sk);
        copy(gv[(_, _, 0, n)], sv);
        let mut scores = mma.accumulators((BM, BN), 0.0);
        gemm(sq, sk, &mut scores);
        scores = map(scores, |s, at| {
            let here = at.0 + last;
            if (at.1 <= here) & (at.1 > here - window) & (at.1 < N) { s } else { f32::NEG_INFINITY }
        });
        let now = max(most, maximum(scores, 1, out_of_bounds = f32::NEG_INFINITY));
        let weights = exp2((scores - now) * unit);
        let shrink = exp2((most - now) * unit);
        total = total * shrink + sum(weights, 1, out_of_bounds = 0.0);
        out *= shrink;
        gemm(weights as bf16, permute(sv, (1, 0)), &mut out);
        most = now;
    }
    let result = if total > 0.0 { out / total } else { 0.0 };
    copy(result, tile(o, (BM, D, 1), (block.x, 0, head))[(_, _, 0)]);
}

#[test]
fn queries_see_a_window_of_keys() {
    let d = 64;
    for (m, n, h, j, window) in [(70, 70, 4, 2, 20), (65, 200, 2, 1, 100), (1, 1, 1, 1, 1), (70, 10, 2, 2, 7)]
    {
        let half = |x: Vec<f32>| x.into_iter().map(|x| bf16::from_f32(x / 2.0)).collect::<Vec<_>>();
        let [q, k, v] = [(m * h, 1), (n * j, 2), (n * j, 3)].map(|(rows, seed)| half(drawn(rows * d, seed)));
        let at = |x: &[bf16], row: usize, c: usize| f64::from(x[row * d + c].to_f32());
        let mut wanted = Vec::new();
        for row in 0..m * h {
            let (head, here) = (row / m / (h / j), (row % m + n).checked_sub(m));
            let seen: Vec<usize> =
                here.map_or(0..0, |here| (here + 1).saturating_sub(window)..here + 1).collect();
            let score =
                |key: &usize| (0..d).map(|c| at(&q, row, c) * at(&k, head * n + key, c)).sum::<f64>() / 8.0;
            let weights: Vec<f64> = seen.iter().map(|key| score(key).exp()).collect();
            let total: f64 = weights.iter().sum();
            wanted.extend((0..d).map(|c| {
                let sum =
                    seen.iter().zip(&weights).map(|(key, w)| w * at(&v, head * n + key, c)).sum::<f64>();
                if seen.is_empty() { 0.0 } else { sum / total }
            }));
        }
        let given = |x: &[bf16], rows: usize, heads: usize| {
            Arg::tensor(x, [rows, d, heads]).strides([d, 1, rows * d])
        };
        let args = [
            given(&q, m, h),
            given(&k, n, j),
            given(&v, n, j),
            Arg::output::<bf16>([m, d, h]).strides([d, 1, m * d]),
            Arg::number(window as i32),
            Arg::number(0.125f32),
        ];
        for outcome in every(generated!(window_attention()), &args) {
            let got: Vec<f32> = outcome.get::<bf16>("o").unwrap().iter().map(|o| o.to_f32()).collect();
            close(&got, &wanted, 0.02);
        }
    }
}
