//! Items: elements with their indices, as integers in the order of the elements. Lists of them in shared memory.

use tilewright::prelude::*;

/// An element as an integer in the order of the elements, from -∞ at 0 on; NaN of either sign is the largest.
#[device]
pub fn key_of(x: f32) -> u32 {
    let ordered = bits::<u32>(x) ^ ((bits::<i32>(x) >> 31) as u32 | (1u32 << 31));
    ordered - 0x007f_ffff
}

/// A key and an index as an integer in the order of the keys, and of equal ones of the indices, from the last to the first.
#[device]
pub fn item_of(key: u32, at: i32) -> u64 {
    ((key as u64) << 32) | (u32::MAX - at as u32) as u64
}

/// The largest bound that at least k items of two views reach, or one that at least k reach and at most `most`: bit by bit, from the first
/// in which `high` and `low` differ. The items are at most `high`, and k of them reach `low`.
#[device]
pub fn bound_of(some: View, others: View, high: View, low: View, bits: usize, k: usize, most: usize) -> View {
    let first = map((high, low), |high, low| {
        let differ = (high ^ low) | 1;
        let bit = bits - 1 - leading_zeros(differ);
        (differ >> bit) << bit
    });
    let mut bound = map((high, first), |high, first| high & !(2 * first - 1));
    for bit in 0..bits {
        let trial = map((bound, first), |bound, first| bound | (first >> bit));
        let reached = |item| (item >= trial[(0)]) as i32;
        let reach = block_sum(map((sum(map(some, reached)), sum(map(others, reached))), |a, b| a + b));
        bound = map((bound, trial, reach), |old, trial, reach| if reach >= k { trial } else { old });
        if reach[(0)] >= k && reach[(0)] <= most {
            break;
        }
    }
    bound
}

/// Appends items under a mask to a list, as long as there is room, and counts them.
#[device]
pub fn append(items: View, mask: View, list: &mut View, count: &mut View) {
    let add = |some| (if some > 0 { 0 } else { -1 }, some);
    let mut begin = scatter(sum(mask), count, add, how = "atomic_add", order = "relaxed");
    let slot = scan(mask, 0, |a, b| a + b, carry = &mut begin, exclusive = true);
    scatter((items, mask, slot), list, |item, mask, slot| (if mask > 0 { slot } else { -1 }, item));
}

/// Appends an item of each thread that reaches a bound, as long as there is room, and counts them.
#[device]
pub fn append_one(item: View, bound: View, list: &mut View, count: &mut View) {
    let mask = map((item, bound), |item, bound| ((item >= bound) & (item > 0)) as i32);
    let add = |mask| (if mask > 0 { 0 } else { -1 }, mask);
    let slot = scatter(mask, count, add, how = "atomic_add", order = "relaxed", out_of_bounds = -1);
    let at = |item, mask, slot| (if mask > 0 { slot } else { -1 }, item);
    scatter((item, mask, slot), list, at, out_of_bounds = -1);
}

/// Stores items, as elements and where they were, at their ranks in a row; items of rank -1 nowhere.
#[device]
pub fn put(items: View, rank: View, row: usize, y: &mut View, order: &mut View) {
    let number =
        |ordered| bits::<f32>(if ordered >= (1u32 << 31) { ordered ^ (1u32 << 31) } else { !ordered });
    scatter((items, rank), y, |item, rank| ((rank, row), number((item >> 32) as u32 + 0x007f_ffff)));
    scatter((items, rank), order, |item, rank| ((rank, row), (u32::MAX - item as u32) as i32));
}

/// Puts the items of a list in descending order into another. An item's position is the number of larger ones.
#[device]
pub fn in_order(list: View, count: View, sorted: &mut View, threads: usize) {
    let number = min(count[(0)], list.size(0));
    for i in 0..ceil_div(number - thread.x, threads) {
        let item = list[(threads * i + thread.x)];
        let mut position = registers::<i32>(1, 0);
        for k in 0..ceil_div(number, 4) {
            for j in unroll(0..4) {
                let other = list[(4 * k + j)];
                position = map(position, |n| n + (item < other) as i32);
            }
        }
        scatter(position, sorted, |n| (n, item));
    }
}
