//! Gradients: attention, norms, experts, and a step that uses them.

use crate::{close, drawn, every, generated, near, written};
use tilewright::prelude::*;
use tilewright_sim::Arg;

/// Gradients of keys and values of attention: a block for each tile of keys.
#[kernel]
fn attention_dkv<const BM: usize = 32, const BN: usize = 64, const D: usize = 64>(
    scale: f32,
    q: &Tensor<bf16, (T, D, H), (ldq, _1, hq)>,
    k: &Tensor<bf16, (S, D, H), (ldk, _1, hk)>,
    v: &Tensor<bf16, (S, D, H), (ldv, _1, hv)>,
    dout: &Tensor<bf16, (T, D, H), (ldo, _1, ho)>,
    lse: &Tensor<f32, (T, H)>,
    delta: &Tensor<f32, (T, H)>,
    dk: &mut Tensor<f32, (S, D, H), (lddk, _1, hdk)>,
    dv: &mut Tensor<f32, (S, D, H), (lddv, _1, hdv)>,
) {
    let h = block.y;
    let (sk, sv) = (shared::<bf16>((BN, D)), shared::<bf16>((BN, D)));
    let (sq, sd) = (shared::<bf16>((BM, D)), shared::<bf16>((BM, D)));
    copy(tile(k, (BN, D, 1), (block.x, 0, h))[(_, _, 0)], sk);
    copy(tile(v, (BN, D, 1), (block.x, 0, h))[(_, _, 0)], sv);
    let gq = tile(q, (BM, D, 1), (_, 0, h));
    let gd = tile(dout, (BM, D, 1), (_, 0, h));
    let gl = tile(lse, (BM, 1), (_, h));
    let ge = tile(delta, (BM, 1), (_, h));
    let mma = tiled_mma::<bf16, f32>(warps = 4);
    let mut acc_k = mma.accumulators((BN, D), 0.0);
    let mut acc_v = mma.accumulators((BN, D), 0.0);
    for i in pipelined(0..gq.size(3), stages = 2) {
        copy(gq[(_, _, 0, i)], sq);
        copy(gd[(_, _, 0, i)], sd);
        let mut s = mma.accumulators((BN, BM), 0.0);
        gemm(sk, sq, &mut s);
        let l = gl[(_, 0, i)].along(1);
        let e = ge[(_, 0, i)].along(1);
        let p = map((s, l), |s, l, at| if (at.0 < S) & (at.1 < T) { exp(s * scale - l) } else { 0.0 });
        let mut dp = mma.accumulators((BN, BM), 0.0);
        gemm(sv, sd, &mut dp);
        let ds = map((p, dp, e), |p, dp, e| p * (dp - e) * scale);
        gemm(map(p, |p| p as bf16), permute(sd, (1, 0)), &mut acc_v);
        gemm(map(ds, |d| d as bf16), permute(sq, (1, 0)), &mut acc_k);
    }
    copy(acc_k, tile(dk, (BN, D, 1), (block.x, 0, h))[(_, _, 0)]);
    copy(acc_v, tile(dv, (BN, D, 1), (block.x, 0, h))[(_, _, 0)]);
}

