//! The steps by which tutorials speed up a matrix product, each a kernel here. C = A·B with everything row-major, as the
//! tutorials have it: A is (M, K), and B, which they write (K, N), is (N, K) with its columns contiguous.

use tilewright::prelude::*;

/// One thread for each element of C, with neighbouring threads going down a column: a warp's accesses to A and C are
/// scattered.
#[kernel(allow(uncoalesced))]
pub fn naive<const B: usize = 16>(
    a: &Tensor<f32, (M, K), (lda, _1)>,
    b: &Tensor<f32, (N, K), (_1, ldb)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let threads = layout!((B, B));
    let rows = parallelize(tile(a, (B, _), (block.x, 0)), threads, thread.x, (1, _)); // (1, K)
    let columns = parallelize(tile(b, (B, _), (block.y, 0)), threads, thread.x, (_, 1)); // (1, K)
    let out = parallelize(tile(c, (B, B), (block.x, block.y)), threads, thread.x);
    let mut sum = registers_like(out, 0.0);
    gemm(rows, columns, &mut sum);
    copy(sum, out);
}

/// The same with the other thread layout: neighbours go along a row, and a warp's accesses are whole lines.
#[kernel]
pub fn coalesced<const B: usize = 32>(
    a: &Tensor<f32, (M, K), (lda, _1)>,
    b: &Tensor<f32, (N, K), (_1, ldb)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let threads = layout!((B, B) : (B, 1));
    let rows = parallelize(tile(a, (B, _), (block.y, 0)), threads, thread.x, (1, _));
    let columns = parallelize(tile(b, (B, _), (block.x, 0)), threads, thread.x, (_, 1));
    let out = parallelize(tile(c, (B, B), (block.y, block.x)), threads, thread.x);
    let mut sum = registers_like(out, 0.0);
    gemm(rows, columns, &mut sum);
    copy(sum, out);
}

/// Tiles of A and B in shared memory, one element of C for each thread, any M, N and K. With `T = i32, W = 16` it is the
/// integer kernel of one tutorial, with `T = f64` the double-precision kernel of another.
#[kernel(T = f32 | f64 | i32)]
pub fn shared_tile<T, const W: usize = 32>(
    a: &Tensor<T, (M, K), (lda, _1)>,
    b: &Tensor<T, (N, K), (_1, ldb)>,
    c: &mut Tensor<T, (M, N), (ldc, _1)>,
) {
    let (sa, sb) = (shared::<T>(row_major((W, W))), shared::<T>(layout!((W, W))));
    let ga = tile(a, (W, W), (block.y, _));
    let gb = tile(b, (W, W), (block.x, _));
    let gc = tile(c, (W, W), (block.y, block.x));

    let (ta, tb) = (layout!((W, W) : (W, 1)), layout!((W, W)));
    let (ta_ga, ta_sa) = (parallelize(ga, ta, thread.x), parallelize(sa, ta, thread.x));
    let (tb_gb, tb_sb) = (parallelize(gb, tb, thread.x), parallelize(sb, tb, thread.x));
    let rows = parallelize(sa, ta, thread.x, (1, _));
    let columns = parallelize(sb, ta, thread.x, (_, 1));
    let out = parallelize(gc, ta, thread.x);

    let mut sum = registers_like(out, 0);
    for k in 0..ta_ga.size(2) {
        copy(ta_ga[(_, _, k)], ta_sa);
        copy(tb_gb[(_, _, k)], tb_sb);
        cp_async_wait_all();
        sync_threads();
        gemm(rows, columns, &mut sum);
        sync_threads();
    }
    copy(sum, out);
}

/// Eight results for each thread, down a column: an element of B's tile is read once for all of them.
#[kernel]
pub fn block_tile_1d<const BM: usize = 64, const BN: usize = 64, const BK: usize = 8>(
    a: &Tensor<f32, (M, K), (lda, _1)>,
    b: &Tensor<f32, (N, K), (_1, ldb)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
    alpha: f32,
    beta: f32,
) {
    let (sa, sb) = (shared::<f32>(layout!((BM, BK) : (1, BM + 4))), shared::<f32>(layout!((BN, BK))));
    let ga = tile(a, (BM, BK), (block.y, _));
    let gb = tile(b, (BN, BK), (block.x, _));
    let gc = tile(c, (BM, BN), (block.y, block.x));

    let (ta, tb) = (layout!((BM, BK) : (BK, 1)), layout!((BN, BK)));
    let tc = layout!((BM / 8, BN) : (BN, 1));
    let (ta_ga, ta_sa) = (parallelize(ga, ta, thread.x), parallelize(sa, ta, thread.x));
    let (tb_gb, tb_sb) = (parallelize(gb, tb, thread.x), parallelize(sb, tb, thread.x));
    let rows = parallelize(sa, tc, thread.x, (1, _), values = (8, 1));
    let columns = parallelize(sb, tc, thread.x, (_, 1));
    let out = parallelize(gc, tc, thread.x, values = (8, 1));

    let mut sum = registers_like(out, 0.0);
    for k in 0..ta_ga.size(2) {
        copy(ta_ga[(_, _, k)], ta_sa);
        copy(tb_gb[(_, _, k)], tb_sb);
        cp_async_wait_all();
        sync_threads();
        gemm(rows, columns, &mut sum);
        sync_threads();
    }
    let old = registers_like(out, 0.0);
    copy(out, old);
    copy(map((sum, old), |s, o| alpha * s + beta * o), out);
}

fn main() {
    for (name, source) in [
        ("naive", naive().source()),
        ("coalesced", coalesced().source()),
        ("shared_tile", shared_tile().source()),
        ("block_tile_1d", block_tile_1d().source()),
    ] {
        println!("// ---- {name}\n\n{source}");
    }
}
