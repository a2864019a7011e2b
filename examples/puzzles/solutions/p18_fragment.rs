//! Four threads have a row of 8, two neighbours each, so consecutive threads are along a row. `mma.partition_c(c,
//! thread.x)` is this part, with the modes of the fragment.

use tilewright::prelude::*;

/// C = A·Bᵀ, one warp and one instruction for each 16×8 of C and 16 of K.
#[kernel]
pub fn fragments(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (a, b) = (tile(a, (16, 16), (block.x, _)), tile(b, (8, 16), (block.y, _)));
    let (sa, sb) = (swizzled(1, 3, 3, row_major((16, 16))), swizzled(1, 3, 3, row_major((8, 16))));
    let (sa, sb) = (shared::<bf16>(sa), shared::<bf16>(sb));
    let mma = tiled_mma("mma_m16n8k16_bf16", layout!((1, 1)));
    let (part_a, part_b) = (mma.partition_a(sa, thread.x), mma.partition_b(sb, thread.x));
    let (fa, fb) = (fragment_like(part_a), fragment_like(part_b));
    let c = tile(c, (16, 8), (block.x, block.y));
    let mut acc = fragment_like(mma.partition_c(c, thread.x), 0.0); // (4, 1, 1)
    for k in 0..a.size(2) {
        copy(a[(_, _, k)], sa);
        copy(b[(_, _, k)], sb);
        cp_async_wait_all();
        sync_threads();
        copy(part_a, fa);
        copy(part_b, fb);
        gemm(fa, fb, &mut acc, how = "mma_m16n8k16_bf16");
        sync_threads();
    }
    let part = parallelize(c, layout!((8, 4) : (4, 1)), thread.x, values = (1, 2)); // (rows, columns)
    copy(acc, regroup(permute(part, (1, 0)), (4, 1, 1)));
}
