use tilewright::prelude::*;

/// c = a·bᵀ + residual
#[kernel(arch = 90)]
pub fn added(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    residual: &Tensor<bf16, (M, N), (ldr, _1)>,
    c: &mut Tensor<bf16, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((64, 64)));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = 1).accumulators((64, 64), 0.0);
    for k in pipelined(0..ga.size(2), stages = 3, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    let old = tile(residual, (64, 64), (block.x, block.y));
    copy(map((acc, old), |x, r| x + r as f32), tile(c, (64, 64), (block.x, block.y)));
}
