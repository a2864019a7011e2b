//! Kernels of inference: attention from pages and in windows, quantisation, samples.

use crate::{below, drawn, generated, near, right, rows, rows_out, written};
use tilewright::prelude::*;
use tilewright_sim::Arg;

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
    let (m, n) = (5, 301);
    let bf = |x: Vec<f32>| x.into_iter().map(bf16::from_f32).collect::<Vec<_>>();
    let (x, r, w) = (bf(drawn(m * n, 1)), bf(drawn(m * n, 2)), bf(drawn(n, 3)));
    let args = [
        Arg::tensor(&x, [m, n]).strides([n, 1]),
        Arg::in_out(&r, [m, n]).strides([n, 1]),
        Arg::tensor(&w, [n]),
        Arg::output::<e4m3>([m, n]).strides([n, 1]),
        Arg::output::<f32>([m]),
        Arg::number(1e-5f32),
    ];
    near(rms_quant().def(), &args, 1e-5);
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
    let (b, h, j, d, p, r) = (3, 8, 2, 64, 16, 9);
    let lengths = [17i32, 1, 48];
    let table = [3i32, 7, 0, 1, 0, 0, 8, 2, 5];
    let (q, k, v) = (drawn(b * h * d, 1), drawn(r * p * j * d, 2), drawn(r * p * j * d, 3));
    let mut wanted = vec![];
    for i in 0..b {
        for head in 0..h {
            let q = &q[(i * h + head) * d..][..d];
            let at = |n: usize| ((table[i * 3 + n / p] as usize * p + n % p) * j + head / 4) * d;
            let w: Vec<f64> = (0..lengths[i] as usize)
                .map(|n| {
                    (q.iter().zip(&k[at(n)..][..d]).map(|(a, b)| *a as f64 * *b as f64).sum::<f64>() / 8.0)
                        .exp()
                })
                .collect();
            let t: f64 = w.iter().sum();
            wanted.extend((0..d).map(|c| (0..w.len()).map(|n| w[n] * v[at(n) + c] as f64).sum::<f64>() / t));
        }
    }
    let args = [
        Arg::number(0.125f32),
        Arg::tensor(&lengths, [b]),
        Arg::tensor(&table, [b, 3]).strides([3, 1]),
        Arg::tensor(&q, [b, h, d]).strides([h * d, d, 1]),
        Arg::tensor(&k, [r, p, j, d]).strides([p * j * d, j * d, d, 1]),
        Arg::tensor(&v, [r, p, j, d]).strides([p * j * d, j * d, d, 1]),
        Arg::output::<f32>([b, h, d]).strides([h * d, d, 1]),
    ];
    near(paged_decode().def(), &args, 1e-3);
}

/// Attention to at most `window` keys before each query.
#[kernel]
fn window_attention<const BM: usize = 64, const BN: usize = 32, const D: usize = 64>(
    window: i32,
    scale: f32,
    q: &Tensor<bf16, (T, D, H), (ldq, _1, hq)>,
    k: &Tensor<bf16, (T, D, H), (ldk, _1, hk)>,
    v: &Tensor<bf16, (T, D, H), (ldv, _1, hv)>,
    o: &mut Tensor<bf16, (T, D, H), (ldo, _1, ho)>,
) {
    let (sq, sk, sv) = (shared::<bf16>((BM, D)), shared::<bf16>((BN, D)), shared::<bf16>((BN, D)));
    let gk = tile(k, (BN, D, 1), (_, 0, block.y));
    let gv = tile(v, (BN, D, 1), (_, 0, block.y));
    copy(tile(q, (BM, D, 1), (block.x, 0, block.y))[(_, _, 0)], sq);
    let mma = tiled_mma::<bf16, f32>(warps = 4);
    let mut out = mma.accumulators((BM, D), 0.0);
    let mut most = full::<f32>((BM, 1), f32::MIN);
    let mut total = full::<f32>((BM, 1), 0.0);
    let first = max(0, (block.x * BM - window + 1) / BN);
    let end = min(gk.size(3), ceil_div((block.x + 1) * BM, BN));
    for n in pipelined(first..end, stages = 2) {
        copy(gk[(_, _, 0, n)], sk);
        copy(gv[(_, _, 0, n)], sv);
        let mut s = mma.accumulators((BM, BN), 0.0);
        gemm(sq, sk, &mut s);
        let s = map(
            s,
            |s, at| if (at.1 <= at.0) & (at.0 - at.1 < window) { s * scale } else { f32::NEG_INFINITY },
        );
        let next = map((most, maximum(s, 1)), |a, b| max(a, b));
        let p = map((s, next), |s, m| exp(s - m));
        total = map((total, most, next, sum(p, 1)), |t, m, n, p| t * exp(m - n) + p);
        out = map((out, most, next), |o, m, n| o * exp(m - n));
        gemm(map(p, |p| p as bf16), permute(sv, (1, 0)), &mut out);
        most = next;
    }
    copy(map((out, total), |o, t| o / t), tile(o, (BM, D, 1), (block.x, 0, block.y))[(_, _, 0)]);
}

