//! 12. Cumulative sums
//!
//! `scan(t, 0.0, |a, b| a + b, mode = 1)` replaces each element by the sum of the elements of its row up to it. The
//! argument `carry = &mut total` continues a scan: `total` is added to the first element, and then becomes the last sum.
//!
//! ```text
//! x        1  2  3 |  4  5  6 |  7
//! total    0       |  6       | 21
//! y        1  3  6 | 10 15 21 | 28
//! ```

use super::check::{Check, Goal, Writer, input, output};
use tilewright::KernelDef;
use tilewright::prelude::*;

/// y(i, j) = x(i, 0) + … + x(i, j)
#[kernel(allow(unread, unused))]
pub fn running_sums(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    let (x, y) = (tile(x, (4, 64), (block.x, _)), tile(y, (4, 64), (block.x, _)));
    let mut total = full::<f32>((4, 1), 0.0);
    for k in 0..x.size(2) {
        // HOLE: each tile begins at 0.
        copy(scan(x[(_, _, k)], 0.0, |a, b| a + b, mode = 1), y[(_, _, k)]);
    }
}

pub(super) fn check(kernel: &KernelDef) -> Check {
    let y = layout!((6, 150) : (150, 1));
    let x = |[i, j]: [usize; 2]| ((i + j) % 3) as f32;
    let done = kernel.simulate(&[input(&y, x), output(&y)])?;
    let expected = |[i, j]: [usize; 2]| (0..=j).map(|j| x([i, j])).sum();
    Goal { tensor: "y", layout: y, writer: Writer::Block([4, 150]) }.compare(&done, expected)
}
