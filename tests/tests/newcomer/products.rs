//! Products of matrices, and similar operations.

use crate::{drawn, generated, near, right, rows, rows_out, written};
use tilewright::prelude::*;
use tilewright_sim::Arg;

/// C = A·Bᵀ for each matrix of a batch.
#[kernel]
fn batched(a: &Tensor<f32, (M, K, L)>, b: &Tensor<f32, (N, K, L)>, c: &mut Tensor<f32, (M, N, L)>) {
    let a = tile(a, (32, 8, 1), (block.x, _, block.z))[(_, _, 0, _)];
    let b = tile(b, (32, 8, 1), (block.y, _, block.z))[(_, _, 0, _)];
    let (sa, sb) = (shared::<f32>((32, 8)), shared::<f32>((32, 8)));
    let mut acc = full::<f32>((32, 32), 0.0);
    for k in pipelined(0..a.size(2), stages = 2) {
        copy(a[(_, _, k)], sa);
        copy(b[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (32, 32, 1), (block.x, block.y, block.z))[(_, _, 0)]);
}

fn product(a: &[f32], b: &[f32], m: usize, n: usize) -> Vec<f64> {
    let k = a.len() / m;
    let dot = |at: usize| (0..k).map(|p| f64::from(a[at % m + p * m]) * f64::from(b[at / m + p * n])).sum();
    (0..m * n).map(dot).collect()
}

#[test]
fn batches() {
    for [m, n, k, l] in [[32, 32, 16, 2], [45, 33, 13, 3], [1, 1, 1, 1]] {
        let (a, b) = (drawn(m * k * l, 1), drawn(n * k * l, 2));

        let args = [Arg::tensor(&a, [m, k, l]), Arg::tensor(&b, [n, k, l]), Arg::output::<f32>([m, n, l])];
        written(batched().def(), &args);
    }
}

/// C = silu(X·Gᵀ) ⊙ X·Uᵀ: the first half of a gated feed-forward layer.
#[kernel]
fn gated(
    x: &Tensor<f32, (M, K)>,
    g: &Tensor<f32, (N, K)>,
    u: &Tensor<f32, (N, K)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    let x = tile(x, (32, 8), (block.x, _));
    let (g, u) = (tile(g, (32, 8), (block.y, _)), tile(u, (32, 8), (block.y, _)));
    let (sx, sg, su) = (shared::<f32>((32, 8)), shared::<f32>((32, 8)), shared::<f32>((32, 8)));
    let mut gate = full::<f32>((32, 32), 0.0);
    let mut up = full::<f32>((32, 32), 0.0);
    for k in 0..x.size(2) {
        copy(x[(_, _, k)], sx);
        copy(g[(_, _, k)], sg);
        copy(u[(_, _, k)], su);
        gemm(sx, sg, &mut gate);
        gemm(sx, su, &mut up);
    }
    copy(map((gate, up), |g, u| silu(g) * u), tile(c, (32, 32), (block.x, block.y)));
}

#[test]
fn gates() {
    let (m, n, k) = (40, 37, 21);
    let (x, g, u) = (drawn(m * k, 3), drawn(n * k, 4), drawn(n * k, 5));

    let args = [
        Arg::tensor(&x, [m, k]),
        Arg::tensor(&g, [n, k]),
        Arg::tensor(&u, [n, k]),
        Arg::output::<f32>([m, n]),
    ];
    written(gated().def(), &args);
}

/// C = A·Bᵀ with K split over blocks, which add to C atomically.
#[kernel]
fn split_k<const Q: usize = 32>(
    a: &Tensor<f32, (M, K)>,
    b: &Tensor<f32, (N, K)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    let a = tile(tile(a, (32, Q), (block.x, block.z)), (32, 8), (0, _));
    let b = tile(tile(b, (32, Q), (block.y, block.z)), (32, 8), (0, _));
    let (sa, sb) = (shared::<f32>((32, 8)), shared::<f32>((32, 8)));
    let mut acc = full::<f32>((32, 32), 0.0);
    for k in pipelined(0..a.size(2), stages = 2) {
        copy(a[(_, _, k)], sa);
        copy(b[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (32, 32), (block.x, block.y)), how = "atomic_add");
}

#[test]
fn split_sums() {
    for (m, n, k) in [(32, 32, 64), (33, 40, 75)] {
        let (a, b) = (drawn(m * k, 6), drawn(n * k, 7));
        let args =
            [Arg::tensor(&a, [m, k]), Arg::tensor(&b, [n, k]), Arg::in_out(&vec![0.0f32; m * n], [m, n])];
        right(generated!(split_k()), &args, "c", &product(&a, &b, m, n), 1e-4);
    }
}

/// C = min over k of A + B: shortest paths of two legs.
#[kernel]
fn min_plus(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    let (a, b) = (tile(a, (32, 8), (block.x, _)), tile(b, (32, 8), (block.y, _)));
    let (sa, sb) = (shared::<f32>((32, 8)), shared::<f32>((32, 8)));
    let mut least = full::<f32>((32, 32), f32::INFINITY);
    for k in 0..a.size(2) {
        copy(a[(_, _, k)], sa, fill = f32::INFINITY);
        copy(b[(_, _, k)], sb, fill = f32::INFINITY);
        for p in unroll(0..8) {
            least = map((least, sa[(_, p)].along(0), sb[(_, p)].along(1)), |c, a, b| min(c, a + b));
        }
    }
    copy(least, tile(c, (32, 32), (block.x, block.y)));
}

#[test]
fn shortest_legs() {
    for (m, n, k) in [(32, 32, 8), (35, 9, 21)] {
        let (a, b) = (drawn(m * k, 8), drawn(n * k, 9));

        let args = [Arg::tensor(&a, [m, k]), Arg::tensor(&b, [n, k]), Arg::output::<f32>([m, n])];
        written(min_plus().def(), &args);
    }
}

/// Complex product of matrices, C = A·Bᵀ, real parts first.
#[kernel(allow(uncoalesced))]
fn complex_matmul(a: &Tensor<f32, (_2, M, K)>, b: &Tensor<f32, (_2, N, K)>, c: &mut Tensor<f32, (_2, M, N)>) {
    let (a, b) = (tile(a, (2, 32, 8), (0, block.x, _)), tile(b, (2, 32, 8), (0, block.y, _)));
    let c = tile(c, (2, 32, 32), (0, block.x, block.y));
    let (ar, ai, minus) = (shared::<f32>((32, 8)), shared::<f32>((32, 8)), shared::<f32>((32, 8)));
    let (br, bi) = (shared::<f32>((32, 8)), shared::<f32>((32, 8)));
    let mut re = full::<f32>((32, 32), 0.0);
    let mut im = full::<f32>((32, 32), 0.0);
    for k in 0..a.size(3) {
        copy(a[(0, _, _, k)], ar);
        copy(a[(1, _, _, k)], ai);
        copy(b[(0, _, _, k)], br);
        copy(b[(1, _, _, k)], bi);
        map(ai, minus, |x| -x);
        gemm(ar, br, &mut re);
        gemm(minus, bi, &mut re);
        gemm(ar, bi, &mut im);
        gemm(ai, br, &mut im);
    }
    copy(re, c[(0, _, _)]);
    copy(im, c[(1, _, _)]);
}

#[test]
fn complex_matrices() {
    let (m, n, k) = (33, 20, 13);
    let (a, b) = (drawn(2 * m * k, 10), drawn(2 * n * k, 11));

    let args = [Arg::tensor(&a, [2, m, k]), Arg::tensor(&b, [2, n, k]), Arg::output::<f32>([2, m, n])];
    written(complex_matmul().def(), &args);
}

/// The forces of all bodies on each: places and masses are rows of four.
#[kernel(allow(uncoalesced))]
fn n_body(p: &Tensor<f32, (_4, N)>, f: &mut Tensor<f32, (_3, N)>) {
    let own = tile(p, (4, 64), (0, block.x));
    let all = tile(p, (4, 32), (0, _));
    let mut fx = full::<f32>((64, 1), 0.0);
    let mut fy = full::<f32>((64, 1), 0.0);
    let mut fz = full::<f32>((64, 1), 0.0);
    for j in 0..all.size(2) {
        let other = all[(_, _, j)];
        let here = (own[(0, _)].along(0), own[(1, _)].along(0), own[(2, _)].along(0));
        let there =
            (other[(0, _)].along(1), other[(1, _)].along(1), other[(2, _)].along(1), other[(3, _)].along(1));
        let (x, y, z) =
            map((here.0, here.1, here.2, there.0, there.1, there.2, there.3), |x, y, z, u, v, w, m| {
                let (dx, dy, dz) = (u - x, v - y, w - z);
                let r = rsqrt(dx * dx + dy * dy + dz * dz + 0.01);
                let s = m * r * r * r;
                (s * dx, s * dy, s * dz)
            });
        fx += sum(x, 1);
        fy += sum(y, 1);
        fz += sum(z, 1);
    }
    let f = tile(f, (3, 64), (0, block.x));
    copy(fx[(_, 0)], f[(0, _)]);
    copy(fy[(_, 0)], f[(1, _)]);
    copy(fz[(_, 0)], f[(2, _)]);
}

#[test]
fn bodies_attract() {
    for n in [64, 50, 131] {
        let p = drawn(4 * n, 12);
        written(n_body().def(), &[Arg::tensor(&p, [4, n]), Arg::output::<f32>([3, n])]);
    }
}

/// Attention of one head: softmax(Q·Kᵀ / √D)·V, any number of queries and keys, rows of D elements.
#[kernel(allow(bank_conflicts))]
fn attention<const D: usize = 32>(
    q: &Tensor<f32, (S, D), (ldq, _1)>,
    k: &Tensor<f32, (T, D), (ldk, _1)>,
    v: &Tensor<f32, (T, D), (ldv, _1)>,
    o: &mut Tensor<f32, (S, D), (ldo, _1)>,
) {
    let (sq, sk) = (shared::<f32>((32, D)), shared::<f32>((32, D)));
    let (sv, sp) = (shared::<f32>((32, D)), shared::<f32>((32, 32)));
    copy(tile(q, (32, D), (block.x, 0)), sq);
    let (k, v) = (tile(k, (32, D), (_, 0)), tile(v, (32, D), (_, 0)));
    let mut out = full::<f32>((32, D), 0.0);
    let mut most = full::<f32>((32, 1), f32::NEG_INFINITY);
    let mut total = full::<f32>((32, 1), 0.0);
    for j in 0..k.size(2) {
        copy(k[(_, _, j)], sk);
        copy(v[(_, _, j)], sv);
        let mut s = full::<f32>((32, 32), 0.0);
        gemm(sq, sk, &mut s);
        s = map(s, |x, at| if at.1 < T { x / sqrt(D as f32) } else { f32::NEG_INFINITY });
        let next = map((most, maximum(s, 1)), |a, b| max(a, b));
        let p = map((s, next), |x, n| exp(x - n));
        total = map((total, most, next, sum(p, 1)), |t, m, n, h| t * exp(m - n) + h);
        out = map((out, most, next), |o, m, n| o * exp(m - n));
        most = next;
        copy(p, sp);
        gemm(sp, permute(sv, (1, 0)), &mut out);
    }
    copy(map((out, total), |o, t| o / t), tile(o, (32, D), (block.x, 0)));
}

/// The same for causal attention: a query sees the keys up to its own; tiles that it does not see are not
/// visited.
#[kernel(allow(bank_conflicts))]
fn causal_attention<const D: usize = 32>(
    q: &Tensor<f32, (S, D), (ldq, _1)>,
    k: &Tensor<f32, (S, D), (ldk, _1)>,
    v: &Tensor<f32, (S, D), (ldv, _1)>,
    o: &mut Tensor<f32, (S, D), (ldo, _1)>,
) {
    let (sq, sk) = (shared::<f32>((32, D)), shared::<f32>((32, D)));
    let (sv, sp) = (shared::<f32>((32, D)), shared::<f32>((32, 32)));
    copy(tile(q, (32, D), (block.x, 0)), sq);
    let (k, v) = (tile(k, (32, D), (_, 0)), tile(v, (32, D), (_, 0)));
    let mut out = full::<f32>((32, D), 0.0);
    let mut most = full::<f32>((32, 1), f32::NEG_INFINITY);
    let mut total = full::<f32>((32, 1), 0.0);
    for j in 0..block.x + 1 {
        copy(k[(_, _, j)], sk);
        copy(v[(_, _, j)], sv);
        let mut s = full::<f32>((32, 32), 0.0);
        gemm(sq, sk, &mut s);
        s = map(s, |x, at| if at.1 <= at.0 { x / sqrt(D as f32) } else { f32::NEG_INFINITY });
        let next = map((most, maximum(s, 1)), |a, b| max(a, b));
        let p = map((s, next), |x, n| exp(x - n));
        total = map((total, most, next, sum(p, 1)), |t, m, n, h| t * exp(m - n) + h);
        out = map((out, most, next), |o, m, n| o * exp(m - n));
        most = next;
        copy(p, sp);
        gemm(sp, permute(sv, (1, 0)), &mut out);
    }
    copy(map((out, total), |o, t| o / t), tile(o, (32, D), (block.x, 0)));
}

#[test]
fn attends() {
    let d = 32;
    for (s, t) in [(32, 64), (45, 33), (1, 1)] {
        let (q, k, v) = (drawn(s * d, 13), drawn(t * d, 14), drawn(t * d, 15));
        let args = [rows(&q, s, d), rows(&k, t, d), rows(&v, t, d), rows_out(s, d)];
        near(attention().def(), &args, 1e-3);
        let (k, v) = (drawn(s * d, 16), drawn(s * d, 17));
        let args = [rows(&q, s, d), rows(&k, s, d), rows(&v, s, d), rows_out(s, d)];
        near(causal_attention().def(), &args, 1e-3);
    }
}
