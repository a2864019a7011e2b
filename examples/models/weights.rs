//! Linear layers of few rows, y = a·wᵀ, or with ADD = 1 y += a·wᵀ: weights of 8 and 4 bits with a scale for each 32 of a row. Weights are the
//! left operand, whose elements are converted in registers.

use tilewright::prelude::*;

/// The weights are integers of 8 bits times scales.
#[kernel(T = f16 | bf16, Y = f16 | bf16 | f32, overlaps, choose((BN, BM, SPLIT) in [(64, 16, 1), (64, 16, 4), (64, 16, 8), (64, 64, 1), (64, 64, 4)]))]
pub fn linear_q8<T, Y, const BN: usize, const BM: usize, const SPLIT: usize, const ADD: usize = 0>(
    a: &Tensor<T, (M, K), (lda, _1)>,
    codes: &Tensor<i8, (N, K), (ldw, _1)>,
    scales: &Tensor<T, { (N, ceil_div(K, 32)) }>,
    y: &mut Tensor<Y, (M, N), (ldy, _1)>,
) {
    let (ga, gw) = (tile(a, (BM, 64), (block.y, _)), tile(codes, (BN, 64), (block.x, _)));
    let gs = tile(scales, (BN, 2), (block.x, _));
    let (sa, sw, ss) = (shared::<T>((BM, 64)), shared::<i8>((BN, 64)), shared::<T>((BN, 2)));
    let mut acc = tiled_mma::<T, f32>(warps = 4).accumulators((BN, BM), 0.0);
    for k in pipelined(0..ga.size(2), stages = 4, split = cluster(SPLIT)) {
        copy(ga[(_, _, k)], sa);
        copy(gw[(_, _, k)], sw);
        copy(gs[(_, _, k)], ss);
        let scales = regroup(broadcast(ss, (_, 32, _)), (BN, 64));
        gemm(map((sw, scales), |code, scale| code as T * scale), sa, &mut acc);
    }
    let gy = permute(tile(y, (BM, BN), (block.y, block.x)), (1, 0));
    copy(if ADD == 1 { map((acc, gy), |acc, y| acc + y as f32) } else { acc }, gy);
}

/// The weights are integers of 4 bits, two in a byte, times scales, plus offsets. Bytes are in the order in which tensor cores need them:
/// byte 4t + 2s + h of each 16 has elements 16s + 8h + 2t and the next. So a thread reads neighbours.
#[kernel(T = f16 | bf16, Y = f16 | bf16 | f32, overlaps, choose((BN, BM, SPLIT) in [(64, 16, 1), (64, 16, 2), (64, 16, 4), (64, 16, 8), (64, 64, 1), (64, 64, 4)]))]
pub fn linear_q4<T, Y, const BN: usize, const BM: usize, const SPLIT: usize, const ADD: usize = 0>(
    a: &Tensor<T, (M, K), (lda, _1)>,
    codes: &Tensor<u8, { (N, ceil_div(K, 2)) }, (ldw, _1)>,
    scales: &Tensor<T, { (N, ceil_div(K, 32)) }>,
    offsets: &Tensor<T, { (N, ceil_div(K, 32)) }>,
    y: &mut Tensor<Y, (M, N), (ldy, _1)>,
) {
    let (ga, gw) = (tile(a, (BM, 128), (block.y, _)), tile(codes, (BN, 64), (block.x, _)));
    let (gs, go) = (tile(scales, (BN, 4), (block.x, _)), tile(offsets, (BN, 4), (block.x, _)));
    let sa = shared::<T>((BM, 128));
    let sw = shared::<u8>(swizzled(2, 4, 3, row_major((BN, 64))));
    let (ss, so) = (shared::<T>((BN, 4)), shared::<T>((BN, 4)));
    // From the order (h, s, t) in memory to the order (t, h, s) along K.
    let bytes = regroup(permute(regroup(sw, (BN, 2, 2, 4, 4)), (0, 3, 1, 2, 4)), (BN, 64));
    let mut acc = tiled_mma::<T, f32>(warps = (4, 1)).accumulators((BN, BM), 0.0);
    for k in pipelined(0..ga.size(2), stages = 4, split = cluster(SPLIT)) {
        copy(ga[(_, _, k)], sa);
        copy(gw[(_, _, k)], sw);
        copy(gs[(_, _, k)], ss);
        copy(go[(_, _, k)], so);
        let scales = regroup(broadcast(ss, (_, 32, _)), (BN, 128));
        let offsets = regroup(broadcast(so, (_, 32, _)), (BN, 128));
        let w = map((unpack_int4::<u4, T>(bytes), scales, offsets), |code, scale, offset| {
            fma(code, scale, offset)
        });
        gemm(w, sa, &mut acc);
    }
    let gy = permute(tile(y, (BM, BN), (block.y, block.x)), (1, 0));
    copy(if ADD == 1 { map((acc, gy), |acc, y| acc + y as f32) } else { acc }, gy);
}

