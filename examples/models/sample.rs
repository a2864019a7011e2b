//! Samples of tokens from rows of logits, in one launch and without sorting.

use tilewright::prelude::*;

/// The greatest number, as bits, such that the shares of elements with at least this weight add up to `need`. Bits of numbers from 0 on are
/// ordered like the numbers. A step determines two bits.
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

/// The first of a thread's elements where the sum of weights exceeds a number. If rounding hides it, the last with a weight.
#[device]
fn element(weights: View, rest: View) -> View {
    let mut mass = registers::<f32>((1, 1), 0.0);
    let sums = scan(weights, 0.0, |a, b| a + b, carry = &mut mass, out_of_bounds = 0.0);
    let first =
        map((weights, sums, rest), |w, sum, rest, at| if (w > 0.0) & (sum > rest) { at.1 } else { i32::MAX });
    let first = minimum(first, out_of_bounds = i32::MAX);
    let last = maximum(map(weights, |w, at| if w > 0.0 { at.1 } else { i32::MIN }), out_of_bounds = i32::MIN);
    map((first, last, mass, rest), |first, last, mass, rest| if mass > rest { first } else { last })
}

/// A token of each row, with probabilities softmax(x / temperature) of the tokens that are kept. First the `top_k` most probable tokens are
/// kept, or all if that is 0. Of these, the fewest are kept whose probabilities add up to `top_p`. Equally probable tokens are kept together.
/// `random` is from 0 to below 1. At temperature 0 the most probable tokens are kept. Each of the C blocks of a cluster has W elements of a
/// row in registers.
#[kernel(T = bf16 | f16 | f32, overlaps, choose((W, L, C) in [(2048, 256, 1), (8192, 512, 1), (16384, 512, 1), (16384, 512, 2), (16384, 512, 4), (16384, 512, 8), (16384, 512, 16)]))]
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
    let mass = cluster_sum(sum(likely, out_of_bounds = 0.0), out_of_bounds = 0.0);
    let need = map(mass, |mass| max(mass * top_p[(i)], 1e-30));
    let kept = map((likely, threshold(likely, likely, need)), above);
    // Threads divide the mass of the kept tokens in their order. The random number is in the part of one of them.
    let part_mass = sum(kept, out_of_bounds = 0.0);
    let end = cluster_scan(part_mass, 0.0, |a, b| a + b, out_of_bounds = 0.0);
    let mass = cluster_reduce(end, 0.0, |a, b| max(a, b), out_of_bounds = 0.0);
    let rest = map((end, part_mass, mass), |end, part, mass| mass * random[(i)] - (end - part));
    let candidate = map((part_mass, rest, element(kept, rest)), |mass, rest, token| {
        (if (mass > 0.0) & (mass > rest) { part * L + thread.x } else { i32::MAX }, token)
    });
    let earlier = |(a, t), (b, u)| if b < a { (b, u) } else { (a, t) };
    let winner =
        cluster_reduce(candidate, (i32::MAX, i32::MAX), earlier, out_of_bounds = (i32::MAX, i32::MAX));
    if part == 0 {
        copy(winner.1, parallelize(tile(tokens, 1, i).along(0), layout!((L, 1)), thread.x, ragged = true));
    }
}
