//! 10. A reduction over threads
//!
//! A reduction of parts has three levels. `sum(part)` combines the elements of one thread. With the prefix `warp_` a
//! reduction combines the 32 lanes of a warp, with `block_` all threads of a block. Every thread gets the result.
//!
//! ```text
//! thread          0 .. 31 | 32 .. 63 | 64 .. 95 | 96 .. 127
//! warp_sum(x)     a       | b        | c        | d
//! block_sum(x)    a + b + c + d
//! ```

use super::check::{Check, Goal, Writer, input, output};
use tilewright::KernelDef;
use tilewright::prelude::*;

/// Each row, divided by its sum.
#[kernel]
pub fn shares(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    at_most(N, 256);
    let t = layout!((1, 128));
    let x = parallelize(tile(x, (1, 256), (block.x, 0)), t, thread.x);
    let y = parallelize(tile(y, (1, 256), (block.x, 0)), t, thread.x);
    let row = map(x, |x| x);
    // HOLE: each warp has another sum.
    let total = warp_sum(sum(row));
    map((row, total), y, |x, total| x / total);
}

pub(super) fn check(kernel: &KernelDef) -> Check {
    let y = layout!((3, 200) : (200, 1));
    let x = |[i, j]: [usize; 2]| ((i + j) % 5 + 1) as f32;
    let done = kernel.simulate(&[input(&y, x), output(&y)])?;
    let total = |i| (0..200).map(|j| x([i, j])).sum::<f32>();
    let threads = layout!((1, 128));
    Goal { tensor: "y", layout: y, writer: Writer::thread([1, 256], &threads, [1, 1]) }
        .compare(&done, |at| x(at) / total(at[0]))
}
