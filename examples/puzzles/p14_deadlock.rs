//! 14. Find the deadlock
//!
//! A flag is an integer that is 0 at launch. `signal(flags[(t)])` adds 1 to it. `wait(flags[(t)], 1)` waits until it is at
//! least 1; an index that is out of bounds is not waited for. Blocks take the number `t` from an atomic count as they
//! begin. Each waits for the sum of all earlier tiles, adds its own, and passes it on:
//!
//! ```text
//! tile       0               1                  2
//! ends(t)    a   -> flag 0   a + b  -> flag 1   a + b + c
//! ```

use super::check::{Check, Goal, Writer, input, output};
use tilewright::KernelDef;
use tilewright::prelude::*;

/// y(n) = x(0) + … + x(n), in one pass.
#[kernel]
pub fn chained(
    x: &Tensor<f32, N>,
    ticket: &mut Tensor<i32, _1>,
    flags: &mut Tensor<i32, { ceil_div(N, 64) }>,
    ends: &mut Tensor<f32, { ceil_div(N, 64) }>,
    y: &mut Tensor<f32, N>,
) {
    let _ = walk(flags.size(0), block.x);
    let begun = copy(1, ticket, how = "atomic_add", order = "relaxed");
    let t = begun[(0)];
    let mut end = full::<f32>(1, 0.0);
    // HOLE: one of these statements is wrong.
    let own = scan(tile(x, 64, t), 0.0, |a, b| a + b, carry = &mut end);
    wait(flags[(t - 1)], 1);
    let before = map(tile(ends, 1, t - 1), |x| x);
    copy(end + before, tile(ends, 1, t));
    signal(flags[(t - 1)]);
    copy(own + before, tile(y, 64, t));
}

pub(super) fn check(kernel: &KernelDef) -> Check {
    let y = layout!(200);
    let x = |[n]: [usize; 1]| (n % 5) as f32;
    let (ticket, flags) = (Arg::in_out(&[0i32], [1]), Arg::in_out(&[0i32; 4], [4]));
    let ends = Arg::in_out(&[0.0f32; 4], [4]);
    let done = kernel.simulate(&[input(&y, x), ticket, flags, ends, output(&y)])?;
    let expected = |[n]: [usize; 1]| (0..=n).map(|n| x([n])).sum();
    Goal { tensor: "y", layout: y, writer: Writer::Any }.compare(&done, expected)
}