#[test]
fn attention_in_windows() {
    let (t, d, h, w) = (140, 64, 1, 40);
    let bf = |x: Vec<f32>| x.into_iter().map(|x| bf16::from_f32(x / 2.0)).collect::<Vec<_>>();
    let (q, k, v) = (bf(drawn(t * d * h, 1)), bf(drawn(t * d * h, 2)), bf(drawn(t * d * h, 3)));
    let s = |a: Arg| a.strides([d, 1, t * d]);
    let args = [
        Arg::number(w),
        Arg::number(0.125f32),
        s(Arg::tensor(&q, [t, d, h])),
        s(Arg::tensor(&k, [t, d, h])),
        s(Arg::tensor(&v, [t, d, h])),
        s(Arg::output::<bf16>([t, d, h])),
    ];
    near(window_attention().def(), &args, 2e-3);
}

/// Rotary embedding of halves, by tables, at positions of their own.
#[kernel]
fn rope_neox<const D: usize = 64>(
    x: &Tensor<bf16, (T, H, D), (st, sh, _1)>,
    cosines: &Tensor<f32, { (P, D / 2) }, (ldc, _1)>,
    sines: &Tensor<f32, { (P, D / 2) }, (lds, _1)>,
    positions: &Tensor<i32, T>,
    y: &mut Tensor<bf16, (T, H, D), (yt, yh, _1)>,
) {
    let p = positions[(block.x)];
    let c = tile(cosines, (1, D / 2), (p, 0));
    let s = tile(sines, (1, D / 2), (p, 0));
    let a = tile(x, (1, 8, D / 2), (block.x, block.y, 0))[(0, _, _)];
    let b = tile(x, (1, 8, D / 2), (block.x, block.y, 1))[(0, _, _)];
    let ya = tile(y, (1, 8, D / 2), (block.x, block.y, 0))[(0, _, _)];
    let yb = tile(y, (1, 8, D / 2), (block.x, block.y, 1))[(0, _, _)];
    let (u, w) = map((a, b, c, s), |a, b, c, s| {
        let (a, b) = (a as f32, b as f32);
        (a * c - b * s, b * c + a * s)
    });
    copy(u, ya);
    copy(w, yb);
}

#[test]
fn halves_rotate() {
    let (t, h, d, p) = (5, 11, 64, 30);
    let x: Vec<bf16> = drawn(t * h * d, 1).into_iter().map(bf16::from_f32).collect();
    let (c, s) = (drawn(p * d / 2, 2), drawn(p * d / 2, 3));
    let pos = below(p as i32, t, 4);
    let args = [
        Arg::tensor(&x, [t, h, d]).strides([h * d, d, 1]),
        Arg::tensor(&c, [p, d / 2]).strides([d / 2, 1]),
        Arg::tensor(&s, [p, d / 2]).strides([d / 2, 1]),
        Arg::tensor(&pos, [t]),
        Arg::output::<bf16>([t, h, d]).strides([h * d, d, 1]),
    ];
    written(rope_neox().def(), &args);
}

