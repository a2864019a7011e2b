//! Convolutions on tensor cores, and their gradients by the images.

use tilewright::prelude::*;

/// A convolution by R×R with a stride D, zeros outside of the image: y(n, i, j, b) is the sum of
/// w(c, s, r, n) · x(c, D·i + s - R/2, D·j + r - R/2, b). Channels are contiguous, then columns, rows and images. It is a product for
/// each of the shifts (s, r): of BW · BH · BB pixels by BC channels of x with BN by BC of w.
#[kernel(T = bf16 | f16, arch = 90, overlaps, choose((BW, BH, BB, BN, STAGES) in h200::convolution))]
pub fn convolution<
    T,
    const BW: usize,
    const BH: usize,
    const BB: usize,
    const BN: usize,
    const STAGES: usize,
    const R: usize = 3,
    const D: usize = 1,
    const BC: usize = 64,
>(
    x: &Tensor<T, (C, W, H, B)>,
    w: &Tensor<T, { (C, R, R, N) }>,
    y: &mut Tensor<T, { (N, ceil_div(W, D), ceil_div(H, D), B) }>,
) {
    persistent();
    let pixels = BW * BH * BB;
    let (row, image) = walk((ceil_div(H, D * BH), ceil_div(B, BB)), block.z);
    let gx = tile(x, (BC, D * BW, D * BH, BB), (_, block.x, row, image));
    let gw = tile(w, (BC, 1, 1, BN), (_, _, _, block.y));
    let (sx, sw) = (shared::<T>((pixels, BC)), shared::<T>((BN, BC)));
    let mut acc = tiled_mma::<T, f32>(warpgroups = 2).accumulators((pixels, BN), 0.0);
    for k in pipelined(0..R * R * gx.size(4), stages = STAGES, producer = warp) {
        let (c, r, s) = (k / (R * R), k % (R * R) / R, k % R);
        let patch = shift(gx, (0, s - R / 2, r - R / 2, 0, 0))[(_, _, _, _, c)];
        let patch = regroup(patch, (BC, D, BW, D, BH, BB))[(_, 0, _, 0, _, _)];
        copy(permute(regroup(patch, (BC, pixels)), (1, 0)), sx);
        copy(permute(gw[(_, 0, 0, _, c, s, r)], (1, 0)), sw);
        gemm(sx, sw, &mut acc);
    }
    let gy = tile(y, (BN, BW, BH, BB), (block.y, block.x, row, image));
    copy(acc, permute(regroup(gy, (BN, pixels)), (1, 0)));
}

/// Its gradient by x: the convolution of the gradient by y with w rotated by 180 degrees, its channels exchanged.
#[kernel(T = bf16 | f16, arch = 90, overlaps, choose((BW, BH, BB, BC, STAGES) in h200::convolution_by_x))]
pub fn convolution_by_x<
    T,
    const BW: usize,
    const BH: usize,
    const BB: usize,
    const BC: usize,
    const STAGES: usize,
    const R: usize = 3,
    const D: usize = 1,
    const BN: usize = 64,
>(
    dy: &Tensor<T, { (N, ceil_div(W, D), ceil_div(H, D), B) }>,
    w: &Tensor<T, { (C, R, R, N) }>,
    dx: &mut Tensor<T, (C, W, H, B)>,
) {
    persistent();
    let pixels = BW * BH * BB;
    // Columns and rows of dx whose remainders by D are p and q.
    let (part, image) = walk((D * D * ceil_div(H, D * BH), ceil_div(B, BB)), block.z);
    let (p, q, row) = (part % D, part / D % D, part / (D * D));
    let gy = tile(dy, (BN, BW, BH, BB), (_, block.x, row, image));
    let gw = tile(w, (BC, 1, 1, BN), (block.y, _, _, _));
    let (sy, sw) = (shared::<T>((pixels, BN)), shared::<T>((BC, BN)));
    let mut acc = tiled_mma::<T, f32>(warpgroups = 2).accumulators((pixels, BC), 0.0);
    // Elements of w for them: every D-th, the first at s and r.
    let (s, r) = ((p + R / 2) % D, (q + R / 2) % D);
    // There are none if R < D and no column or row of x in this part has an element of y.
    let number = |first| max(ceil_div(R - first, D), 0);
    let (wide, high) = (number(s), number(r));
    let (w, h) = (max(wide, 1), max(high, 1));
    for k in pipelined(0..wide * high * gy.size(4), stages = STAGES, producer = warp) {
        let (n, i, j) = (k / (w * h), k % w, k / w % h);
        let patch = shift(gy, (0, (p + R / 2) / D - i, (q + R / 2) / D - j, 0, 0))[(_, _, _, _, n)];
        copy(permute(regroup(patch, (BN, pixels)), (1, 0)), sy);
        copy(gw[(_, 0, 0, _, s + D * i, r + D * j, n)], sw);
        gemm(sy, sw, &mut acc);
    }
    let gx =
        regroup(tile(dx, (BC, D * BW, D * BH, BB), (block.y, block.x, row, image)), (BC, D, BW, D, BH, BB));
    copy(acc, permute(regroup(gx[(_, p, _, q, _, _)], (BC, pixels)), (1, 0)));
}
