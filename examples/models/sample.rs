//! Samples of tokens from rows of logits, in one launch and without sorting.

use tilewright::prelude::*;

/// The greatest number, as bits, such that elements whose weights are at least as great have `need` in all. Bits of numbers from 0 on are
/// ordered as the numbers are. Two bits for each step.
#[device]
fn threshold(weights: View, shares: View, need: View) -> View {
    let mut cut = registers::<u32>((1, 1), 0);
    for step in 0..15 {
        let parts = map((weights, shares, cut), |w, share, cut| {
            let above = |k| if bits::<u32>(w) >= cut + (k << (28 - 2 * step)) { share } else { 0.0 };
            (above(1u32), above(2u32), above(3u32))
        });
        let add = |(a, b, c), (d, e, f)| (a + d, b + e, c + f);
        let parts = reduce(parts, (0.0, 0.0, 0.0), add, out_of_bounds = (0.0, 0.0, 0.0));
        let (a, b, c) = cluster_reduce(parts, (0.0, 0.0, 0.0), add, out_of_bounds = (0.0, 0.0, 0.0));
        cut = map((cut, a, b, c, need), |cut, a, b, c, need| {
            let k = (a >= need) as u32 + (b >= need) as u32 + (c >= need) as u32;
            cut + (k << (28 - 2 * step))
        });
    }
    cut
}

/// Of a thread's elements, the first where the sum of weights exceeds a number; if rounding hides it, the last with a weight.
#[device]
fn element(weights: View, left: View) -> View {
    let sums = scan(weights, 0.0, |a, b| a + b, out_of_bounds = 0.0);
    let first =
        map((weights, sums, left), |w, sum, left, at| if (w > 0.0) & (sum > left) { at.1 } else { i32::MAX });
    let last = map(weights, |w, at| if w > 0.0 { at.1 } else { i32::MIN });
    let last = maximum(last, out_of_bounds = i32::MIN);
    map((minimum(first, out_of_bounds = i32::MAX), last), |first, last| min(first, last))
}

/// A token of each row, with probabilities softmax(x / temperature): of the `top_k` most probable, or all if that is 0, the fewest that have
/// the probability `top_p`. Equal ones are kept together. `random` is from 0 to below 1. At temperature 0, the token is one of the most
/// probable. The C blocks of a cluster keep W elements of a row each in registers.
#[kernel(T = bf16 | f16 | f32, choose((W, L, C) in [(2048, 256, 1), (8192, 512, 1), (16384, 512, 1), (16384, 512, 2), (16384, 512, 4), (16384, 512, 8), (16384, 512, 16)]))]
pub fn sample_top_p<T, const W: usize, const L: usize, const C: usize>(
    temperature: &Tensor<f32, M>,
    top_k: Option<&Tensor<i32, M>>,
    top_p: &Tensor<f32, M>,
    random: &Tensor<f32, M>,
    logits: &Tensor<T, (M, N), (ldx, _1)>,
    tokens: &mut Tensor<i32, M>,
) {
    use self::{element, threshold};
    assert(N <= W * C - 7);
    cluster(C);
    let (part, i) = walk((C, M), block.x);
    let threads = layout!((1, L));
    let memory = shift(tile(logits, (1, W), (i, part)), (0, -(i * ldx % 8)));
    let memory = parallelize(memory, threads, thread.x, values = (1, 8));
    let row = registers_like::<f32>(memory, 0.0);
    copy(memory, row, fill = f32::NEG_INFINITY);
    let most = maximum(row, out_of_bounds = f32::NEG_INFINITY);
    let most = cluster_reduce(most, f32::MIN, |a, b| max(a, b), out_of_bounds = f32::MIN);
    let weights = map((row, most), |x, most| {
        let t = temperature[(i)];
        if t > 0.0 {
            exp((x - most) / t)
        } else if x == most {
            1.0
        } else {
            0.0
        }
    });
    let above = |w, cut| if bits::<u32>(w) >= cut { w } else { 0.0 };
    let likely = if let Some(top_k) = top_k {
        let few = map(most, |_| if top_k[(i)] > 0 { top_k[(i)] as f32 } else { f32::MAX });
        map((weights, threshold(weights, map(weights, |w| (w > 0.0) as f32), few)), above)
    } else {
        weights
    };
    let all = cluster_sum(sum(likely, out_of_bounds = 0.0), out_of_bounds = 0.0);
    let kept = map((likely, threshold(likely, likely, map(all, |all| max(all * top_p[(i)], 1e-30)))), above);
    let own = sum(kept, out_of_bounds = 0.0);
    let to = cluster_scan(own, 0.0, |a, b| a + b, out_of_bounds = 0.0);
    let all = cluster_reduce(to, 0.0, |a, b| max(a, b), out_of_bounds = 0.0);
    let left = map((to, own, all), |to, own, all| all * random[(i)] - (to - own));
    let candidate = map((own, left, element(kept, left)), |own, left, token| {
        (if (own > 0.0) & (own > left) { part * L + thread.x } else { i32::MAX }, token)
    });
    let earlier = |(a, t), (b, u)| if b < a { (b, u) } else { (a, t) };
    let winner =
        cluster_reduce(candidate, (i32::MAX, i32::MAX), earlier, out_of_bounds = (i32::MAX, i32::MAX));
    if part == 0 {
        copy(winner.1, parallelize(tile(tokens, 1, i).along(0), layout!((L, 1)), thread.x, ragged = true));
    }
}
