//! 18. A fragment
//!
//! One warp computes 16×8 elements of C by one instruction. Each thread has four of them, its fragment: V0 and V1 in one
//! row, V2 and V3 in the row that is 8 lower. Some rows of the tile:
//!
//! ```text
//!           0      1      2      3      4      5      6      7
//!    ┌────────────────────────────────────────────────────────
//!  0 │  T0 V0  T0 V1  T1 V0  T1 V1  T2 V0  T2 V1  T3 V0  T3 V1
//!  1 │  T4 V0  T4 V1  T5 V0  T5 V1  T6 V0  T6 V1  T7 V0  T7 V1
//!  2 │  T8 V0  T8 V1  T9 V0  T9 V1 T10 V0 T10 V1 T11 V0 T11 V1
//!    ⋮
//!  8 │  T0 V2  T0 V3  T1 V2  T1 V3  T2 V2  T2 V3  T3 V2  T3 V3
//! ```

use super::check::{Check, Goal, Writer, input, output};
use tilewright::KernelDef;
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
    // HOLE: these are not the threads of the picture.
    let part = parallelize(c, layout!((8, 4)), thread.x, values = (1, 2)); // (rows, columns)
    copy(acc, regroup(permute(part, (1, 0)), (4, 1, 1)));
}

pub(super) fn check(kernel: &KernelDef) -> Check {
    let (a, b, c) = (layout!((20, 40) : (40, 1)), layout!((13, 40) : (40, 1)), layout!((20, 13) : (13, 1)));
    let x = |[i, k]: [usize; 2]| ((i + 2 * k) % 5) as f32 - 2.0;
    let half = |at| bf16::from_f32(x(at));
    let done = kernel.simulate(&[input(&a, half), input(&b, half), output(&c)])?;
    let expected = |[i, j]: [usize; 2]| (0..40).map(|k| x([i, k]) * x([j, k])).sum();
    Goal { tensor: "c", layout: c, writer: Writer::thread([16, 8], &layout!((8, 4) : (4, 1)), [1, 2]) }
        .compare(&done, expected)
}
