//! More from machine learning: norms of groups, clusters, quantised weights, recurrent cells.

use crate::{below, drawn, every, generated, right, rows, written};
use tilewright::prelude::*;
use tilewright_sim::Arg;

/// Each group of channels of an image with mean 0 and variance 1.
#[kernel]
fn group_norm<const P: usize = 256>(x: &Tensor<f32, (S, C, G, B)>, y: &mut Tensor<f32, (S, C, G, B)>) {
    at_most(S, P);
    at_most(C, 4);
    let (from, to) =
        (tile(x, (P, 4, 1, 1), (0, 0, block.x, block.y)), tile(y, (P, 4, 1, 1), (0, 0, block.x, block.y)));
    let group = map(from[(_, _, 0, 0)], |x| x);
    let total = sum(group);
    let mean = map(total, |t| t / (S as f32 * C as f32));
    let squares = sum(map(group, |x| (x - mean) * (x - mean)));
    map(group, to[(_, _, 0, 0)], |x| (x - mean) * rsqrt(squares / (S as f32 * C as f32) + 0.00001));
}

#[test]
fn groups_are_normal() {
    for [s, c, g, b] in [[256, 4, 2, 1], [100, 3, 2, 2]] {
        let x = drawn(s * c * g * b, 1);

        let args = [Arg::tensor(&x, [s, c, g, b]), Arg::output::<f32>([s, c, g, b])];
        written(group_norm().def(), &args);
    }
}

/// The nearest of at most 32 centres for each point; `norms` are the centres' squares.
#[kernel(allow(bank_conflicts))]
fn nearest_centre<const D: usize = 16>(
    x: &Tensor<f32, (N, D), (ldx, _1)>,
    c: &Tensor<f32, (C, D), (ldc, _1)>,
    norms: &Tensor<f32, C>,
    label: &mut Tensor<i32, N>,
) {
    at_most(C, 32);
    let (sx, sc) = (shared::<f32>((64, D)), shared::<f32>((32, D)));
    copy(tile(x, (64, D), (block.x, 0)), sx);
    copy(tile(c, (32, D), (0, 0)), sc);
    let mut dot = full::<f32>((64, 32), 0.0);
    gemm(sx, sc, &mut dot);
    let far = map((dot, tile(norms, 32, 0).along(1)), |d, s, at| (s - 2.0 * d, at.1));
    let nearer = |(a, i), (b, j)| if (b < a) | ((b == a) & (j < i)) { (b, j) } else { (a, i) };
    let (_, nearest) = reduce(far, (f32::INFINITY, i32::MAX), nearer, mode = 1);
    copy(nearest[(_, 0)], tile(label, 64, block.x));
}

#[test]
fn nearest_centres() {
    for (n, c) in [(64, 32), (77, 5)] {
        let d = 16;
        let (x, centres) = (drawn(n * d, 2), drawn(c * d, 3));
        let norms: Vec<f32> = centres.chunks(d).map(|c| c.iter().map(|c| c * c).sum()).collect();
        let args = [rows(&x, n, d), rows(&centres, c, d), Arg::tensor(&norms, [c]), Arg::output::<i32>([n])];
        for outcome in every(generated!(nearest_centre()), &args) {
            for (x, label) in x.chunks(d).zip(outcome.get::<i32>("label").unwrap()) {
                let far = |c: &[f32]| {
                    x.iter().zip(c).map(|(x, c)| (f64::from(*x) - f64::from(*c)).powi(2)).sum::<f64>()
                };
                let least = centres.chunks(d).map(far).fold(f64::INFINITY, f64::min);
                assert!(far(&centres[label as usize * d..][..d]) <= least + 1e-3);
            }
        }
    }
}

/// y = W x with weights of 4 bits, two in a byte, and a scale for each row.
#[kernel(allow(uncoalesced))]
fn four_bits<const W: usize = 256>(
    w: &Tensor<u8, (M, H), (ldw, _1)>,
    scale: &Tensor<f32, M>,
    x: &Tensor<f32, (_2, H)>,
    y: &mut Tensor<f32, M>,
) {
    let w = tile(w, (4, W), (block.x, _));
    let x = tile(x, (2, W), (0, _));
    let mut acc = full::<f32>((4, W), 0.0);
    for k in 0..w.size(2) {
        acc = map((acc, w[(_, _, k)], x[(0, _, k)].along(1), x[(1, _, k)].along(1)), |s, w, a, b| {
            let (low, high) = (w % 16, w / 16);
            s + (low as f32 - 8.0) * a + (high as f32 - 8.0) * b
        });
    }
    copy(
        map((sum(acc, 1, out_of_bounds = 0.0)[(_, 0)], tile(scale, 4, block.x)), |y, s| y * s),
        tile(y, 4, block.x),
    );
}

