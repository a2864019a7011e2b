//! 3. Broadcasting
//!
//! Operators on tiles apply to each element: `x + y`, `2.0 * x`, `exp(x)`. A mode of extent 1 is repeated.
//! `v.along(0)` views a vector of n elements as a column, (n, 1), and `v.along(1)` views it as a row, (1, n).
//!
//! ```text
//! x + v.along(0)             x + v.along(1)
//! x x x   v0                 x x x
//! x x x + v1                 x x x + v0 v1 v2
//! x x x   v2                 x x x
//! ```
//!
//! `bias` has an element for each column, and columns are divided among blocks along y.

use super::check::{Check, Goal, Writer, input, output};
use tilewright::KernelDef;
use tilewright::prelude::*;

/// y(i, j) = x(i, j) + bias(j)
#[kernel(allow(unused, unread))]
pub fn biased(x: &Tensor<f32, (M, N)>, bias: &Tensor<f32, N>, y: &mut Tensor<f32, (M, N)>) {
    let (x, y) = (tile(x, (16, 16), (block.x, block.y)), tile(y, (16, 16), (block.x, block.y)));
    let bias = tile(bias, 16, block.y);
    // HOLE: the bias is missing.
    copy(x, y);
}

pub(super) fn check(kernel: &KernelDef) -> Check {
    let y = layout!((20, 30));
    let x = |[i, j]: [usize; 2]| (100 * i + j) as f32;
    let bias = |[j]: [usize; 1]| (1000 * j) as f32;
    let done = kernel.simulate(&[input(&y, x), input(&layout!(30), bias), output(&y)])?;
    Goal { tensor: "y", layout: y, writer: Writer::Block([16, 16]) }
        .compare(&done, |at| x(at) + bias([at[1]]))
}
