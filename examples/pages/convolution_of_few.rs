//! Convolutions of few channels and their gradients by the weights, on tensor cores.

use tilewright::prelude::*;

/// A convolution of few channels, such as a network's first: their C·R·R products are the inner mode of one product, and threads gather
/// them, BC at a time, to shared memory.
#[kernel(T = bf16 | f16, arch = 80, allow(uncoalesced, bank_conflicts))]
pub fn convolution_of_few<
    T,
    const C: usize = 3,
    const R: usize = 7,
    const D: usize = 2,
    const BW: usize = 16,
    const BH: usize = 8,
    const BN: usize = 64,
>(
    x: &Tensor<T, (C, W, H, B)>,
    w: &Tensor<T, { (C * R * R, N) }>,
    y: &mut Tensor<T, { (N, ceil_div(W, D), ceil_div(H, D), B) }>,
) {
    let pixels = BW * BH;
    let depth = ceil_div(C * R * R, 64) * 64;
    let (row, image) = walk((ceil_div(H, D * BH), B), block.z);
    let sx = shared::<T>((pixels, depth));
    let sw = shared::<T>((BN, depth));
    copy(permute(tile(w, (depth, BN), (0, block.y)), (1, 0)), sw);
    map(iota((pixels, depth), 1), sx, |_, at| {
        let (i, j) = (at.0 % BW + block.x * BW, at.0 / BW + row * BH);
        let (c, s, r) = (if at.1 < C * R * R { at.1 % C } else { -1 }, at.1 / C % R, at.1 / (C * R));
        x[(c, D * i + s - R / 2, D * j + r - R / 2, image)]
    });
    let mut acc = tiled_mma::<T, f32>(warps = (4, 2)).accumulators((pixels, BN), 0.0);
    gemm(sx, sw, &mut acc);
    let gy = tile(y, (BN, BW, BH, 1), (block.y, block.x, row, image))[(_, _, _, 0)];
    copy(acc, permute(regroup(gy, (BN, pixels)), (1, 0)));
}

/// Its gradient by the weights, added to dw: P blocks divide the pixels, and gather the same products, of BW·BH pixels at a time.
#[kernel(T = bf16 | f16, arch = 80, allow(uncoalesced, bank_conflicts), choose(P in [264, 32, 4]))]
pub fn convolution_of_few_by_w<
    T,
    const P: usize,
    const C: usize = 3,
    const R: usize = 7,
    const D: usize = 2,
    const BW: usize = 16,
    const BH: usize = 4,
    const BN: usize = 64,
>(
    x: &Tensor<T, (C, W, H, B)>,
    dy: &Tensor<T, { (N, ceil_div(W, D), ceil_div(H, D), B) }>,
    dw: &mut Tensor<f32, { (C * R * R, N) }>,
) {
    at_most(W, 16384);
    at_most(H, 16384);
    at_most(B, 65536);
    blocks_per_sm(2);
    let part = walk(P, block.z);
    let (pixels, depth) = (BW * BH, ceil_div(C * R * R, 64) * 64);
    let (sx, sy) = (shared::<T>((depth, pixels)), shared::<T>((BN, pixels)));
    let mut acc = tiled_mma::<T, f32>(warps = (4, 2)).accumulators((depth, BN), 0.0);
    let gy = tile(dy, (BN, BW, BH, 1), (block.y, _, _, _));
    let (columns, rows) = (gy.size(4), gy.size(5));
    let all = columns * rows * gy.size(6);
    let each = ceil_div(all, P);
    for k in 0..min(each, all - part * each) {
        let tile = part * each + k;
        let (column, row, image) = (tile % columns, tile / columns % rows, tile / (columns * rows));
        copy(regroup(gy[(_, _, _, 0, column, row, image)], (BN, pixels)), sy);
        map(iota((depth, pixels), 0), sx, |_, at| {
            let (i, j) = (at.1 % BW + column * BW, at.1 / BW + row * BH);
            let inside = (at.0 < C * R * R) & (i < ceil_div(W, D)) & (j < ceil_div(H, D));
            let (c, s, r) = (if inside { at.0 % C } else { -1 }, at.0 / C % R, at.0 / (C * R));
            x[(c, D * i + s - R / 2, D * j + r - R / 2, image)]
        });
        gemm(sx, sy, &mut acc);
    }
    copy(acc, tile(dw, (depth, BN), (0, block.y)), how = "atomic_add");
}
