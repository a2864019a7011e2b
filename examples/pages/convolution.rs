//! Convolutions and their gradients on tensor cores.

use tilewright::prelude::*;

/// A convolution by R×R with a stride D, zeros outside of the image: y(n, i, j, b) is the sum of
/// w(c, s, r, n) · x(c, D·i + s - R/2, D·j + r - R/2, b). Channels are contiguous, then columns, rows and images. It is a product for each of the shifts (s, r): of BW · BH · BB pixels by BC
/// channels of x with BN by BC of w.
#[kernel(T = bf16 | f16, arch = 90, overlaps, choose((BW, BH, BB, BN, STAGES) in [
    (8, 8, 2, 128, 6), (8, 8, 2, 256, 4), (8, 8, 2, 192, 5), (8, 8, 2, 160, 5), (8, 8, 4, 64, 4), (8, 8, 2, 64, 8),
    (16, 8, 1, 128, 6), (16, 8, 1, 256, 4), (16, 8, 1, 192, 5), (16, 8, 1, 160, 5), (16, 8, 1, 64, 8),
    (2, 2, 32, 128, 6), (2, 2, 32, 256, 4), (4, 4, 8, 128, 6), (4, 4, 8, 256, 4),
]))]
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
#[kernel(T = bf16 | f16, arch = 90, overlaps, choose((BW, BH, BB, BC, STAGES) in [
    (8, 8, 2, 128, 6), (8, 8, 2, 256, 4), (8, 8, 2, 192, 5), (8, 8, 4, 64, 4), (8, 8, 2, 64, 8),
    (16, 8, 1, 128, 6), (16, 8, 1, 256, 4), (16, 8, 1, 192, 5), (16, 8, 1, 64, 8),
    (2, 2, 32, 128, 6), (2, 2, 32, 256, 4), (4, 4, 8, 128, 6), (4, 4, 8, 256, 4),
]))]
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
    let (wide, high) = (ceil_div(R - s, D), ceil_div(R - r, D));
    for k in pipelined(0..wide * high * gy.size(4), stages = STAGES, producer = warp) {
        let (n, i, j) = (k / (wide * high), k % wide, k / wide % high);
        let patch = shift(gy, (0, (p + R / 2) / D - i, (q + R / 2) / D - j, 0, 0))[(_, _, _, _, n)];
        copy(permute(regroup(patch, (BN, pixels)), (1, 0)), sy);
        copy(gw[(_, 0, 0, _, s + D * i, r + D * j, n)], sw);
        gemm(sy, sw, &mut acc);
    }
    let gx =
        regroup(tile(dx, (BC, D * BW, D * BH, BB), (block.y, block.x, row, image)), (BC, D, BW, D, BH, BB));
    copy(acc, permute(regroup(gx[(_, p, _, q, _, _)], (BC, pixels)), (1, 0)));
}

/// Its gradient by w, added to dw: for each shift a product over all pixels, which P blocks divide.
#[kernel(T = bf16 | f16, arch = 90, overlaps, choose((BC, BN, WARPGROUPS, STAGES, P, BW, BH, BB, CLUSTER) in [
    (128, 256, 2, 4, 1, 8, 8, 1, 1), (128, 256, 2, 4, 3, 8, 8, 1, 1), (128, 256, 2, 4, 7, 8, 8, 1, 1), (128, 256, 2, 4, 14, 8, 8, 1, 1),
    (128, 128, 2, 6, 1, 8, 8, 1, 1), (128, 128, 2, 6, 3, 8, 8, 1, 1), (128, 128, 2, 6, 7, 8, 8, 1, 1), (128, 128, 2, 6, 14, 8, 8, 1, 1),
    (128, 160, 2, 5, 2, 8, 8, 1, 1), (64, 160, 1, 8, 1, 8, 8, 1, 1), (64, 64, 1, 8, 3, 8, 12, 1, 3), (64, 64, 1, 8, 13, 8, 12, 1, 3),
    (64, 64, 1, 8, 13, 8, 4, 3, 3), (64, 64, 1, 8, 28, 8, 4, 3, 3), (128, 256, 2, 4, 1, 2, 2, 16, 1), (128, 256, 2, 4, 3, 2, 2, 16, 1),
    (128, 128, 2, 6, 1, 2, 2, 16, 1), (128, 128, 2, 6, 3, 2, 2, 16, 1),
]))]
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
