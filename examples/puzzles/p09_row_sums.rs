//! 9. Sums of rows
//!
//! `sum(t, 1)` adds the elements of a whole tile along mode 1: (8, 32) becomes (8, 1). Out-of-bounds elements are left
//! out. A row may be longer than a tile. With `_` as a coordinate, a tile keeps the mode that counts tiles:
//!
//! ```text
//! x = tile(x, (8, 32), (block.x, _))     (8, 32, k)
//! x[(_, _, 0)]                           (8, 32): the first tile of these rows
//! x.size(2)                              the number of tiles along a row
//! ```
//!
//! `full::<f32>((8, 1), 0.0)` is a tile in registers. `y.along(0)` views a vector as a column.

use super::check::{Check, Goal, Writer, input, output};
use tilewright::KernelDef;
use tilewright::prelude::*;

/// y(i) is the sum of row i.
#[kernel(allow(covered))]
pub fn row_sums(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, M>) {
    let x = tile(x, (8, 32), (block.x, _));
    let mut total = full::<f32>((8, 1), 0.0);
    // HOLE: only the first tile of each row is added.
    for k in 0..1 {
        total += sum(x[(_, _, k)], 1);
    }
    copy(total, tile(y, 8, block.x).along(0));
}

pub(super) fn check(kernel: &KernelDef) -> Check {
    let x = |[i, j]: [usize; 2]| ((3 * i + 5 * j) % 7) as f32;
    let y = layout!(20);
    let done = kernel.simulate(&[input(&layout!((20, 70) : (70, 1)), x), output(&y)])?;
    let expected = |[i]: [usize; 1]| (0..70).map(|j| x([i, j])).sum();
    Goal { tensor: "y", layout: y, writer: Writer::Block([8]) }.compare(&done, expected)
}
