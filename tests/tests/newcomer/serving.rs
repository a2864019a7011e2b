//! Kernels of inference: pages, quantisation, samples.

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

/// One query of each head against keys and values in pages; four heads share the keys and values of one.
#[kernel]
fn paged_decode<const D: usize = 64, const P: usize = 16, const G: usize = 4>(
    scale: f32,
    lengths: &Tensor<i32, B>,
    table: &Tensor<i32, (B, T), (ldt, _1)>,
    q: &Tensor<f32, (B, H, D), (qb, qh, _1)>,
    k: &Tensor<f32, (R, P, J, D), (kr, kp, kj, _1)>,
    v: &Tensor<f32, (R, P, J, D), (vr, vp, vj, _1)>,
    o: &mut Tensor<f32, (B, H, D), (ob, oh, _1)>,
) {
    assert(H == G * J);
    assert(H == G * J);
    let q = map(tile(q, (1, G, D), (block.x, block.y, 0))[(0, _, _)], |x| x * scale); // (G, D)
    let length = lengths[(block.x)];
    let mut most = full::<f32>((G, 1), f32::NEG_INFINITY);
    let mut total = full::<f32>((G, 1), 0.0);
    let mut out = full::<f32>((G, D), 0.0);
    for page in 0..ceil_div(length, P) {
        let r = table[(block.x, page)];
        for i in 0..min(P, length - page * P) {
            let kk = tile(k, (1, 1, 1, D), (r, i, block.y, 0))[(0, 0, 0, _)].along(1); // (1, D)
            let vv = tile(v, (1, 1, 1, D), (r, i, block.y, 0))[(0, 0, 0, _)].along(1);
            let s = sum(map((q, kk), |q, k| q * k), 1);
            let next = map((most, s), |a, b| max(a, b));
            total = map((total, most, next, s), |t, m, n, s| t * exp(m - n) + exp(s - n));
            out = map((out, most, next, s, vv), |o, m, n, s, v| o * exp(m - n) + exp(s - n) * v);
            most = next;
        }
    }
    copy(map((out, total), |o, t| o / t), tile(o, (1, G, D), (block.x, block.y, 0))[(0, _, _)]);
}

#[test]
fn decoding_from_pages() {
    inputs(paged_decode().def())
        .list("lengths", [17, 1, 48])
        .below("table", 9)
        .near(1e-3, ["scale = 0.125, B = 3, H = 8, J = 2, T = 3, R = 9"]);
}

/// A product of 8-bit integers with a scale for each row and each column.
#[kernel]
fn int8_linear<const BM: usize = 64, const BN: usize = 64, const BK: usize = 64>(
    x: &Tensor<i8, (M, K), (ldx, _1)>,
    w: &Tensor<i8, (N, K), (ldw, _1)>,
    sx: &Tensor<f32, M>,
    sw: &Tensor<f32, N>,
    y: &mut Tensor<bf16, (M, N), (ldy, _1)>,
) {
    let (gx, gw) = (tile(x, (BM, BK), (block.x, _)), tile(w, (BN, BK), (block.y, _)));
    let (a, b) = (shared::<i8>((BM, BK)), shared::<i8>((BN, BK)));
    let mut acc = tiled_mma::<i8, i32>(warps = 4).accumulators((BM, BN), 0);
    for k in pipelined(0..gx.size(2), stages = 3) {
        copy(gx[(_, _, k)], a);
        copy(gw[(_, _, k)], b);
        gemm(a, b, &mut acc);
    }
    let (rs, cs) = (tile(sx, BM, block.x).along(0), tile(sw, BN, block.y).along(1));
    copy(map((acc, rs, cs), |x, r, c| x as f32 * r * c), tile(y, (BM, BN), (block.x, block.y)));
}

#[test]
fn products_of_bytes() {
    inputs(int8_linear().def()).written(["M = 70, N = 45, K = 100"]);
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

/// A token for each row, drawn with a temperature: the largest of the logits and Gumbel noise.
#[kernel]
fn sample<const W: usize = 512>(
    seed: u32,
    temperature: f32,
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    token: &mut Tensor<i32, M>,
) {
    let row = tile(x, (1, W), (block.x, _));
    let better = |(a, i), (b, j)| if (b > a) | ((b == a) & (j < i)) { (b, j) } else { (a, i) };
    let (mut best, mut at) = (full::<f32>((1, 1), f32::NEG_INFINITY), full::<i32>((1, 1), i32::MAX));
    for k in 0..row.size(2) {
        let noisy = map(row[(_, _, k)], |x, at| {
            let h = ((at.1 as u32) * 2654435761 ^ (at.0 as u32) * 40503 ^ seed) >> 8;
            let u = (h as f32 + 0.5) / 16777216.0;
            (x / temperature - log(-log(u)), at.1)
        });
        let here = reduce(noisy, (f32::NEG_INFINITY, i32::MAX), better, mode = 1);
        (best, at) = map((best, at, here.0, here.1), |a, i, b, j| better((a, i), (b, j)));
    }
    copy(at[(0, _)], tile(token, 1, block.x));
}

#[test]
fn drawn_tokens() {
    inputs(sample().def()).near(1e-6, ["seed = 77, temperature = 0.7, M = 4, N = 700"]);
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
