//! 6. A shared tile with a halo
//!
//! `shared::<f32>(68)` is a tile in shared memory. All threads of the block access it. Statements on whole tiles take
//! effect in program order, so you write no barriers here.
//!
//! A sum of neighbours needs elements of the adjacent tiles. `tile(x, 64, block.x, halo = 2)` has two more on each side:
//!
//! ```text
//! s        0  1 |  2  3 ..  65 | 66 67
//! y             |  0  1 ..  63 |
//! ```
//!
//! `iota(64)` has the numbers 0 to 63, and a closure may index a shared tile.

use super::check::{Check, Goal, Writer, input, output};
use tilewright::KernelDef;
use tilewright::prelude::*;

/// y(n) = x(n - 2) + x(n - 1) + x(n) + x(n + 1) + x(n + 2)
#[kernel]
pub fn neighbours(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let h = 0; // HOLE: the tile has no halo.
    let s = shared::<f32>(64 + 2 * h);
    copy(tile(x, 64, block.x, halo = h), s);
    map(iota(64), tile(y, 64, block.x), |n| {
        s[(n + h - 2)] + s[(n + h - 1)] + s[(n + h)] + s[(n + h + 1)] + s[(n + h + 2)]
    });
}

pub(super) fn check(kernel: &KernelDef) -> Check {
    let y = layout!(200);
    let x = |[n]: [usize; 1]| (n * n % 17) as f32;
    let sum = |[n]: [usize; 1]| (n.max(2) - 2..(n + 3).min(200)).map(|n| x([n])).sum();
    let done = kernel.simulate(&[input(&y, x), output(&y)])?;
    Goal { tensor: "y", layout: y, writer: Writer::Block([64]) }.compare(&done, sum)
}