/// A causal convolution of each channel, then silu.
#[kernel]
fn causal_conv<const W: usize = 4>(
    x: &Tensor<f32, (B, C, L), (xb, xc, _1)>,
    w: &Tensor<f32, (C, W), (ldw, _1)>,
    bias: &Tensor<f32, C>,
    y: &mut Tensor<f32, (B, C, L), (yb, yc, _1)>,
) {
    let (b, c) = walk((B, C), block.y);
    let g = tile(x, (1, 1, 256), (b, c, block.x))[(0, 0, _)];
    let mut acc = full::<f32>((256), 0.0);
    acc += bias[(c)];
    for i in 0..W {
        acc = map((acc, shift(g, i - W + 1)), |a, x| a + w[(c, i)] * x);
    }
    copy(map(acc, |x| silu(x)), tile(y, (1, 1, 256), (b, c, block.x))[(0, 0, _)]);
}

#[test]
fn causal_convolutions() {
    let (b, c, l, w) = (2, 3, 300, 4);
    let (x, k, bias) = (drawn(b * c * l, 1), drawn(c * w, 2), drawn(c, 3));
    let mut wanted = vec![];
    for i in 0..b * c {
        for t in 0..l {
            let mut s = bias[i % c] as f64;
            for j in 0..w {
                if t + j + 1 >= w {
                    s += k[(i % c) * w + j] as f64 * x[i * l + t + j + 1 - w] as f64;
                }
            }
            wanted.push(s / (1.0 + (-s).exp()));
        }
    }
    let st = |a: Arg| a.strides([c * l, l, 1]);
    let args = [
        st(Arg::tensor(&x, [b, c, l])),
        rows(&k, c, w),
        Arg::tensor(&bias, [c]),
        st(Arg::output::<f32>([b, c, l])),
    ];
    right(generated!(causal_conv()), &args, "y", &wanted, 1e-4);
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
    let (m, n, k) = (70, 45, 100);
    let i8s = |n, s| below(255, n, s).iter().map(|x| (x - 127) as i8).collect::<Vec<i8>>();
    let (x, w) = (i8s(m * k, 1), i8s(n * k, 2));
    let (sx, sw) = (drawn(m, 3), drawn(n, 4));
    let args = [
        Arg::tensor(&x, [m, k]).strides([k, 1]),
        Arg::tensor(&w, [n, k]).strides([k, 1]),
        Arg::tensor(&sx, [m]),
        Arg::tensor(&sw, [n]),
        Arg::output::<bf16>([m, n]).strides([n, 1]),
    ];
    written(int8_linear().def(), &args);
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
    let (m, n, k, b) = (130, 70, 90, 2);
    let bf = |x: Vec<f32>| x.into_iter().map(|x| bf16::from_f32(x / 2.0)).collect::<Vec<_>>();
    let (x, w) = (bf(drawn(m * k * b, 1)), bf(drawn(n * k, 2)));
    let args = [
        Arg::tensor(&x, [m, k, b]).strides([k, 1, m * k]),
        Arg::tensor(&w, [n, k]).strides([k, 1]),
        Arg::output::<bf16>([m, n, b]).strides([n, 1, m * n]),
    ];
    written(batched_linear().def(), &args);
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
    let (m, n) = (19, 200);
    let x: Vec<bf16> = drawn(m * n, 1).into_iter().map(bf16::from_f32).collect();
    let args = [
        Arg::tensor(&x, [m, n]).strides([n, 1]),
        Arg::output::<e4m3>([m, n]).strides([n, 1]),
        rows_out(m, 2),
    ];
    near(group_quant().def(), &args, 1e-5);
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
    let (m, n) = (4, 700);
    let x = drawn(m * n, 1);
    near(
        sample().def(),
        &[Arg::number(77u32), Arg::number(0.7f32), rows(&x, m, n), Arg::output::<i32>([m])],
        1e-6,
    );
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
    let (b, t, d) = (3, 40, 70);
    let lengths = [17i32, 40, 1];
    let x = drawn(b * t * d, 1);
    written(
        mean_pool().def(),
        &[Arg::tensor(&x, [b, t, d]).strides([t * d, d, 1]), Arg::tensor(&lengths, [b]), rows_out(b, d)],
    );
}
