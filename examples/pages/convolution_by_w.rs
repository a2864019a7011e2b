//! Gradients of convolutions by their weights, on tensor cores.

use tilewright::prelude::*;

/// The gradient of `convolution` by w, added to dw: for each shift a product over all pixels, which P blocks divide.
#[kernel(T = bf16 | f16, arch = 90, overlaps, choose((BC, BN, WARPGROUPS, STAGES, P, BW, BH, BB, CLUSTER) in h200::convolution_by_w))]
pub fn convolution_by_w<
    T,
    const BC: usize,
    const BN: usize,
    const WARPGROUPS: usize,
    const STAGES: usize,
    const P: usize,
    const BW: usize,
    const BH: usize,
    const BB: usize,
    const CLUSTER: usize,
    const R: usize = 3,
    const D: usize = 1,
>(
    x: &Tensor<T, (C, W, H, B)>,
    dy: &Tensor<T, { (N, ceil_div(W, D), ceil_div(H, D), B) }>,
    dw: &mut Tensor<f32, { (C, R, R, N) }>,
) {
    at_most(W, 1024);
    at_most(H, 1024);
    at_most(B, 65536);
    // Of more channels, small tiles would read the patches too often.
    if BN == 64 {
        assert(N <= 64);
    }
    cluster(if R % CLUSTER == 0 { CLUSTER } else { 1 }); // neighbours have other channels or shifts, and share dy
    let (channels, shift_of) = walk((ceil_div(C, BC), R * R), block.x);
    let (s, r) = (shift_of % R, shift_of / R);
    let part = walk(P, block.z);
    let gx = tile(x, (BC, D * BW, D * BH, BB), (channels, _, _, _));
    let gy = tile(dy, (BN, BW, BH, BB), (block.y, _, _, _));
    let pixels = BW * BH * BB;
    let (sx, sy) = (shared::<T>((BC, pixels)), shared::<T>((BN, pixels)));
    let mut acc = tiled_mma::<T, f32>(warpgroups = WARPGROUPS).accumulators((BC, BN), 0.0);
    let (columns, rows) = (gx.size(4), gx.size(5));
    let all = columns * rows * gx.size(6);
    let each = ceil_div(all, P);
    for k in pipelined(0..min(each, all - part * each), stages = STAGES, producer = warp) {
        let at = part * each + k;
        let (i, j, b) = (at % columns, at / columns % rows, at / (columns * rows));
        let patch = shift(gx, (0, s - R / 2, r - R / 2, 0, 0, 0, 0))[(_, _, _, _, i, j, b)];
        let patch = regroup(patch, (BC, D, BW, D, BH, BB))[(_, 0, _, 0, _, _)];
        copy(regroup(patch, (BC, pixels)), sx);
        copy(regroup(gy[(_, _, _, _, i, j, b)], (BN, pixels)), sy);
        gemm(sx, sy, &mut acc);
    }
    copy(acc, tile(dw, (BC, 1, 1, BN), (channels, s, r, block.y))[(_, 0, 0, _)], how = "atomic_add");
}
