#[kernel]
pub fn matmul_nt<const BM: usize = 128, const BN: usize = 128, const BK: usize = 8>(
    a: &Tensor<f32, (M, K)>,
    b: &Tensor<f32, (N, K)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    let sa = shared::<f32>(layout!((BM, BK) : (1, BM + 1)));
    let sb = shared::<f32>(layout!((BN, BK) : (1, BN + 1)));

    let ga = tile(a, (BM, BK), (block.x, _));
    let gb = tile(b, (BN, BK), (block.y, _));
    let gc = tile(c, (BM, BN), (block.x, block.y));

    let ta = layout!((32, 8));
    let tc = layout!((16, 16));

    let (ta_ga, ta_sa) = (parallelize(ga, ta, thread.x), parallelize(sa, ta, thread.x));
    let (tb_gb, tb_sb) = (parallelize(gb, ta, thread.x), parallelize(sb, ta, thread.x));
    let tc_sa = parallelize(sa, tc, thread.x, (1, _));
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
