//! Kernels in which the lanes of a warp exchange elements.

use tilewright::KernelDef;
use tilewright::prelude::*;

/// All of them, by name.
pub fn all() -> Vec<(&'static str, KernelDef)> {
    vec![
        ("moved t = f32 lanes = 8", moved!(T = f32, LANES = 8).def().clone()),
        ("moved t = f64", moved!(T = f64).def().clone()),
        ("moved t = u8", moved!(T = u8).def().clone()),
        ("moved t = bf16", moved!(T = bf16).def().clone()),
        ("moved t = i64 lanes = 2", moved!(T = i64, LANES = 2).def().clone()),
        ("sorted", sorted().def().clone()),
        ("compacted", compacted().def().clone()),
        ("counted", counted().def().clone()),
        ("counted t = u64 lanes = 8", counted!(T = u64, LANES = 8).def().clone()),
        ("counted t = i8", counted!(T = i8).def().clone()),
        ("voted lanes = 4", voted!(LANES = 4).def().clone()),
    ]
}

/// Elements of another lane of four elements for each thread.
#[kernel(T = f32 | f64 | i64 | u8 | bf16)]
pub fn moved<T, const LANES: usize = 32>(
    x: &Tensor<T, N>,
    by: &Tensor<i32, N>,
    swapped: &mut Tensor<T, N>,
    rotated: &mut Tensor<T, N>,
    taken: &mut Tensor<T, N>,
    first: &mut Tensor<T, N>,
) {
    let t = layout!(64);
    let own = map(parallelize(tile(x, 256, block.x), t, thread.x, values = 4), |x| x);
    let by = parallelize(tile(by, 256, block.x), t, thread.x, values = 4);
    copy(
        warp_shuffle(own, |lane| lane ^ 1, lanes = LANES),
        parallelize(tile(swapped, 256, block.x), t, thread.x, values = 4),
    );
    copy(
        warp_shuffle(own, |lane| lane + 1, lanes = LANES),
        parallelize(tile(rotated, 256, block.x), t, thread.x, values = 4),
    );
    copy(
        warp_shuffle(own, by, lanes = LANES),
        parallelize(tile(taken, 256, block.x), t, thread.x, values = 4),
    );
    copy(
        warp_shuffle(own, 0, lanes = LANES),
        parallelize(tile(first, 256, block.x), t, thread.x, values = 4),
    );
}

/// Bitonic sort of 32 elements in each warp.
#[kernel]
pub fn sorted(x: &Tensor<i32, N>, y: &mut Tensor<i32, N>) {
    let t = layout!(128);
    let mut own = map(parallelize(tile(x, 128, block.x), t, thread.x), |x| x);
    for k in unroll(0..5) {
        for j in unroll(0..k + 1) {
            let distance = 1 << (k - j);
            let other = warp_shuffle(own, |lane| lane ^ distance);
            own = map((own, other), |a, b| {
                let upper = thread.x / distance % 2;
                let down = thread.x % 32 / (2 << k) % 2;
                if upper == down { min(a, b) } else { max(a, b) }
            });
        }
    }
    copy(own, parallelize(tile(y, 128, block.x), t, thread.x));
}

/// The elements that are not negative, in the order of warps that arrive; each warp in its order.
#[kernel]
pub fn compacted(x: &Tensor<i32, N>, taken: &mut Tensor<i32, _1>, y: &mut Tensor<i32, N>) {
    let x = parallelize(tile(x, 256, block.x), layout!(256), thread.x);
    let own = map(x, |x| x);
    let kept = warp_ballot(map(own, |x| x >= 0));
    let lane = thread.x % 32;
    let first = |kept| if lane == 0 { (0, count_ones(kept) as i32) } else { (-1, 0) };
    let begun = scatter(kept, taken, first, how = "atomic_add", order = "relaxed");
    let begun = warp_shuffle(begun, 0);
    let slot = map((own, kept, begun), |x, kept, begun| {
        let before = count_ones(kept & ((1u32 << lane) - 1)) as i32;
        if x >= 0 { begun + before } else { -1 }
    });
    scatter((own, slot), y, |x, slot| (slot, x));
}

/// Counts of numbers: lanes of a warp with the same number add once.
#[kernel(T = i32 | u64 | i8)]
pub fn counted<T, const LANES: usize = 32>(x: &Tensor<T, N>, bins: &mut Tensor<i32, V>) {
    let x = parallelize(tile(x, 256, block.x), layout!(64), thread.x, values = 4);
    let own = map(x, |x| x);
    let same = warp_match(own, lanes = LANES);
    let lane = thread.x % LANES;
    scatter(
        (own, same),
        bins,
        |x, same| (if same & ((1u32 << lane) - 1) == 0 { x as i32 } else { -1 }, count_ones(same) as i32),
        how = "atomic_add",
    );
}

/// Votes in groups of lanes.
#[kernel]
pub fn voted<const LANES: usize = 32>(
    x: &Tensor<f32, N>,
    any: &mut Tensor<i32, N>,
    all: &mut Tensor<i32, N>,
) {
    let t = layout!(128);
    let own = map(parallelize(tile(x, 128, block.x), t, thread.x), |x| x);
    let high = own > 0.5;
    let some = warp_ballot(high, lanes = LANES);
    let others = warp_ballot(!high, lanes = LANES);
    map(some, parallelize(tile(any, 128, block.x), t, thread.x), |some| (some != 0) as i32);
    map(others, parallelize(tile(all, 128, block.x), t, thread.x), |others| (others == 0) as i32);
}
