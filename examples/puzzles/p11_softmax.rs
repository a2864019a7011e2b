//! 11. Softmax
//!
//! softmax(x)ⱼ = exp(xⱼ) / Σ exp(x). In `f32`, exp(x) is infinite from 89 on, and ∞ / ∞ is not a number. A common
//! factor of all terms cancels:
//!
//! ```text
//! exp(xⱼ) / Σ exp(x) = exp(xⱼ - m) / Σ exp(x - m)
//! ```
//!
//! With m = max x, no exponent is positive. Reductions of whole tiles along mode 1 are `sum(t, 1)`, `maximum(t, 1)`
//! and `minimum(t, 1)`. Their results have the shape (4, 1), and operators repeat them along rows.

use super::check::{Check, Goal, Writer, input, output};
use tilewright::KernelDef;
use tilewright::prelude::*;

/// y = softmax(x), row by row.
#[kernel]
pub fn softmax(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    at_most(N, 128);
    let x = map(tile(x, (4, 128), (block.x, 0)), |x| x);
    // HOLE: this overflows.
    let grown = exp(x);
    copy(grown / sum(grown, 1), tile(y, (4, 128), (block.x, 0)));
}

pub(super) fn check(kernel: &KernelDef) -> Check {
    let y = layout!((6, 100) : (100, 1));
    let x = |[i, j]: [usize; 2]| (30 * i) as f32 + (j % 10) as f32;
    let done = kernel.simulate(&[input(&y, x), output(&y)])?;
    // Ten of each number from 0 to 9, plus 30i.
    let total: f32 = (0..10).map(|j| 10.0 * f32::exp(j as f32 - 9.0)).sum();
    let expected = |[_, j]: [usize; 2]| f32::exp((j % 10) as f32 - 9.0) / total;
    Goal { tensor: "y", layout: y, writer: Writer::Block([4, 128]) }.compare(&done, expected)
}
