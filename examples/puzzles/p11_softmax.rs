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
    let x = |[i, j]: [usize; 2]| (40 * i + 127 - 29 * (j % 4)) as f32;
    let done = kernel.simulate(&[input(&y, x), output(&y)])?;
    // A row has 25 of each of four numbers, the largest is 40i + 127.
    let grown = |j: usize| f32::exp(-29.0 * (j % 4) as f32);
    let expected = |[_, j]: [usize; 2]| grown(j) / (0..100).map(grown).sum::<f32>();
    Goal { tensor: "y", layout: y, writer: Writer::Block([4, 128]) }.compare(&done, expected)
}
