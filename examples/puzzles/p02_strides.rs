//! 2. Strides
//!
//! A layout is a function from coordinates to offsets. It has a shape and a stride for each mode:
//!
//! ```text
//! (3,4):(1,3)                (3,4):(4,1)
//!       0  1  2  3                 0  1  2  3
//!    ┌────────────              ┌────────────
//!  0 │  0  3  6  9            0 │  0  1  2  3
//!  1 │  1  4  7 10            1 │  4  5  6  7
//!  2 │  2  5  8 11            2 │  8  9 10 11
//! ```
//!
//! `Tensor<f32, (M, N)>` is column-major. `Tensor<f32, (M, N), (ld, _1)>` has the strides `ld`, which is known at
//! launch, and 1. Both matrices have the same coordinates, so one copy converts between their layouts.

use super::check::{Check, Goal, Writer, input, output};
use tilewright::KernelDef;
use tilewright::prelude::*;

/// y = x, where x is column-major and y is row-major.
#[kernel(allow(uncoalesced))]
pub fn rows_of_columns(
    x: &Tensor<f32, (M, N)>,
    // HOLE: y is row-major.
    y: &mut Tensor<f32, (M, N)>,
) {
    copy(tile(x, (16, 16), (block.x, block.y)), tile(y, (16, 16), (block.x, block.y)));
}

pub(super) fn check(kernel: &KernelDef) -> Check {
    let y = layout!((20, 30) : (30, 1));
    let x = |[i, j]: [usize; 2]| (100 * i + j) as f32;
    let done = kernel.simulate(&[input(&layout!((20, 30)), x), output(&y)]);
    let done = done.map_err(|why| format!("the launch passes a row-major `y`, and is refused\n{why}"))?;
    Goal { tensor: "y", layout: y, writer: Writer::Block([16, 16]) }.compare(&done, x)
}
