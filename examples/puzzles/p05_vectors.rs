//! 5. Vectors
//!
//! A thread moves up to 16 bytes by one instruction if they are adjacent and aligned. `values = (1, 4)` gives a thread
//! four neighbours along the second mode. `parallelize(t, layout!((2, 2) : (2, 1)), thread.x, values = (1, 4))` is
//!
//! ```text
//!          0     1     2     3     4     5     6     7
//!    ┌────────────────────────────────────────────────
//!  0 │ T0 V0 T0 V1 T0 V2 T0 V3 T1 V0 T1 V1 T1 V2 T1 V3
//!  1 │ T2 V0 T2 V1 T2 V2 T2 V3 T3 V0 T3 V1 T3 V2 T3 V3
//! ```
//!
//! A kernel has several variants. A launch takes the one with vectors if its sizes and strides allow them.

use super::check::{Check, Goal, Writer, cost_at_most, input, output};
use tilewright::KernelDef;
use tilewright::prelude::*;

/// y = x, both row-major, by few instructions.
#[kernel]
pub fn by_vectors(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    let t = layout!((8, 16) : (16, 1));
    // HOLE: a thread moves one element by each instruction.
    let from = parallelize(tile(x, (8, 64), (block.x, block.y)), t, thread.x);
    let to = parallelize(tile(y, (8, 64), (block.x, block.y)), t, thread.x);
    copy(from, to);
}

pub(super) fn check(kernel: &KernelDef) -> Check {
    let y = layout!((20, 96) : (96, 1));
    let x = |[i, j]: [usize; 2]| (100 * i + j) as f32;
    let done = kernel.simulate(&[input(&y, x), output(&y)])?;
    Goal { tensor: "y", layout: y, writer: Writer::thread([8, 64], &layout!((8, 16) : (16, 1)), [1, 4]) }
        .compare(&done, x)?;
    cost_at_most(&done, 40, "instructions of warps", |access| access.executed)
}