#[test]
#[allow(clippy::needless_range_loop)]
fn attention_has_gradients() {
    let (t, s, d, h) = (45, 70, 64, 2);
    let bf = |x: Vec<f32>| x.into_iter().map(|x| bf16::from_f32(x / 4.0)).collect::<Vec<_>>();
    let (q, k, v, g) =
        (bf(drawn(t * d * h, 1)), bf(drawn(s * d * h, 2)), bf(drawn(s * d * h, 3)), bf(drawn(t * d * h, 4)));
    let (mut lse, mut delta) = (vec![0f32; t * h], vec![0f32; t * h]);
    let (mut dk, mut dv) = (vec![0f64; s * d * h], vec![0f64; s * d * h]);
    let row = |x: &[bf16], n: usize, head: usize, i: usize| -> Vec<f64> {
        x[(head * n + i) * d..][..d].iter().map(|x| x.to_f32() as f64).collect()
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for head in 0..h {
        for i in 0..t {
            let (qi, gi) = (row(&q, t, head, i), row(&g, t, head, i));
            let z: Vec<f64> = (0..s).map(|j| dot(&qi, &row(&k, s, head, j)) / 8.0).collect();
            let l = z.iter().map(|z| z.exp()).sum::<f64>().ln();
            let dp: Vec<f64> = (0..s).map(|j| dot(&gi, &row(&v, s, head, j))).collect();
            let e = (0..s).map(|j| (z[j] - l).exp() * dp[j]).sum::<f64>();
            (lse[head * t + i], delta[head * t + i]) = (l as f32, e as f32);
            for j in 0..s {
                let p = (z[j] - l).exp();
                for c in 0..d {
                    dv[(head * s + j) * d + c] += p * gi[c];
                    dk[(head * s + j) * d + c] += p * (dp[j] - e) / 8.0 * qi[c];
                }
            }
        }
    }
    let heads = |of: Arg, n| of.strides([d, 1, n * d]);
    let args = [
        Arg::number(0.125f32),
        heads(Arg::tensor(&q, [t, d, h]), t),
        heads(Arg::tensor(&k, [s, d, h]), s),
        heads(Arg::tensor(&v, [s, d, h]), s),
        heads(Arg::tensor(&g, [t, d, h]), t),
        Arg::tensor(&lse, [t, h]),
        Arg::tensor(&delta, [t, h]),
        heads(Arg::output::<f32>([s, d, h]), s),
        heads(Arg::output::<f32>([s, d, h]), s),
    ];
    for outcome in every(generated!(attention_dkv()), &args) {
        close(&outcome.get::<f32>("dk").unwrap(), &dk, 0.02);
        close(&outcome.get::<f32>("dv").unwrap(), &dv, 0.02);
    }
}

/// The gradient of group norm for one group of a sample.
#[kernel]
fn group_norm_dx<const W: usize = 1024>(
    x: &Tensor<f32, (B, G, N), (xb, xg, _1)>,
    dy: &Tensor<f32, (B, G, N), (yb, yg, _1)>,
    mean: &Tensor<f32, (B, G)>,
    rstd: &Tensor<f32, (B, G)>,
    dx: &mut Tensor<f32, (B, G, N), (db, dg, _1)>,
) {
    let gx = tile(x, (1, 1, W), (block.x, block.y, _))[(0, 0, _, _)];
    let gy = tile(dy, (1, 1, W), (block.x, block.y, _))[(0, 0, _, _)];
    let to = tile(dx, (1, 1, W), (block.x, block.y, _))[(0, 0, _, _)];
    let (m, r) = (mean[(block.x, block.y)], rstd[(block.x, block.y)]);
    let mut s1 = full::<f32>((1), 0.0);
    let mut s2 = full::<f32>((1), 0.0);
    for k in 0..gx.size(1) {
        s1 += sum(gy[(_, k)]);
        s2 += sum(gy[(_, k)] * (gx[(_, k)] - m) * r);
    }
    for k in 0..gx.size(1) {
        let hat = (gx[(_, k)] - m) * r;
        copy(r * (gy[(_, k)] - s1 / N as f32 - hat * s2 / N as f32), to[(_, k)]);
    }
}

#[test]
fn groups_have_gradients() {
    for (b, g, n) in [(2, 3, 1500), (1, 1, 1)] {
        let (x, dy) = (drawn(b * g * n, 1), drawn(b * g * n, 2));
        let (mut mean, mut rstd, mut wanted) = (vec![0f32; b * g], vec![0f32; b * g], vec![]);
        for i in 0..b * g {
            let of = |x: &[f32]| x[i * n..][..n].iter().map(|x| *x as f64).collect::<Vec<f64>>();
            let (x, dy) = (of(&x), of(&dy));
            let m = x.iter().sum::<f64>() / n as f64;
            let r = 1.0 / (x.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / n as f64 + 1e-2).sqrt();
            (mean[i / g + i % g * b], rstd[i / g + i % g * b]) = (m as f32, r as f32);
            let s1 = dy.iter().sum::<f64>() / n as f64;
            let s2 = dy.iter().zip(&x).map(|(d, x)| d * (x - m) * r).sum::<f64>() / n as f64;
            wanted.extend((0..n).map(|j| r * (dy[j] - s1 - (x[j] - m) * r * s2)));
        }
        let all = |of: Arg| of.strides([g * n, n, 1]);
        let args = [
            all(Arg::tensor(&x, [b, g, n])),
            all(Arg::tensor(&dy, [b, g, n])),
            Arg::tensor(&mean, [b, g]),
            Arg::tensor(&rstd, [b, g]),
            all(Arg::output::<f32>([b, g, n])),
        ];
        written(group_norm_dx().def(), &args);
    }
}

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
    let (t, n, k, e) = (60, 41, 33, 4);
    let offsets = [0i32, 17, 17, 18, 60];
    let bf = |x: Vec<f32>| x.into_iter().map(|x| bf16::from_f32(x / 4.0)).collect::<Vec<_>>();
    let (dy, x) = (bf(drawn(t * n, 1)), bf(drawn(t * k, 2)));

    let args = [
        Arg::tensor(&offsets, [e + 1]),
        Arg::tensor(&dy, [t, n]).strides([n, 1]),
        Arg::tensor(&x, [t, k]).strides([k, 1]),
        Arg::output::<f32>([n, k, e]).strides([k, 1, n * k]),
    ];
    written(experts_dw().def(), &args);
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
    let n = 1501;
    let bf = |x: Vec<f32>| x.into_iter().map(bf16::from_f32).collect::<Vec<_>>();
    let (g, m, p) = (bf(drawn(n, 1)), bf(drawn(n, 2)), drawn(n, 3));
    let v = bf(drawn(n, 4).into_iter().map(f32::abs).collect());
    let args = [
        Arg::number(0.1f32),
        Arg::number(0.9f32),
        Arg::number(0.99f32),
        Arg::number(1e-3f32),
        Arg::number(7u32),
        Arg::tensor(&g, [n]),
        Arg::in_out(&m, [n]),
        Arg::in_out(&v, [n]),
        Arg::in_out(&p, [n]),
    ];
    near(adam_bf16().def(), &args, 1e-4);
}
