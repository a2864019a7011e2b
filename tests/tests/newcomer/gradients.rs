//! Gradients: of the weights of experts, and a step that uses them.

use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

/// The gradient of each expert's weights: dw(e) = dy(rows of e)ᵀ · x(rows of e).
#[kernel]
fn experts_dw<const BM: usize = 32, const BN: usize = 32, const BK: usize = 16>(
    offsets: &Tensor<i32, { E + 1 }>,
    dy: &Tensor<bf16, (T, N), (ldd, _1)>,
    x: &Tensor<bf16, (T, K), (ldx, _1)>,
    dw: &mut Tensor<f32, (N, K, E), (ldw, _1, lde)>,
) {
    let (from, to) = (offsets[(block.z)], offsets[(block.z + 1)]);
    let (sd, sx) = (shared::<bf16>((BK, BM)), shared::<bf16>((BK, BN)));
    let mut acc = tiled_mma::<bf16, f32>(warps = 4).accumulators((BM, BN), 0.0);
    for k in 0..ceil_div(to - from, BK) {
        let rows = shift(tile(dy, (BK, BM), (0, block.x)), (from + k * BK, 0));
        let cols = shift(tile(x, (BK, BN), (0, block.y)), (from + k * BK, 0));
        copy(map(rows, |d, at| if at.0 < to { d } else { 0.0 }), sd);
        copy(cols, sx);
        gemm(permute(sd, (1, 0)), permute(sx, (1, 0)), &mut acc);
    }
    copy(acc, tile(dw, (BM, BN, 1), (block.x, block.y, block.z))[(_, _, 0)]);
}

#[test]
fn experts_have_gradients() {
    inputs(experts_dw().def())
        .list("offsets", [0, 17, 17, 18, 60])
        .written(["E = 4, T = 60, N = 41, K = 33"]);
}

/// Adam, whose moments are kept in bf16, rounded at random.
#[kernel]
fn adam_bf16(
    lr: f32,
    beta1: f32,
    beta2: f32,
    eps: f32,
    step: u32,
    g: &Tensor<bf16, N>,
    m: &mut Tensor<bf16, N>,
    v: &mut Tensor<bf16, N>,
    p: &mut Tensor<f32, N>,
) {
    let part = |t| tile(t, 1024, block.x);
    let (g, m, v, p) = (part(g), part(m), part(v), part(p));
    let round_randomly = |x, at, salt| {
        let h = (at as u32 * 2654435761) ^ (step * 40503) ^ salt;
        let h = (h ^ (h >> 15)) * 2246822519;
        let noise = (h ^ (h >> 13)) & 65535;
        bits::<f32>((bits::<u32>(x) + noise) & 4294901760) as bf16
    };
    let (nm, nv, np) = map((g, m, v, p), |g, m, v, p, at| {
        let g = g as f32;
        let m = beta1 * (m as f32) + (1.0 - beta1) * g;
        let v = beta2 * (v as f32) + (1.0 - beta2) * g * g;
        (round_randomly(m, at.0, 1), round_randomly(v, at.0, 2), p - lr * m / (sqrt(v) + eps))
    });
    m = nm;
    v = nv;
    p = np;
}

#[test]
fn moments_are_rounded_at_random() {
    inputs(adam_bf16().def())
        .set("lr = 0.1, beta1 = 0.9, beta2 = 0.99, eps = 0.001, step = 7")
        .with("m", |x| x)
        .with("v", f64::abs)
        .with("p", |x| x)
        .near(1e-4, ["N = 1501"]);
}
