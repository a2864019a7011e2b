//! 17. Tensor cores
//!
//! `tiled_mma::<bf16, f32>(warps = 4)` is a matrix instruction for operands of `bf16` and sums of `f32`, tiled over
//! four warps. Its accumulators are a whole tile, distributed over threads as the instruction requires:
//!
//! ```text
//! let mma = tiled_mma::<bf16, f32>(warps = 4);
//! let mut acc = mma.accumulators((32, 32), 0.0);
//! ```
//!
//! A `gemm` into such accumulators runs on tensor cores. Other statements take them as they take every tile.

use super::check::{Check, Goal, Writer, input, operations_at_most, output};
use tilewright::KernelDef;
use tilewright::prelude::*;

/// C = A·Bᵀ, rows contiguous.
#[kernel(threads = 128, allow(cuda_cores))]
pub fn by_tensor_cores(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (a, b) = (tile(a, (32, 32), (block.x, _)), tile(b, (32, 32), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((32, 32)), shared::<bf16>((32, 32)));
    // HOLE: a product into these accumulators runs on CUDA cores.
    let mut acc = full::<f32>((32, 32), 0.0);
    for k in pipelined(0..a.size(2), stages = 3) {
        copy(a[(_, _, k)], sa);
        copy(b[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (32, 32), (block.x, block.y)));
}

pub(super) fn check(kernel: &KernelDef) -> Check {
    let (a, b, c) = (layout!((40, 72) : (72, 1)), layout!((33, 72) : (72, 1)), layout!((40, 33) : (33, 1)));
    let x = |[i, k]: [usize; 2]| ((i + 2 * k) % 5) as f32 - 2.0;
    let half = |at| bf16::from_f32(x(at));
    let done = kernel.simulate(&[input(&a, half), input(&b, half), output(&c)])?;
    let expected = |[i, j]: [usize; 2]| (0..72).map(|k| x([i, k]) * x([j, k])).sum();
    Goal { tensor: "c", layout: c, writer: Writer::Block([32, 32]) }.compare(&done, expected)?;
    operations_at_most(&done, "multiply-adds", 0) // on CUDA cores
}
