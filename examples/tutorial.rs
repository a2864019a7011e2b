//! The matrix product of the MoYe.jl tutorial, and the CUDA C generated for it.

use tilewright::prelude::*;

/// C = A·Bᵀ, all matrices column-major.
#[kernel]
pub fn matmul_nt<const BM: usize = 128, const BN: usize = 128, const BK: usize = 8>(
    a: &Tensor<f32, (M, K)>,
    b: &Tensor<f32, (N, K)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    let sa = shared::<f32>(layout!((BM, BK) : (1, BM + 1))); // padded by one column
    let sb = shared::<f32>(layout!((BN, BK) : (1, BN + 1)));

    let ga = tile(a, (BM, BK), (block.x, _)); // (BM, BK, k)
    let gb = tile(b, (BN, BK), (block.y, _)); // (BN, BK, k)
    let gc = tile(c, (BM, BN), (block.x, block.y)); // (BM, BN)

    let ta = layout!((32, 8)); // thread layout of copies
    let tc = layout!((16, 16)); // thread layout of the product

    let (ta_ga, ta_sa) = (parallelize(ga, ta, thread.x), parallelize(sa, ta, thread.x));
    let (tb_gb, tb_sb) = (parallelize(gb, ta, thread.x), parallelize(sb, ta, thread.x));
    let tc_sa = parallelize(sa, tc, thread.x, (1, _)); // project: rows only
    let tc_sb = parallelize(sb, tc, thread.x, (_, 1));
    let tc_gc = parallelize(gc, tc, thread.x);

    let mut acc = registers_like(tc_gc, 0.0);
    for k in 0..ta_ga.size(2) {
        copy(ta_ga[(_, _, k)], ta_sa);
        copy(tb_gb[(_, _, k)], tb_sb);
        cp_async_wait_all();
        sync_threads();
        gemm(tc_sa, tc_sb, &mut acc);
        sync_threads();
    }
    copy(acc, tc_gc);
}

fn main() {
    println!("{}", matmul_nt().source());
    println!("{}", matmul_nt().report());
}
