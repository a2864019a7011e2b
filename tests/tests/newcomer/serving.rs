//! Kernels of inference: quantisation, batches, means.

use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

/// A residual sum, normalised by its root mean square, and quantised to fp8 with a scale for each row.
#[kernel]
fn rms_quant<const D: usize = 512>(
    x: &Tensor<bf16, (M, N), (ldx, _1)>,
    residual: &mut Tensor<bf16, (M, N), (ldr, _1)>,
    w: &Tensor<bf16, N>,
    q: &mut Tensor<e4m3, (M, N), (ldq, _1)>,
    scale: &mut Tensor<f32, M>,
    eps: f32,
) {
    at_most(N, D);
    let gr = tile(residual, (1, D), (block.x, 0));
    let h = map((tile(x, (1, D), (block.x, 0)), gr), |x, r| x as f32 + r as f32);
    copy(h, gr);
    let r = map(sum(map(h, |h| h * h)), |s| rsqrt(s / N as f32 + eps));
    let y = map((h, tile(w, D, 0).along(1)), |h, w| h * r * w as f32);
    let most = maximum(map(y, |y| abs(y)));
    let s = map(most, |m| max(m / 448.0, 1.0e-12));
    copy(map(y, |y| y / s), tile(q, (1, D), (block.x, 0)));
    fill(tile(scale, 1, block.x), s);
}

#[test]
fn rows_become_fp8() {
    inputs(rms_quant().def()).set("eps = 0.00001").with("residual", |x| x).near(1e-5, ["M = 5, N = 301"]);
}

/// A product for each matrix of a batch with one matrix for all of them.
#[kernel(arch = 90)]
fn batched_linear<const BM: usize = 128, const BN: usize = 64, const BK: usize = 64>(
    x: &Tensor<bf16, (M, K, B), (ldx, _1, bx)>,
    w: &Tensor<bf16, (N, K), (ldw, _1)>,
    y: &mut Tensor<bf16, (M, N, B), (ldy, _1, by)>,
) {
    let gx = tile(x, (BM, BK, 1), (block.x, _, block.z));
    let gw = tile(w, (BN, BK), (block.y, _));
    let (sx, sw) = (shared::<bf16>((BM, BK)), shared::<bf16>((BN, BK)));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = 2).accumulators((BM, BN), 0.0);
    for k in pipelined(0..gw.size(2), stages = 3, producer = warp) {
        copy(gx[(_, _, 0, k)], sx);
        copy(gw[(_, _, k)], sw);
        gemm(sx, sw, &mut acc);
    }
    copy(map(acc, |x| gelu(x)), tile(y, (BM, BN, 1), (block.x, block.y, block.z))[(_, _, 0)]);
}

#[test]
fn batches_share_weights() {
    inputs(batched_linear().def()).written(["M = 130, N = 70, K = 90, B = 2"]);
}
/// Rows quantised to fp8 in groups of 128.
#[kernel(allow(uncoalesced))]
fn group_quant(
    x: &Tensor<bf16, (M, N), (ldx, _1)>,
    q: &mut Tensor<e4m3, (M, N), (ldq, _1)>,
    s: &mut Tensor<f32, { (M, ceil_div(N, 128)) }, (lds, _1)>,
) {
    let g = map(tile(x, (16, 128), (block.x, block.y)), |x| x as f32);
    let scale = map(maximum(map(g, |x| abs(x)), 1), |m| max(m, 1.0e-4) / 448.0);
    map((g, scale), tile(q, (16, 128), (block.x, block.y)), |x, s| (x / s) as e4m3);
    copy(scale, tile(s, (16, 1), (block.x, block.y)));
}

#[test]
fn groups_become_fp8() {
    inputs(group_quant().def()).near(1e-5, ["M = 19, N = 200"]);
}

/// The mean of as many rows of each sequence as it has.
#[kernel]
fn mean_pool(
    x: &Tensor<f32, (B, T, D), (xb, xt, _1)>,
    lengths: &Tensor<i32, B>,
    y: &mut Tensor<f32, (B, D), (ldy, _1)>,
) {
    let n = lengths[(block.x)];
    let g = tile(x, (1, 16, 64), (block.x, _, block.y));
    let mut total = full::<f32>((1, 64), 0.0);
    for k in 0..ceil_div(n, 16) {
        total += sum(map(g[(0, _, _, k)], |x, at| if at.0 < n { x } else { 0.0 }), 0);
    }
    copy(map(total, |t| t / n as f32), tile(y, (1, 64), (block.x, block.y)));
}

#[test]
fn means_of_sequences() {
    inputs(mean_pool().def()).list("lengths", [17, 40, 1]).written(["B = 3, T = 40, D = 70"]);
}
