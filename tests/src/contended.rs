//! Kernels whose threads and blocks compete for elements, by comparing and exchanging.

use tilewright::KernelDef;
use tilewright::prelude::*;

/// All of them, by name.
pub fn all() -> Vec<(&'static str, KernelDef)> {
    vec![("inserted", inserted().def().clone()), ("multiplied", multiplied().def().clone())]
}

/// Inserts keys into a hash table by linear probing. The key 0 marks a free slot.
#[kernel]
pub fn inserted(keys: &Tensor<u32, N>, table: &mut Tensor<u32, V>, places: &mut Tensor<i32, N>) {
    let keys = map(tile(keys, 256, block.x), |key| key);
    let mut index = map(keys, |key| ((key * 2654435761) % V as u32) as i32);
    let mut left = map(keys, |key| (key != 0) as i32);
    while sum(left, out_of_bounds = 0) > 0 {
        let seen = scatter(
            (keys, index, left),
            table,
            |key, index, left| (if left > 0 { index } else { -1 }, key),
            how = "atomic_compare_exchange",
            expected = 0,
            out_of_bounds = -1,
        );
        let next = map((keys, index, left, seen), |key, index, left, seen| {
            let done = (left == 0) | (seen == 0) | (seen == key);
            (if done { index } else { (index + 1) % V }, if done { 0 } else { left })
        });
        (index, left) = next;
    }
    copy(index, tile(places, 256, block.x));
}

/// The product of all elements, modulo 2⁶⁴: a block multiplies the value that it has read, and tries again if another block was faster.
#[kernel]
pub fn multiplied(x: &Tensor<i64, N>, y: &mut Tensor<i64, _1>) {
    let own = reduce(tile(x, 256, block.x), 1, |a, b| a * b);
    let mut seen = full::<i64>(1, 1);
    let mut tried = full::<i64>(1, 0);
    while tried[(0)] != seen[(0)] {
        tried = seen;
        let before = copy(seen * own, y, how = "atomic_compare_exchange", expected = tried);
        seen = before;
    }
}
