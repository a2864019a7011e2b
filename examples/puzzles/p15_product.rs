//! 15. A product in parts
//!
//! C = A·Bᵀ by 64 threads, a tile of 32×32 for each block. A thread computes a part of C, from rows of A and rows of B.
//! The fourth argument of `parallelize` is a projection of the thread layout:
//!
//! ```text
//! tc = layout!((8, 8))     positions are (row, column) of C
//! (1, _)                   threads with the same row have the same part
//! (_, 1)                   threads with the same column have the same part
//! ```
//!
//! A part of m×n elements of C needs m + n loads for m·n multiply-adds. The thread layout determines m and n.

use super::check::{Check, Goal, Writer, cost_at_most, input, output};
use tilewright::KernelDef;
use tilewright::prelude::*;
use tilewright::sim::AccessCount;

/// C = A·Bᵀ, everything column-major.
#[kernel]
pub fn product(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    let (a, b) = (tile(a, (32, 8), (block.x, _)), tile(b, (32, 8), (block.y, _)));
    let (sa, sb) = (shared::<f32>(layout!((32, 8))), shared::<f32>(layout!((32, 8))));
    // HOLE: a part of C has 1×16 elements.
    let (ta, tc) = (layout!((32, 2)), layout!((32, 2)));
    let (rows_a, rows_b) = (parallelize(a, ta, thread.x), parallelize(b, ta, thread.x));
    let tc_sa = parallelize(sa, tc, thread.x, (1, _));
    let tc_sb = parallelize(sb, tc, thread.x, (_, 1));
    let tc_c = parallelize(tile(c, (32, 32), (block.x, block.y)), tc, thread.x);
    let mut acc = registers_like(tc_c, 0.0);
    for k in 0..a.size(2) {
        copy(rows_a[(_, _, k)], parallelize(sa, ta, thread.x));
        copy(rows_b[(_, _, k)], parallelize(sb, ta, thread.x));
        cp_async_wait_all();
        sync_threads();
        gemm(tc_sa, tc_sb, &mut acc);
        sync_threads();
    }
    copy(acc, tc_c);
}

pub(super) fn check(kernel: &KernelDef) -> Check {
    let (a, b, c) = (layout!((40, 20)), layout!((50, 20)), layout!((40, 50)));
    let x = |[i, k]: [usize; 2]| ((i + 2 * k) % 5) as f32 - 2.0;
    let done = kernel.simulate(&[input(&a, x), input(&b, x), output(&c)])?;
    let expected = |[i, j]: [usize; 2]| (0..20).map(|k| x([i, k]) * x([j, k])).sum();
    Goal { tensor: "c", layout: c, writer: Writer::Block([32, 32]) }.compare(&done, expected)?;
    let loads = |access: &AccessCount| if access.what == "load" { access.executed } else { 0 };
    cost_at_most(&done, 1536, "loads of shared memory", loads)
}
