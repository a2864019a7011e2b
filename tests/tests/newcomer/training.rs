//! Losses, gradients, recurrences and sparse sums.

use crate::{below, drawn, generated, near, right, rows, rows_out, written};
use tilewright::prelude::*;
use tilewright_sim::Arg;

/// Cross entropy and its gradient; rows whose target is to be ignored have none.
#[kernel]
fn cross_entropy<const W: usize = 256>(
    logits: &Tensor<f32, (M, V), (ldl, _1)>,
    target: &Tensor<i32, M>,
    ignore: i32,
    loss: &mut Tensor<f32, M>,
    grad: &mut Tensor<f32, (M, V), (ldg, _1)>,
) {
    let x = tile(logits, (1, W), (block.x, _));
    let g = tile(grad, (1, W), (block.x, _));
    let t = target[(block.x)];
    if t - ignore == 0 {
        fill(tile(loss, 1, block.x), 0.0);
        for j in 0..g.size(2) {
            fill(g[(_, _, j)], 0.0);
        }
    } else {
        let mut most = full::<f32>((1, 1), f32::NEG_INFINITY);
        let mut total = full::<f32>((1, 1), 0.0);
        for j in 0..x.size(2) {
            let row = map(x[(_, _, j)], |x| x);
            let next = map((most, maximum(row, 1)), |a, b| max(a, b));
            let part = sum(map((row, next), |x, m| exp(x - m)), 1);
            total = map((total, most, next, part), |t, m, n, p| t * exp(m - n) + p);
            most = next;
        }
        let lse = map((most, total), |m, t| m + log(t));
        copy(map(lse, |l| l - logits[(block.x, t)]), tile(loss, 1, block.x).along(1));
        for j in 0..x.size(2) {
            map((x[(_, _, j)], lse), g[(_, _, j)], |x, l, at| exp(x - l) - (at.1 == t) as f32);
        }
    }
}

#[test]
fn losses_and_gradients() {
    for (m, v) in [(4, 256), (5, 777), (3, 10)] {
        let x = drawn(m * v, 1);
        let mut t = below(v as i32, m, 2);
        t[1] = -100;
        let args = [
            rows(&x, m, v),
            Arg::tensor(&t, [m]),
            Arg::number(-100i32),
            Arg::output::<f32>([m]),
            rows_out(m, v),
        ];
        near(cross_entropy().def(), &args, 1e-4);
    }
}

/// The gradient of an embedding: rows of the same token add up; one token has no gradient.
#[kernel]
fn embedding_backward(
    ids: &Tensor<i32, T>,
    padding: i32,
    dy: &Tensor<bf16, (T, D), (ldy, _1)>,
    dw: &mut Tensor<f32, (V, D), (ldw, _1)>,
) {
    let id = ids[(block.x)];
    if id - padding != 0 {
        copy(tile(dy, (1, 128), (block.x, block.y)), tile(dw, (1, 128), (id, block.y)), how = "atomic_add");
    }
}

#[test]
fn gradients_of_embeddings() {
    let (t, d, v) = (20, 200, 7);
    let ids = below(v as i32, t, 4);
    let dy: Vec<bf16> = drawn(t * d, 1).into_iter().map(bf16::from_f32).collect();

    let args = [
        Arg::tensor(&ids, [t]),
        Arg::number(3i32),
        Arg::tensor(&dy, [t, d]).strides([d, 1]),
        Arg::in_out(&vec![0f32; v * d], [v, d]).strides([d, 1]),
    ];
    written(embedding_backward().def(), &args);
}

/// Sums of segments of rows, which offsets delimit.
#[kernel]
fn segment_sum(
    offsets: &Tensor<i32, { S + 1 }>,
    x: &Tensor<f32, (N, D), (ldx, _1)>,
    y: &mut Tensor<f32, (S, D), (ldy, _1)>,
) {
    let mut total = full::<f32>((1, 64), 0.0);
    for i in offsets[(block.x)]..offsets[(block.x + 1)] {
        total += tile(x, (1, 64), (i, block.y));
    }
    copy(total, tile(y, (1, 64), (block.x, block.y)));
}

#[test]
fn segments_add_up() {
    let (d, off) = (70, [0i32, 3, 3, 10, 11]);
    let x = drawn(11 * d, 1);
    written(segment_sum().def(), &[Arg::tensor(&off, [5]), rows(&x, 11, d), rows_out(4, d)]);
}

/// A^T A; only tiles on and below the diagonal are computed.
#[kernel]
fn gram<const B: usize = 32, const BK: usize = 16>(
    a: &Tensor<f32, (K, N), (lda, _1)>,
    c: &mut Tensor<f32, (N, N), (ldc, _1)>,
) {
    let (i, j) = walk((ceil_div(N, B), ceil_div(N, B)), block.x);
    if j <= i {
        let at = permute(a, (1, 0));
        let (ga, gb) = (tile(at, (B, BK), (i, _)), tile(at, (B, BK), (j, _)));
        let (sa, sb) = (shared::<f32>((B, BK)), shared::<f32>((B, BK)));
        let mut acc = full::<f32>((B, B), 0.0);
        for k in pipelined(0..ga.size(2), stages = 2) {
            copy(ga[(_, _, k)], sa);
            copy(gb[(_, _, k)], sb);
            gemm(sa, sb, &mut acc);
        }
        copy(acc, tile(c, (B, B), (i, j)));
    }
}

