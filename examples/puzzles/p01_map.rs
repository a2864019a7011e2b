//! 1. Map
//!
//! A kernel describes tiles, not threads. `tile(x, 64, block.x)` is the tile of 64 elements that belongs to a block.
//! The coordinate `block.x` also determines the grid: one block for each tile. You do not write `if i < N`:
//! out-of-bounds elements are read as 0, and are not written.
//!
//! ```text
//! x       0 .. 63 | 64 .. 127 | 128 .. 191 | 192 .. 199
//! block   0       | 1         | 2          | 3
//! ```
//!
//! `map(x, y, |x| x * x)` writes a function of each element of `x` to `y`.

use super::check::{Check, Goal, Writer, input, output};
use tilewright::KernelDef;
use tilewright::prelude::*;

/// y = 2x + 1
#[kernel]
pub fn affine(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (x, y) = (tile(x, 64, block.x), tile(y, 64, block.x));
    // HOLE: this only copies.
    copy(x, y);
}

pub(super) fn check(kernel: &KernelDef) -> Check {
    let y = layout!(200);
    let x = |[n]: [usize; 1]| n as f32;
    let done = kernel.simulate(&[input(&y, x), output(&y)])?;
    Goal { tensor: "y", layout: y, writer: Writer::Block([64]) }.compare(&done, |at| 2.0 * x(at) + 1.0)
}
