//! Norms of rows for training: statistics of each row are saved for the backward pass. A block has R rows of up to W elements, in
//! registers.

use tilewright::prelude::*;

/// y = x / √(mean of squares + epsilon) · w, and the factors 1 / √….
#[kernel(T = bf16 | f16 | f32, choose((R, W, L) in [(16, 128, 128), (4, 512, 128), (1, 1024, 64), (1, 2048, 128), (1, 4096, 256), (1, 8192, 512), (1, 16384, 1024)]))]
pub fn rms_norm_with_rstd<T, const R: usize, const W: usize, const L: usize>(
    epsilon: f32,
    x: &Tensor<T, (M, N), (ldx, _1)>,
    w: &Tensor<T, N>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
    rstd: &mut Tensor<f32, M>,
) {
    assert(N <= W);
    threads(L);
    let x = map(tile(x, (R, W), (block.x, 0)), |x| x as f32);
    let squares = sum(map(x, |x| x * x), 1);
    let scale = map(squares, |squares| rsqrt(squares / N as f32 + epsilon));
    let w = tile(w, W, 0).along(1);
    copy(map((x, scale, w), |x, s, w| x * s * (w as f32)), tile(y, (R, W), (block.x, 0)));
    copy(scale, tile(rstd, R, block.x).along(0));
}

/// x += branch, and y = x / √(mean of squares + epsilon) · w. The residual stream x may have another type than the branches.
#[kernel(T = bf16 | f16 | f32, X = bf16 | f16 | f32, choose((R, W, L) in [(16, 128, 128), (4, 512, 128), (1, 1024, 64), (1, 2048, 128), (1, 4096, 256), (1, 8192, 512), (1, 16384, 1024)]))]
pub fn add_rms_norm<T, X, const R: usize, const W: usize, const L: usize>(
    epsilon: f32,
    branch: &Tensor<T, (M, N), (ldb, _1)>,
    w: &Tensor<T, N>,
    x: &mut Tensor<X, (M, N), (ldx, _1)>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
    rstd: Option<&mut Tensor<f32, M>>,
) {
    assert(N <= W);
    threads(L);
    let stream = tile(x, (R, W), (block.x, 0));
    let x = map((stream, tile(branch, (R, W), (block.x, 0))), |x, b| (x as f32 + b as f32) as X);
    copy(x, stream);
    let squares = sum(map(x, |x| x as f32 * x as f32), 1);
    let scale = map(squares, |squares| rsqrt(squares / N as f32 + epsilon));
    let w = tile(w, W, 0).along(1);
    copy(map((x, scale, w), |x, s, w| x as f32 * s * (w as f32)), tile(y, (R, W), (block.x, 0)));
    if let Some(rstd) = rstd {
        copy(scale, tile(rstd, R, block.x).along(0));
    }
}

/// y = (x - mean) / √(variance + epsilon) · w + b, the means and the factors 1 / √….
#[kernel(T = bf16 | f16 | f32, choose((R, W, L) in [(16, 128, 128), (4, 512, 128), (1, 1024, 64), (1, 2048, 128), (1, 4096, 256), (1, 8192, 256), (1, 16384, 512)]))]
pub fn layer_norm<T, const R: usize, const W: usize, const L: usize>(
    epsilon: f32,
    x: &Tensor<T, (M, N), (ldx, _1)>,
    w: &Tensor<T, N>,
    b: &Tensor<T, N>,
    y: &mut Tensor<T, (M, N), (ldy, _1)>,
    mean: &mut Tensor<f32, M>,
    rstd: &mut Tensor<f32, M>,
) {
    assert(N <= W);
    threads(L);
    let x = map(tile(x, (R, W), (block.x, 0)), |x| x as f32);
    let middle = map(sum(x, 1), |total| total / N as f32);
    let squares = sum(map((x, middle), |x, m| (x - m) * (x - m)), 1);
    let scale = map(squares, |squares| rsqrt(squares / N as f32 + epsilon));
    let (w, b) = (tile(w, W, 0).along(1), tile(b, W, 0).along(1));
    let y = tile(y, (R, W), (block.x, 0));
    copy(map((x, middle, scale, w, b), |x, m, s, w, b| fma((x - m) * s, w as f32, b as f32)), y);
    copy(middle, tile(mean, R, block.x).along(0));
    copy(scale, tile(rstd, R, block.x).along(0));
}