#[test]
fn half_of_a_symmetric_product() {
    let (k, n) = (37, 70);
    let a = drawn(k * n, 1);
    let mut wanted = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..n {
            if j / 32 <= i / 32 {
                wanted[i * n + j] = (0..k).map(|l| a[l * n + i] as f64 * a[l * n + j] as f64).sum();
            }
        }
    }
    right(
        generated!(gram()),
        &[rows(&a, k, n), Arg::in_out(&vec![0f32; n * n], [n, n]).strides([n, 1])],
        "c",
        &wanted,
        1e-4,
    );
}

/// A selective scan: states of linear recurrences whose coefficients depend on the input.
#[kernel(threads = 64)]
fn selective_scan<const S: usize = 16>(
    u: &Tensor<f32, (B, L, D), (ub, ul, _1)>,
    delta: &Tensor<f32, (B, L, D), (db, dl, _1)>,
    a: &Tensor<f32, (D, S), (lda, _1)>,
    b: &Tensor<f32, (B, L, S), (bb, bl, _1)>,
    c: &Tensor<f32, (B, L, S), (cb, cl, _1)>,
    y: &mut Tensor<f32, (B, L, D), (yb, yl, _1)>,
) {
    let a = map(tile(a, (64, S), (block.y, 0)), |x| x);
    let mut h = full::<f32>((64, S), 0.0);
    for t in 0..L {
        let u = tile(u, (1, 1, 64), (block.x, t, block.y))[(0, 0, _)].along(0);
        let dt = tile(delta, (1, 1, 64), (block.x, t, block.y))[(0, 0, _)].along(0);
        let b = tile(b, (1, 1, S), (block.x, t, 0))[(0, 0, _)].along(1);
        let c = tile(c, (1, 1, S), (block.x, t, 0))[(0, 0, _)].along(1);
        h = map((h, a, u, dt, b), |h, a, u, dt, b| exp(dt * a) * h + dt * b * u);
        copy(
            sum(map((h, c), |h, c| h * c), 1)[(_, 0)],
            tile(y, (1, 1, 64), (block.x, t, block.y))[(0, 0, _)],
        );
    }
}

#[test]
fn selective_scans() {
    let (b, l, d, s) = (2, 9, 70, 16);
    let (u, dt, a, bb, c) =
        (drawn(b * l * d, 1), drawn(b * l * d, 2), drawn(d * s, 3), drawn(b * l * s, 4), drawn(b * l * s, 5));
    let (dt, a): (Vec<f32>, Vec<f32>) =
        (dt.iter().map(|x| x.abs() / 8.0).collect(), a.iter().map(|x| -x.abs()).collect());

    let three = |x: Arg, n: usize| x.strides([l * n, n, 1]);
    let args = [
        three(Arg::tensor(&u, [b, l, d]), d),
        three(Arg::tensor(&dt, [b, l, d]), d),
        rows(&a, d, s),
        three(Arg::tensor(&bb, [b, l, s]), s),
        three(Arg::tensor(&c, [b, l, s]), s),
        three(Arg::output::<f32>([b, l, d]), d),
    ];
    written(selective_scan().def(), &args);
}

/// Gradients of the scale and the shift of a layer norm.
#[kernel]
fn gamma_beta<const R: usize = 32, const C: usize = 32>(
    dy: &Tensor<f32, (M, N), (ldd, _1)>,
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    mean: &Tensor<f32, M>,
    rstd: &Tensor<f32, M>,
    dg: &mut Tensor<f32, N>,
    db: &mut Tensor<f32, N>,
) {
    let dy = map(tile(dy, (R, C), (block.x, block.y)), |x| x);
    let m = tile(mean, R, block.x).along(0);
    let r = tile(rstd, R, block.x).along(0);
    let g = map((dy, tile(x, (R, C), (block.x, block.y)), m, r), |d, x, m, r| d * (x - m) * r);
    copy(sum(g, 0)[(0, _)], tile(dg, C, block.y), how = "atomic_add");
    copy(sum(dy, 0)[(0, _)], tile(db, C, block.y), how = "atomic_add");
}

#[test]
fn gradients_of_scales() {
    let (m, n) = (70, 45);
    let (dy, x, mean, rstd) = (drawn(m * n, 1), drawn(m * n, 2), drawn(m, 3), drawn(m, 4));

    let zero = vec![0f32; n];
    let args = [
        rows(&dy, m, n),
        rows(&x, m, n),
        Arg::tensor(&mean, [m]),
        Arg::tensor(&rstd, [m]),
        Arg::in_out(&zero, [n]),
        Arg::in_out(&zero, [n]),
    ];
    written(gamma_beta().def(), &args);
}

/// A sparse matrix in compressed rows times a dense one.
#[kernel]
fn spmm(
    first: &Tensor<i32, { M + 1 }>,
    col: &Tensor<i32, Z>,
    val: &Tensor<f32, Z>,
    x: &Tensor<f32, (N, D), (ldx, _1)>,
    y: &mut Tensor<f32, (M, D), (ldy, _1)>,
) {
    let row = block.x;
    let mut acc = full::<f32>((1, 128), 0.0);
    for j in first[(row)]..first[(row + 1)] {
        acc = map((acc, tile(x, (1, 128), (col[(j)], block.y))), |a, x| a + val[(j)] * x);
    }
    copy(acc, tile(y, (1, 128), (row, block.y)));
}

#[test]
fn sparse_times_dense() {
    let (m, n, d) = (4, 10, 150);
    let first = [0i32, 2, 2, 7, 8];
    let (col, val, x) = (below(n as i32, 8, 1), drawn(8, 2), drawn(n * d, 3));
    written(
        spmm().def(),
        &[
            Arg::tensor(&first, [m + 1]),
            Arg::tensor(&col, [8]),
            Arg::tensor(&val, [8]),
            rows(&x, n, d),
            rows_out(m, d),
        ],
    );
}
