//! Gradients of norms. Each of P blocks has every P-th tile of R rows, and adds up a part of the gradients of the weights. The next rows
//! are copied to shared memory meanwhile. Another launch adds up the parts, so results do not differ from run to run.

use tilewright::prelude::*;

/// Gradients of y = x · rstd · w.
#[kernel(T = bf16 | f16 | f32, choose((R, W, L) in [(8, 128, 256), (2, 512, 256), (1, 1024, 128), (1, 2048, 256), (1, 4096, 512), (1, 8192, 1024)]))]
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
    blocks_per_sm(1024 / L);
    at_most(P, 65536);
    let part = walk(P, block.x);
    let w = map(tile(w, W, 0).along(1), |w| w);
    let mut dw = full::<f32>((R, W), 0.0);
    let rows = row_major((R, W));
    let (sx, sdy, sr) = (shared::<T>(rows), shared::<T>(rows), shared::<f32>(R));
    for k in pipelined(0..ceil_div(max(ceil_div(M, R) - part, 0), P), most_stages = 3) {
        let i = P * k + part;
        copy(tile(x, (R, W), (i, 0)), sx);
        copy(tile(dy, (R, W), (i, 0)), sdy);
        copy(tile(rstd, R, i), sr);
        let r = sr.along(0);
        let products = map((sx, sdy, w, r), |x, d, w, r| x as f32 * r * (d as f32) * (w as f32));
        let mean = map(sum(products, 1, out_of_bounds = 0.0), |total| total / N as f32);
        let gradient =
            map((sx, sdy, w, mean, r), |x, d, w, mean, r| (d as f32 * (w as f32) - x as f32 * r * mean) * r);
        copy(gradient, tile(dx, (R, W), (i, 0)));
        dw += map((sx, sdy, r), |x, d, r| x as f32 * r * (d as f32));
    }
    copy(sum(dw, 0, out_of_bounds = 0.0), tile(dw_parts, (1, W), (part, 0)));
}

/// Gradients of y = (x - mean) · rstd · w + b.
#[kernel(T = bf16 | f16 | f32, choose((R, W, L) in [(8, 128, 256), (2, 512, 256), (1, 1024, 128), (1, 2048, 256), (1, 4096, 512), (1, 8192, 1024)]))]
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
    blocks_per_sm(1024 / L);
    at_most(P, 65536);
    let part = walk(P, block.x);
    let w = map(tile(w, W, 0).along(1), |w| w);
    let (mut dw, mut db) = (full::<f32>((R, W), 0.0), full::<f32>((R, W), 0.0));
    let rows = row_major((R, W));
    let (sx, sdy, sm, sr) = (shared::<T>(rows), shared::<T>(rows), shared::<f32>(R), shared::<f32>(R));
    for k in pipelined(0..ceil_div(max(ceil_div(M, R) - part, 0), P), most_stages = 3) {
        let i = P * k + part;
        copy(tile(x, (R, W), (i, 0)), sx);
        copy(tile(dy, (R, W), (i, 0)), sdy);
        copy(tile(mean, R, i), sm);
        copy(tile(rstd, R, i), sr);
        let (m, r) = (sm.along(0), sr.along(0));
        let products = map((sx, sdy, w, m, r), |x, d, w, m, r| {
            (d as f32 * (w as f32), (x as f32 - m) * r * (d as f32) * (w as f32))
        });
        let add = |(a, s), (b, t)| (a + b, s + t);
        let sums = reduce(products, (0.0, 0.0), add, mode = 1, out_of_bounds = (0.0, 0.0));
        let (plain, scaled) = map(sums, |plain, scaled| (plain / N as f32, scaled / N as f32));
        let gradient = map((sx, sdy, w, plain, scaled, m, r), |x, d, w, plain, scaled, m, r| {
            (d as f32 * (w as f32) - fma((x as f32 - m) * r, scaled, plain)) * r
        });
        copy(gradient, tile(dx, (R, W), (i, 0)));
        dw += map((sx, sdy, m, r), |x, d, m, r| (x as f32 - m) * r * (d as f32));
        db += map(sdy, |d| d as f32);
    }
    copy(sum(dw, 0, out_of_bounds = 0.0), tile(dw_parts, (1, W), (part, 0)));
    copy(sum(db, 0, out_of_bounds = 0.0), tile(db_parts, (1, W), (part, 0)));
}

/// Sums of the columns of P parts.
#[kernel(T = bf16 | f16 | f32)]
pub fn sum_parts<T>(parts: &Tensor<f32, (P, N), (ldp, _1)>, total: &mut Tensor<T, N>) {
    let parts = tile(parts, (512, 8), (_, block.x));
    let mut sums = full::<f32>((512, 8), 0.0);
    for k in 0..parts.size(2) {
        sums += parts[(_, _, k)];
    }
    copy(sum(sums, 0, out_of_bounds = 0.0), tile(total, 8, block.x).along(1));
}
