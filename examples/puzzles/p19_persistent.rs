//! 19. A persistent kernel
//!
//! A persistent kernel has only the blocks that run at the same time. Each computes one tile after another, so what all
//! tiles need is loaded once for each block. `walk(3, block.x)` launches three blocks, which take the tiles in order:
//!
//! ```text
//! tile     0  1  2 | 3  4  5 | 6  7
//! block    0  1  2 | 0  1  2 | 0  1
//! ```
//!
//! Statements do not write tiles that are out of bounds. (`persistent();` makes any kernel persistent.)

use super::check::{Check, Goal, Writer, input, output};
use tilewright::KernelDef;
use tilewright::prelude::*;

/// y = 2x, by 3 blocks.
#[kernel]
pub fn resident<const BLOCKS: usize = 3>(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let first = walk(BLOCKS, block.x);
    let tiles = ceil_div(N, 64);
    // HOLE: the last tiles are missing.
    for n in 0..tiles / BLOCKS {
        let t = first + n * BLOCKS;
        copy(2.0 * tile(x, 64, t), tile(y, 64, t));
    }
}

pub(super) fn check(kernel: &KernelDef) -> Check {
    let y = layout!(800);
    let x = |[n]: [usize; 1]| n as f32;
    let done = kernel.simulate(&[input(&y, x), output(&y)])?;
    Goal { tensor: "y", layout: y, writer: Writer::Any }.compare(&done, |at| 2.0 * x(at))
}
