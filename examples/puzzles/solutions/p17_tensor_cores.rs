//! The accumulators of `mma` are distributed as its instruction requires. Its four warps are the 128 threads of the
//! block.

use tilewright::prelude::*;

/// C = A·Bᵀ, rows contiguous.
#[kernel(threads = 128)]
pub fn by_tensor_cores(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (a, b) = (tile(a, (32, 32), (block.x, _)), tile(b, (32, 32), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((32, 32)), shared::<bf16>((32, 32)));
    let mma = tiled_mma::<bf16, f32>(warps = 4);
    let mut acc = mma.accumulators((32, 32), 0.0);
    for k in pipelined(0..a.size(2), stages = 3) {
        copy(a[(_, _, k)], sa);
        copy(b[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (32, 32), (block.x, block.y)));
}
