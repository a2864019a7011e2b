//! 13. Find the race
//!
//! Blocks run in any order. Each block here stores the sum of its tile, and counts itself in `arrived`. The block that
//! arrives last adds all sums:
//!
//! ```text
//! block 0    write parts(0)    add to arrived
//! block 1    write parts(1)                      add to arrived    read parts(0), parts(1)
//! ```
//!
//! An atomic update releases earlier writes of its block, and acquires the writes that others released, unless its
//! `order` is another one. The simulator reports accesses that are not ordered, even if this run's result is right.

use super::check::{Check, Goal, Writer, input, output};
use tilewright::KernelDef;
use tilewright::prelude::*;

/// The sum of all elements, in one launch.
#[kernel]
pub fn total(
    x: &Tensor<f32, N>,
    parts: &mut Tensor<f32, { ceil_div(N, 64) }>,
    arrived: &mut Tensor<i32, _1>,
    y: &mut Tensor<f32, _1>,
) {
    // HOLE: one of these statements is wrong.
    at_most(N, 4096);
    copy(sum(tile(x, 64, block.x)), tile(parts, 1, block.x));
    let before = copy(1, arrived, how = "atomic_add", order = "relaxed");
    if before[(0)] == parts.size(0) - 1 {
        copy(sum(tile(parts, 64, 0)), y);
    }
}

pub(super) fn check(kernel: &KernelDef) -> Check {
    let x = |[n]: [usize; 1]| (n % 5) as f32;
    let (parts, arrived) = (Arg::in_out(&[0.0f32; 4], [4]), Arg::in_out(&[0i32], [1]));
    let done = kernel.simulate(&[input(&layout!(200), x), parts, arrived, output(&layout!(1))])?;
    let expected = |_: [usize; 1]| (0..200).map(|n| x([n])).sum();
    Goal { tensor: "y", layout: layout!(1), writer: Writer::Any }.compare(&done, expected)
}
