//! 16. A pipelined product
//!
//! Each iteration of this loop waits for its copies before the product, and for the product before the next copies:
//!
//! ```text
//! plain       copy 0 | gemm 0 | copy 1 | gemm 1 | copy 2 | gemm 2
//! 3 stages    copy 0, copy 1 | gemm 0, copy 2 | gemm 1, copy 3 | gemm 2, copy 4
//! ```
//!
//! In `for k in pipelined(0..n, stages = 3)`, copies from global to shared memory run two iterations ahead. Each shared
//! tile has three slots. Waits and barriers are generated, one barrier for each iteration.

use super::check::{Check, Goal, Writer, input, operations_at_most, output};
use tilewright::KernelDef;
use tilewright::prelude::*;

/// C = A·Bᵀ
#[kernel(threads = 64)]
pub fn pipelined_product(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    let (a, b) = (tile(a, (32, 8), (block.x, _)), tile(b, (32, 8), (block.y, _)));
    let (sa, sb) = (shared::<f32>((32, 8)), shared::<f32>((32, 8)));
    let mut acc = full::<f32>((32, 32), 0.0);
    // HOLE: copies do not overlap products.
    for k in 0..a.size(2) {
        copy(a[(_, _, k)], sa);
        copy(b[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (32, 32), (block.x, block.y)));
}

pub(super) fn check(kernel: &KernelDef) -> Check {
    let (a, b, c) = (layout!((40, 60)), layout!((50, 60)), layout!((40, 50)));
    let x = |[i, k]: [usize; 2]| ((i + 2 * k) % 5) as f32 - 2.0;
    let done = kernel.simulate(&[input(&a, x), input(&b, x), output(&c)])?;
    let expected = |[i, j]: [usize; 2]| (0..60).map(|k| x([i, k]) * x([j, k])).sum();
    Goal { tensor: "c", layout: c, writer: Writer::Block([32, 32]) }.compare(&done, expected)?;
    operations_at_most(&done, "barriers", 4 * 64 * 8) // four blocks of 64 threads, 8 iterations
}
