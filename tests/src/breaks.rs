//! Loops that each thread leaves by itself, on its own elements.

use tilewright::KernelDef;
use tilewright::prelude::*;

/// All of them, by name.
pub fn all() -> Vec<(&'static str, KernelDef)> {
    vec![
        ("escapes", escapes().def().clone()),
        ("lower_bound", lower_bound().def().clone()),
        ("probed", probed().def().clone()),
        ("nested", nested().def().clone()),
    ]
}

/// How often z ↦ z² + c is within the circle of radius 2, and the sum of a block.
#[kernel]
pub fn escapes(x: &Tensor<f32, N>, y: &Tensor<f32, N>, n: &mut Tensor<i32, N>, all: &mut Tensor<i32, _1>) {
    let t = layout!(128);
    let (x, y) = (tile(x, 128, block.x), tile(y, 128, block.x));
    let (x, y) = (map(parallelize(x, t, thread.x), |x| x), map(parallelize(y, t, thread.x), |y| y));
    let (mut a, mut b) = (registers::<f32>(1, 0.0), registers::<f32>(1, 0.0));
    let mut count = registers::<i32>(1, 0);
    for _ in 0..100 {
        if a * a + b * b > 4.0 {
            break;
        }
        (a, b) = map((a, b, x, y), |a, b, x, y| (a * a - b * b + x, 2.0 * a * b + y));
        count += 1;
    }
    copy(count, parallelize(tile(n, 128, block.x), t, thread.x));
    let total =
        block_sum(map((count, x), |count, _, at| if at.0 < N { count } else { 0 }), out_of_bounds = 0);
    if thread.x == 0 {
        copy(total, all, how = "atomic_add");
    }
}

/// The position of the first element that is not below a key, by bisection.
#[kernel]
pub fn lower_bound(sorted: &Tensor<i32, M>, keys: &Tensor<i32, N>, index: &mut Tensor<i32, N>) {
    let t = layout!(64);
    let key = map(parallelize(tile(keys, 64, block.x), t, thread.x), |key| key);
    let (mut low, mut high) = (registers::<i32>(1, 0), registers::<i32>(1, M as i32));
    while low < high {
        let middle = (low + high) / 2;
        if sorted[(middle)] < key {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    copy(low, parallelize(tile(index, 64, block.x), t, thread.x));
}

/// Linear probing: a key of the table has its slot, another one minus the number of slots that were tried.
#[kernel]
pub fn probed(table: &Tensor<i32, V>, keys: &Tensor<i32, N>, slot: &mut Tensor<i32, N>) {
    let t = layout!(64);
    let key = map(parallelize(tile(keys, 64, block.x), t, thread.x), |key| key);
    let mut probed = registers::<i32>(1, 0);
    let mut tried = registers::<i32>(1, 0);
    for k in 0..V {
        let at = (max(key, 0) * 7 + k) % V;
        tried += 1;
        if table[(at)] == key {
            probed = at;
            break;
        } else {
            if table[(at)] == 0 {
                probed = 0 - tried;
                break;
            }
        }
        probed = 0 - tried;
    }
    copy(probed, parallelize(tile(slot, 64, block.x), t, thread.x));
}

/// Loops in loops, left under conditions of threads and of blocks.
#[kernel]
pub fn nested(x: &Tensor<i32, N>, y: &mut Tensor<i32, N>) {
    let t = layout!(64);
    let x = map(parallelize(tile(x, 64, block.x), t, thread.x), |x| x);
    let mut sum = registers::<i32>(1, 0);
    for i in 0..6 {
        if x > 3 {
            for j in 0..8 {
                if x + i < j {
                    sum += 100;
                    break;
                }
                sum += j;
            }
        } else {
            if i == block.x + 2 {
                sum += 1000;
                break;
            }
        }
        if sum > 150 + x {
            break;
        }
        sum += 1;
    }
    copy(sum, parallelize(tile(y, 64, block.x), t, thread.x));
}
