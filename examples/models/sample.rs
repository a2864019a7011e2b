//! Samples of tokens from rows of logits, in one launch and without sorting.

use tilewright::prelude::*;

/// The greatest number, as bits, such that the shares of elements with at least this weight add up to `need`. A share is the weight, or with
/// `by_mass` 0 it is 1. A step determines ten bits by a histogram, greatest weights first. Its columns have parts of the elements. Fractions of
/// weights are added as integers of 20 bits, so their order is free: weights of a bin have one exponent.
#[device]
fn threshold(
    weights: View,
    need: View,
    counts: &mut View,
    masses: &mut View,
    by_mass: usize,
    l: usize,
    c: usize,
) -> View {
    let (mut cut, mut rest) = (registers::<u32>((1, 1), 0), map(need, |need| need));
    let bins = parallelize(counts, layout!((l, 1)), thread.x, values = (1024 / l, 8));
    let own = |x| parallelize(x, layout!(l), thread.x, values = 1024 / l).along(0);
    let add = |a, b| a + b;
    for step in unroll(0..3) {
        let shift = 20 - 10 * step;
        fill(counts, 0);
        sync_threads();
        let share = |w, cut| {
            let (word, bin) = (bits::<u32>(w), (bits::<u32>(w) - cut) >> shift);
            let fraction = (((word & 0x7f_ffff) | 0x80_0000) + 8) >> 4;
            let bin = if (w > 0.0) & (bin < 1024) { 1023 - bin as i32 } else { -1 };
            ((bin, thread.x % 8), if by_mass == 1 { fraction } else { 1u32 })
        };
        scatter((weights, cut), counts, share, how = "atomic_add", out_of_bounds = -1);
        sync_threads();
        let mut binned = sum(map(bins, |n| n as f32), 1);
        for j in unroll(0..1024 / l) {
            binned[(j, _)] = map((binned[(j, _)], cut[(0, _)]), |n, cut| {
                let first = cut + (((1023 - thread.x * (1024 / l) - j) as u32) << shift);
                if by_mass == 1 { n * bits::<f32>(first & 0x7f80_0000) * 1.9073486328125e-6 } else { n }
            });
        }
        copy(binned, own(masses));
        let mut all = registers::<f32>((1024 / l, 1), 0.0);
        sync_cluster();
        for j in 0..c {
            all += own(peer(masses, j));
        }
        sync_cluster();
        let sums = map((scan(all, 0.0, add), block_scan(sum(all), 0.0, add, exclusive = true)), add);
        let is_less = map((sums, rest), |sum, rest| if sum < rest { 1 } else { 0 });
        let less = maximum(map((sums, rest), |sum, rest| if sum < rest { sum } else { 0.0 }));
        cut = map((cut, block_sum(sum(is_less))), |cut, n| cut + (((1023 - min(n, 1023)) as u32) << shift));
        rest = map((rest, block_maximum(less)), |rest, less| rest - less);
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
    blocks_per_sm(if L == 512 { 2 } else { 1 });
    let (part, i) = walk((C, M), block.x);
    let threads = layout!((1, L));
    let memory = shift(tile(logits, (1, W), (i, part)), (0, -(i * ldx % 8)));
    let memory = parallelize(memory, threads, thread.x, values = (1, 8));
    let row = registers_like::<f32>(memory, 0.0);
    let (mut counts, mut masses) = (shared::<u32>(layout!((1024, 8) : (1, 1028))), shared::<f32>(1024));
    copy(memory, row, fill = f32::NEG_INFINITY);
    let most = maximum(row, out_of_bounds = f32::NEG_INFINITY);
    let most = cluster_reduce(most, f32::MIN, |a, b| max(a, b), out_of_bounds = f32::MIN);
    let scale = map(most, |_| {
        let t = temperature[(i)];
        if t > 0.0 { min(1.4426950408889634 / t, 1e30) } else { 0.0 }
    });
    let weights = map((row, most, scale), |x, most, scale| {
        if scale > 0.0 {
            exp2((x - most) * scale)
        } else if x == most {
            1.0
        } else {
            0.0
        }
    });
    let above = |w, cut| if bits::<u32>(w) >= cut { w } else { 0.0 };
    let likely = if let Some(top_k) = top_k {
        let few = map(most, |_| if top_k[(i)] > 0 { top_k[(i)] as f32 } else { f32::MAX });
        map((weights, threshold(weights, few, &mut counts, &mut masses, 0, L, C)), above)
    } else {
        weights
    };
    let mass = cluster_sum(sum(likely, out_of_bounds = 0.0), out_of_bounds = 0.0);
    let need = map(mass, |mass| max(mass * top_p[(i)], 1e-30));
    let kept = map((likely, threshold(likely, need, &mut counts, &mut masses, 1, L, C)), above);
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
