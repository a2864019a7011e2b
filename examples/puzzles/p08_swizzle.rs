//! 8. A swizzle
//!
//! Padding takes memory. A swizzle permutes elements instead: `swizzled(b, m, s, layout)` combines `b` bits of each
//! offset, from bit `m` on, with the `b` bits that are `s` higher, by exclusive or. With b = 2, m = 0, s = 2:
//!
//! ```text
//! (4,4):(4,1)                Sw<2,0,2> o 0 o (4,4):(4,1)
//!       0  1  2  3                 0  1  2  3
//!    ┌────────────              ┌────────────
//!  0 │  0  1  2  3            0 │  0  1  2  3
//!  1 │  4  5  6  7            1 │  5  4  7  6
//!  2 │  8  9 10 11            2 │ 10 11  8  9
//!  3 │ 12 13 14 15            3 │ 15 14 13 12
//! ```

use super::check::{Check, Goal, Writer, cost_at_most, input, output};
use tilewright::KernelDef;
use tilewright::prelude::*;

/// y = x, where x is column-major and y is row-major, with a compact shared tile.
#[kernel(allow(bank_conflicts))]
pub fn swizzled_tile(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    let (x, y) = (tile(x, (32, 32), (block.x, block.y)), tile(y, (32, 32), (block.x, block.y)));
    // HOLE: this swizzle permutes pairs alone.
    let s = shared::<f32>(swizzled(1, 0, 5, row_major((32, 32))));
    let (down, across) = (layout!((32, 8)), layout!((8, 32) : (32, 1)));
    copy(parallelize(x, down, thread.x), parallelize(s, down, thread.x));
    cp_async_wait_all();
    sync_threads();
    copy(parallelize(s, across, thread.x), parallelize(y, across, thread.x));
}

pub(super) fn check(kernel: &KernelDef) -> Check {
    let y = layout!((40, 50) : (50, 1));
    let x = |[i, j]: [usize; 2]| (100 * i + j) as f32;
    let done = kernel.simulate(&[input(&layout!((40, 50)), x), output(&y)])?;
    let threads = layout!((8, 32) : (32, 1));
    Goal { tensor: "y", layout: y, writer: Writer::thread([32, 32], &threads, [1, 1]) }.compare(&done, x)?;
    cost_at_most(&done, 0, "bank conflicts", |access| access.bank_conflicts())?;
    match kernel.generate()?.variants[0].program.launch.shared_bytes {
        4096 => Ok(()),
        bytes => Err(format!("`s` takes {bytes} bytes of shared memory; the goal is 4096").into()),
    }
}
