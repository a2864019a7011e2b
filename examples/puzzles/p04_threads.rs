//! 4. Threads by hand
//!
//! `parallelize(t, threads, thread.x)` is the part of a tile that one thread has. `threads` is a layout from positions
//! to thread numbers, and is repeated until it covers the tile:
//!
//! ```text
//! layout!((2, 4))            layout!((2, 4) : (4, 1))
//!      0 1 2 3                    0 1 2 3
//!    ┌────────                  ┌────────
//!  0 │ 0 2 4 6                0 │ 0 1 2 3
//!  1 │ 1 3 5 7                1 │ 4 5 6 7
//! ```
//!
//! A warp has 32 consecutive threads, and moves sectors of 32 adjacent bytes. Rows of these matrices are contiguous.

use super::check::{Check, Goal, Writer, cost_at_most, input, output};
use tilewright::KernelDef;
use tilewright::prelude::*;

/// y = x, both row-major.
#[kernel(allow(uncoalesced))]
pub fn copied(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    // HOLE: consecutive threads have consecutive rows.
    let t = layout!((32, 4));
    let from = parallelize(tile(x, (32, 32), (block.x, block.y)), t, thread.x);
    let to = parallelize(tile(y, (32, 32), (block.x, block.y)), t, thread.x);
    copy(from, to);
}

pub(super) fn check(kernel: &KernelDef) -> Check {
    let y = layout!((40, 72) : (80, 1));
    let x = |[i, j]: [usize; 2]| (100 * i + j) as f32;
    let done = kernel.simulate(&[input(&y, x), output(&y)])?;
    let threads = layout!((4, 32) : (32, 1));
    Goal { tensor: "y", layout: y, writer: Writer::thread([32, 32], &threads, [1, 1]) }.compare(&done, x)?;
    let least = done.accesses().iter().map(|access| access.least_sectors).sum();
    cost_at_most(&done, least, "sectors of 32 bytes", |access| access.sectors)
}
