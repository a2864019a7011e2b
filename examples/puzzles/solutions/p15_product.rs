//! A part of 4×4 elements needs 8 loads for 16 multiply-adds; a part of 1×16 needs 17. Of all shapes of 16
//! elements, 4×4 needs the fewest loads.

use tilewright::prelude::*;

/// C = A·Bᵀ, everything column-major.
#[kernel]
pub fn product(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    let (a, b) = (tile(a, (32, 8), (block.x, _)), tile(b, (32, 8), (block.y, _)));
    let (sa, sb) = (shared::<f32>(layout!((32, 8))), shared::<f32>(layout!((32, 8))));
    let (ta, tc) = (layout!((32, 2)), layout!((8, 8)));
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
