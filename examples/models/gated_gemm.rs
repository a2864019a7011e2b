//! The first half of a gated feed-forward layer: two GEMMs of the same rows, whose results are multiplied.

use tilewright::prelude::*;

/// y = F(x·wᵀ) · (x·uᵀ). Tiles of both weights share the tile of x. With `W_LEFT` the weights are the left operands, for few rows of x.
#[kernel(T = bf16 | f16, arch = 90, overlaps, choose((BM, BN, W_LEFT) in h200::gated_gemm))]
pub fn gated_gemm<
    T,
    const BM: usize,
    const BN: usize,
    const W_LEFT: usize,
    const F: fn(f32) -> f32 = { |x| silu(x) },
>(
    x: &Tensor<T, (M, K), (ldx, _1)>,
    w: &Tensor<T, (N, K), (ldw, _1)>,
    u: &Tensor<T, (N, K), (ldu, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
) {
    persistent();
    let gx = tile(x, (BM, 64), (block.x, _));
    let (gw, gu) = (tile(w, (BN, 64), (block.y, _)), tile(u, (BN, 64), (block.y, _)));
    let (sx, sw, su) = (shared::<T>((BM, 64)), shared::<T>((BN, 64)), shared::<T>((BN, 64)));
    let mma = tiled_mma::<T, f32>(warpgroups = if W_LEFT == 1 { BN / 64 } else { BM / 64 });
    let shape = if W_LEFT == 1 { (BN, BM) } else { (BM, BN) };
    let (mut gate, mut up) = (mma.accumulators(shape, 0.0), mma.accumulators(shape, 0.0));
    for k in pipelined(0..gx.size(2), most_stages = 16, producer = warp) {
        copy(gx[(_, _, k)], sx);
        copy(gw[(_, _, k)], sw);
        copy(gu[(_, _, k)], su);
        if W_LEFT == 1 {
            gemm(sw, sx, &mut gate);
            gemm(su, sx, &mut up);
        } else {
            gemm(sx, sw, &mut gate);
            gemm(sx, su, &mut up);
        }
    }
    let y = permute(tile(y, (BM, BN), (block.x, block.y)), if W_LEFT == 1 { (1, 0) } else { (0, 1) });
    copy(map((gate, up), |gate, up| F(gate) * up), y);
}
