use tilewright::prelude::*;

#[kernel]
pub fn matmul_nt(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    let (sa, sb) = (shared::<f32>(layout!((64, 8))), shared::<f32>(layout!((64, 8))));
    let ga = tile(a, (64, 8), (block.x, _));
    let gb = tile(b, (64, 8), (block.y, _));
    let gc = tile(c, (64, 64), (block.x, block.y));
    let (ta, tc) = (layout!((32, 8)), layout!((16, 16)));
    let (ta_ga, ta_sa) = (parallelize(ga, ta, thread.x), parallelize(sa, ta, thread.x));
    let (tb_gb, tb_sb) =
        (parallelize(gb, layout!((32, 8)), thread.x), parallelize(sb, layout!((32, 8)), thread.x));
    let (rows, columns) = (parallelize(sa, tc, thread.x, (1, _)), parallelize(sb, tc, thread.x, (_, 1)));
    let out = parallelize(gc, tc, thread.x);
    let mut acc = registers_like(out, 0.0);
    for k in 0..ta_ga.size(2) {
        copy(ta_ga[(_, _, k)], ta_sa);
        copy(tb_gb[(_, _, k)], tb_sb);
        cp_async_wait_all();
        sync_threads();
        gemm(rows, columns, &mut acc);
    }
    copy(acc, out);
}

fn main() {}
