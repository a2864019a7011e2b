//! 7. A transposition without bank conflicts
//!
//! Threads read `x` along columns and write `y` along rows, through a shared tile. Both accesses are coalesced.
//! Shared memory has 32 banks of 4 bytes: word n is in bank n mod 32. Lanes that access different words of one bank
//! wait for each other. With 4 banks, a row of the first layout is in one bank, a row of the second in four:
//!
//! ```text
//! (4,4):(1,4)                (4,4):(1,5)
//!       0  1  2  3                 0  1  2  3
//!    ┌────────────              ┌────────────
//!  0 │  0  4  8 12            0 │  0  5 10 15
//!  1 │  1  5  9 13            1 │  1  6 11 16
//!  2 │  2  6 10 14            2 │  2  7 12 17
//! ```

use super::check::{Check, Goal, Writer, cost_at_most, input, output};
use tilewright::KernelDef;
use tilewright::prelude::*;

/// y = x, where x is column-major and y is row-major.
#[kernel(allow(bank_conflicts))]
pub fn transposed(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    let (x, y) = (tile(x, (32, 32), (block.x, block.y)), tile(y, (32, 32), (block.x, block.y)));
    // HOLE: rows have bank conflicts.
    let s = shared::<f32>(layout!((32, 32) : (1, 32)));
    let (down, across) = (layout!((32, 8)), layout!((8, 32) : (32, 1)));
    copy(parallelize(x, down, thread.x), parallelize(s, down, thread.x));
    cp_async_wait_all();
    sync_threads(); // a thread reads what other threads wrote: without the barrier this is an error
    copy(parallelize(s, across, thread.x), parallelize(y, across, thread.x));
}

pub(super) fn check(kernel: &KernelDef) -> Check {
    let y = layout!((40, 50) : (50, 1));
    let x = |[i, j]: [usize; 2]| (100 * i + j) as f32;
    let done = kernel.simulate(&[input(&layout!((40, 50)), x), output(&y)])?;
    let threads = layout!((8, 32) : (32, 1));
    Goal { tensor: "y", layout: y, writer: Writer::thread([32, 32], &threads, [1, 1]) }.compare(&done, x)?;
    cost_at_most(&done, 0, "bank conflicts", |access| access.bank_conflicts())
}