#[test]
fn weights_of_four_bits() {
    let (m, h) = (7, 300);
    let w: Vec<u8> = below(256, m * h, 4).into_iter().map(|w| w as u8).collect();
    let (scale, x) = (drawn(m, 5), drawn(2 * h, 6));

    let args = [
        Arg::tensor(&w, [m, h]).strides([h, 1]),
        Arg::tensor(&scale, [m]),
        Arg::tensor(&x, [2, h]),
        Arg::output::<f32>([m]),
    ];
    written(four_bits().def(), &args);
}

/// The cell of an LSTM: four gates of H numbers for each element of the batch.
#[kernel]
fn lstm_cell(gates: &Tensor<f32, (H, _4, B)>, c: &mut Tensor<f32, (H, B)>, h: &mut Tensor<f32, (H, B)>) {
    let g = tile(gates, (256, 4, 1), (block.x, 0, block.y))[(_, _, 0)];
    let c = tile(c, (256, 1), (block.x, block.y))[(_, 0)];
    let next = map((g[(_, 0)], g[(_, 1)], g[(_, 2)], c), |i, f, z, c| sigmoid(f) * c + sigmoid(i) * tanh(z));
    copy(map((g[(_, 3)], next), |o, c| sigmoid(o) * tanh(c)), tile(h, (256, 1), (block.x, block.y))[(_, 0)]);
    copy(next, c);
}

#[test]
fn cells_of_an_lstm() {
    let (n, b) = (300, 2);
    let (gates, c) = (drawn(4 * n * b, 7), drawn(n * b, 8));

    let args = [Arg::tensor(&gates, [n, 4, b]), Arg::in_out(&c, [n, b]), Arg::output::<f32>([n, b])];
    written(lstm_cell().def(), &args);
}

/// Mean and variance of each column, in pieces of rows.
#[kernel]
fn column_moments(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    mean: &mut Tensor<f32, N>,
    variance: &mut Tensor<f32, N>,
) {
    let x = tile(x, (32, 64), (_, block.x));
    let mut total = full::<f32>((1, 64), 0.0);
    for k in 0..x.size(2) {
        total += sum(x[(_, _, k)], 0);
    }
    let middle = map(total, |t| t / M as f32);
    let mut squares = full::<f32>((1, 64), 0.0);
    for k in 0..x.size(2) {
        squares += sum(map((x[(_, _, k)], middle), |x, m| (x - m) * (x - m)), 0);
    }
    copy(middle[(0, _)], tile(mean, 64, block.x));
    copy(map(squares, |s| s / M as f32)[(0, _)], tile(variance, 64, block.x));
}

#[test]
fn moments_of_columns() {
    for (m, n) in [(64, 64), (45, 70), (1, 1)] {
        let x = drawn(m * n, 9);
        let moments = |j: usize| {
            let mean = (0..m).map(|i| f64::from(x[i * n + j])).sum::<f64>() / m as f64;
            (0..m).map(|i| (f64::from(x[i * n + j]) - mean).powi(2)).sum::<f64>() / m as f64
        };
        let wanted: Vec<f64> = (0..n).map(moments).collect();
        let args = [rows(&x, m, n), Arg::output::<f32>([n]), Arg::output::<f32>([n])];
        right(generated!(column_moments()), &args, "variance", &wanted, 1e-4);
    }
}

/// The Cholesky factor of a matrix of 32 rows, for each matrix of a batch; above the diagonal it is 0.
#[kernel(allow(bank_conflicts))]
fn cholesky(a: &Tensor<f32, (_32, _32, B)>, l: &mut Tensor<f32, (_32, _32, B)>) {
    let s = shared::<f32>((32, 32));
    let to = tile(l, (32, 32, 1), (0, 0, block.x))[(_, _, 0)];
    copy(tile(a, (32, 32, 1), (0, 0, block.x))[(_, _, 0)], s);
    for j in 0..32 {
        let column = map(s[(_, j)], |x| x * rsqrt(s[(j, j)]));
        // `to` is not read: its coordinates are meant.
        map((s, column.along(0), column.along(1), to), s, |x, a, b, _, at| {
            let own = if at.0 >= j { a } else { 0.0 };
            if at.1 > j {
                x - a * b
            } else if at.1 == j {
                own
            } else {
                x
            }
        });
    }
    copy(s, to);
}

#[test]
fn cholesky_factors() {
    let (b, n) = (2, 32);
    let x = drawn(b * n * n, 10);
    let mut a = vec![0.0f32; b * n * n];
    for (at, a) in a.iter_mut().enumerate() {
        let (i, j, m) = (at % n, at / n % n, at / (n * n) * n * n);
        let dot: f32 = (0..n).map(|k| x[m + i + k * n] * x[m + j + k * n]).sum();
        *a = dot + if i == j { 40.0 } else { 0.0 };
    }

    let args = [Arg::tensor(&a, [n, n, b]), Arg::output::<f32>([n, n, b])];
    written(cholesky().def(), &args);
}