/// The same by wgmma, whose left operand is in registers: weights are converted once for all rows of a tile. While one warpgroup waits for its
/// products, others convert, so a multiprocessor needs four.
#[kernel(T = f16 | bf16, Y = f16 | bf16 | f32, arch = 90, choose((BN, WG, BM, SPLIT, STAGES, BLOCKS) in [(64, 1, 16, 1, 4, 4), (64, 1, 16, 4, 4, 4), (128, 2, 16, 1, 4, 2), (128, 2, 64, 1, 3, 2), (64, 1, 64, 4, 4, 2), (128, 2, 128, 1, 4, 1), (128, 2, 256, 1, 3, 1)]))]
pub fn linear_q4_hopper<
    T,
    Y,
    const BN: usize,
    const WG: usize,
    const BM: usize,
    const SPLIT: usize,
    const STAGES: usize,
    const BLOCKS: usize,
    const ADD: usize = 0,
>(
    a: &Tensor<T, (M, K), (lda, _1)>,
    codes: &Tensor<u8, { (N, ceil_div(K, 2)) }, (ldw, _1)>,
    scales: &Tensor<T, { (N, ceil_div(K, 32)) }>,
    offsets: &Tensor<T, { (N, ceil_div(K, 32)) }>,
    y: &mut Tensor<Y, (M, N), (ldy, _1)>,
) {
    blocks_per_sm(BLOCKS);
    let (ga, gw) = (tile(a, (BM, 128), (block.y, _)), tile(codes, (BN, 64), (block.x, _)));
    let (gs, go) = (tile(scales, (BN, 4), (block.x, _)), tile(offsets, (BN, 4), (block.x, _)));
    let sa = shared::<T>((BM, 128));
    let sw = shared::<u8>(swizzled(2, 4, 3, row_major((BN, 64))));
    let (ss, so) = (shared::<T>((BN, 4)), shared::<T>((BN, 4)));
    // From the order (h, s, t) in memory to the order (t, h, s) along K.
    let bytes = regroup(permute(regroup(sw, (BN, 2, 2, 4, 4)), (0, 3, 1, 2, 4)), (BN, 64));
    let mut acc = tiled_mma::<T, f32>(warpgroups = WG).accumulators((BN, BM), 0.0);
    for k in pipelined(0..ga.size(2), stages = STAGES, split = cluster(SPLIT), producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gw[(_, _, k)], sw);
        copy(gs[(_, _, k)], ss);
        copy(go[(_, _, k)], so);
        let scales = regroup(broadcast(ss, (_, 32, _)), (BN, 128));
        let offsets = regroup(broadcast(so, (_, 32, _)), (BN, 128));
        let w = map((unpack_int4::<u4, T>(bytes), scales, offsets), |code, scale, offset| {
            fma(code, scale, offset)
        });
        gemm(w, sa, &mut acc);
    }
    let gy = permute(tile(y, (BM, BN), (block.y, block.x)), (1, 0));
    copy(if ADD == 1 { map((acc, gy), |acc, y| acc + y as f32) } else { acc }, gy);
}
