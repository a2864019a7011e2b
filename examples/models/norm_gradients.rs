//! Gradients of norms. Each of P blocks has every P-th tile of R rows, and adds up a part of the
//! gradients of the weights.
//! Another launch adds up the parts, so results do not differ from run to run.

use tilewright::prelude::*;

/// Gradients of y = x · rstd · w.
#[kernel(T = bf16 | f16 | f32, choose((R, W, L) in [(16, 128, 256), (4, 512, 256), (1, 1024, 128), (1, 2048, 256), (1, 4096, 512), (1, 8192, 512)]))]
pub fn rms_norm_backward<T, const R: usize, const W: usize, const L: usize>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    w: &Tensor<T, N>,
    rstd: &Tensor<f32, M>,
    dy: &Tensor<T, (M, N), (ldy, _1)>,
    dx: &mut Tensor<T, (M, N), (lddx, _1)>,
    dw_parts: &mut Tensor<f32, (P, N), (ldp, _1)>,
) {
    assert(N <= W);
    threads(L);
    at_most(P, 65536);
    let part = walk(P, block.x);
    let w = map(tile(w, W, 0).along(1), |w| w as f32);
    let mut dw = full::<f32>((R, W), 0.0);
    for k in 0..ceil_div(max(ceil_div(M, R) - part, 0), P) {
        let i = P * k + part;
        let r = tile(rstd, R, i).along(0);
        let x = map((tile(x, (R, W), (i, 0)), r), |x, r| x as f32 * r);
        let dy = map(tile(dy, (R, W), (i, 0)), |d| d as f32);
        let mean = map(sum(map((x, dy, w), |x, d, w| x * d * w), 1), |total| total / N as f32);
        copy(map((x, dy, w, mean, r), |x, d, w, m, r| (d * w - x * m) * r), tile(dx, (R, W), (i, 0)));
        dw += map((x, dy), |x, d| x * d);
    }
    copy(sum(dw, 0, out_of_bounds = 0.0), tile(dw_parts, (1, W), (part, 0)));
}

/// Gradients of y = (x - mean) · rstd · w + b.
#[kernel(T = bf16 | f16 | f32, choose((R, W, L) in [(16, 128, 256), (4, 512, 256), (1, 1024, 128), (1, 2048, 256), (1, 4096, 512), (1, 8192, 512)]))]
pub fn layer_norm_backward<T, const R: usize, const W: usize, const L: usize>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    w: &Tensor<T, N>,
    mean: &Tensor<f32, M>,
    rstd: &Tensor<f32, M>,
    dy: &Tensor<T, (M, N), (ldy, _1)>,
    dx: &mut Tensor<T, (M, N), (lddx, _1)>,
    dw_parts: &mut Tensor<f32, (P, N), (ldp, _1)>,
    db_parts: &mut Tensor<f32, (P, N), (ldp, _1)>,
) {
    assert(N <= W);
    threads(L);
    at_most(P, 65536);
    let part = walk(P, block.x);
    let w = map(tile(w, W, 0).along(1), |w| w as f32);
    let (mut dw, mut db) = (full::<f32>((R, W), 0.0), full::<f32>((R, W), 0.0));
    for k in 0..ceil_div(max(ceil_div(M, R) - part, 0), P) {
        let i = P * k + part;
        let (mean, r) = (tile(mean, R, i).along(0), tile(rstd, R, i).along(0));
        let x = map((tile(x, (R, W), (i, 0)), mean, r), |x, mean, r| (x as f32 - mean) * r);
        let dy = map(tile(dy, (R, W), (i, 0)), |d| d as f32);
        let products = map((x, dy, w), |x, d, w| (d * w, x * d * w));
        let (plain, scaled) = reduce(products, (0.0, 0.0), |(a, s), (b, t)| (a + b, s + t), mode = 1);
        let gradient = map((x, dy, w, plain, scaled, r), |x, d, w, plain, scaled, r| {
            (d * w - (plain + x * scaled) / N as f32) * r
        });
        copy(gradient, tile(dx, (R, W), (i, 0)));
        dw += map((x, dy), |x, d| x * d);
        db += dy;
    }
    copy(sum(dw, 0, out_of_bounds = 0.0), tile(dw_parts, (1, W), (part, 0)));
    copy(sum(db, 0, out_of_bounds = 0.0), tile(db_parts, (1, W), (part, 0)));
}

/// Sums of the columns of P parts.
#[kernel(T = bf16 | f16 | f32)]
pub fn sum_parts<T>(parts: &Tensor<f32, (P, N), (ldp, _1)>, total: &mut Tensor<T, N>) {
    let parts = tile(parts, (64, 32), (_, block.x));
    let mut sums = full::<f32>((64, 32), 0.0);
    for k in 0..parts.size(2) {
        sums += parts[(_, _, k)];
    }
    copy(sum(sums, 0), tile(total, 32, block.x).along(1));
}
