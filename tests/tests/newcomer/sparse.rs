//! Addresses from memory: sparse matrices, pages, resampling.

use crate::{below, drawn, generated, right, rows, rows_out};
use tilewright::prelude::*;
use tilewright_sim::Arg;

/// y = A x for a sparse matrix in compressed rows; one thread for each row.
#[kernel(allow(uncoalesced))]
fn sparse_rows(
    first: &Tensor<i32, { M + 1 }>,
    columns: &Tensor<i32, Z>,
    values: &Tensor<f32, Z>,
    x: &Tensor<f32, N>,
    y: &mut Tensor<f32, M>,
) {
    let y = parallelize(tile(y, 64, block.x), layout!(64), thread.x);
    let row = block.x * 64 + thread.x;
    let mut sum = registers::<f32>((1), 0.0);
    for j in first[(row)]..first[(row + 1)] {
        let column = columns[(j)];
        sum = map(sum, |s| s + values[(j)] * x[(column)]);
    }
    copy(sum, y);
}

#[test]
fn sparse_times_vector() {
    for (m, n) in [(64, 50), (131, 20)] {
        let counts = below(5, m, 1);
        let mut first = vec![0];
        counts.iter().for_each(|count| first.push(first[first.len() - 1] + count));
        let z = first[m] as usize;
        let (columns, values, x) = (below(n as i32, z, 2), drawn(z, 3), drawn(n, 4));
        let sum = |row: usize| {
            let of = first[row] as usize..first[row + 1] as usize;
            of.map(|j| f64::from(values[j]) * f64::from(x[columns[j] as usize])).sum::<f64>()
        };
        let wanted: Vec<f64> = (0..m).map(sum).collect();
        let args = [
            Arg::tensor(&first, [m + 1]),
            Arg::tensor(&columns, [z]),
            Arg::tensor(&values, [z]),
            Arg::tensor(&x, [n]),
            Arg::output::<f32>([m]),
        ];
        right(generated!(sparse_rows()), &args, "y", &wanted, 1e-5);
    }
}

/// One query against keys and values in pages of 32 rows, whose numbers are in a table.
#[kernel(allow(bank_conflicts, uncoalesced))]
fn paged_attention<const D: usize = 32>(
    length: i32,
    pages: &Tensor<i32, P>,
    q: &Tensor<f32, (B, D), (ldq, _1)>,
    k: &Tensor<f32, (R, D), (ldk, _1)>,
    v: &Tensor<f32, (R, D), (ldv, _1)>,
    o: &mut Tensor<f32, (B, D), (ldo, _1)>,
) {
    let q = map(tile(q, (1, D), (block.x, 0)), |x| x);
    let mut out = full::<f32>((1, D), 0.0);
    let mut most = full::<f32>((1, 1), f32::NEG_INFINITY);
    let mut total = full::<f32>((1, 1), 0.0);
    for j in 0..ceil_div(length, 32) {
        let page = pages[(j)];
        let s = sum(map((tile(k, (32, D), (page, 0)), q), |k, q| k * q / sqrt(D as f32)), 1);
        let s = map(s, |x, at| if at.0 - page * 32 + j * 32 < length { x } else { f32::NEG_INFINITY });
        let next = map((most, maximum(s, 0)), |a, b| max(a, b));
        let p = map((s, next), |x, n| exp(x - n));
        total = map((total, most, next, sum(p, 0, out_of_bounds = 0.0)), |t, m, n, h| t * exp(m - n) + h);
        let here = sum(map((tile(v, (32, D), (page, 0)), p), |v, p| v * p), 0, out_of_bounds = 0.0);
        out = map((out, most, next, here), |o, m, n, h| o * exp(m - n) + h);
        most = next;
    }
    copy(map((out, total), |o, t| o / t), tile(o, (1, D), (block.x, 0)));
}

#[test]
fn attention_from_pages() {
    let (d, b, length) = (32, 3, 70);
    let pages = [4, 0, 2];
    let (q, k, v) = (drawn(b * d, 6), drawn(160 * d, 7), drawn(160 * d, 8));
    let row = |x: &[f32], j: usize| x[(pages[j / 32] as usize * 32 + j % 32) * d..][..d].to_vec();
    let mut wanted = vec![];
    for q in q.chunks(d) {
        let dot = |k: Vec<f32>| q.iter().zip(&k).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum::<f64>();
        let p: Vec<f64> = (0..length).map(|j| (dot(row(&k, j)) / (d as f64).sqrt()).exp()).collect();
        let total: f64 = p.iter().sum();
        wanted.extend(
            (0..d).map(|c| (0..length).map(|j| p[j] * f64::from(row(&v, j)[c])).sum::<f64>() / total),
        );
    }
    let args = [
        Arg::number(length as i32),
        Arg::tensor(&pages, [3]),
        rows(&q, b, d),
        rows(&k, 160, d),
        rows(&v, 160, d),
        rows_out(b, d),
    ];
    right(generated!(paged_attention()), &args, "o", &wanted, 1e-3);
}

/// Softmax of the values of each row of a sparse matrix, whose values begin at `start`.
#[kernel(threads = 128)]
fn sparse_softmax(start: &Tensor<i32, { R + 1 }>, x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    // One block more than there are rows, which finds no values.
    let row = walk(start.size(0), block.x);
    let (from, to) = (start[(row)], if row < R { start[(row + 1)] } else { 0 });
    let (mut most, mut total) = (full::<f32>(1, f32::NEG_INFINITY), full::<f32>(1, 0.0));
    for k in 0..ceil_div(to - from, 128) {
        let values = shift(tile(x, 128, 0), (from + 128 * k));
        let own = map(values, |x, at| if at.0 < to { x } else { f32::NEG_INFINITY });
        let greater = max(most, maximum(own, out_of_bounds = f32::NEG_INFINITY));
        total = total * exp(most - greater) + sum(exp(own - greater), out_of_bounds = 0.0);
        most = greater;
    }
    for k in 0..ceil_div(to - from, 128) {
        let values = shift(tile(x, 128, 0), (from + 128 * k));
        scatter(
            exp(values - most) / total,
            y,
            |p, at| (if at.0 < to { at.0 } else { -1 }, p),
            out_of_bounds = -1,
        );
    }
}

#[test]
fn rows_of_any_length_add_up_to_one() {
    for lengths in [vec![1], vec![5, 0, 300, 128, 1]] {
        let mut start = vec![0];
        lengths.iter().for_each(|length| start.push(start.last().unwrap() + length));
        let n = *start.last().unwrap() as usize;
        let x = drawn(n, 2);
        let mut wanted = Vec::new();
        for row in start.windows(2) {
            let row = &x[row[0] as usize..row[1] as usize];
            let total: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
            wanted.extend(row.iter().map(|x| f64::from(*x).exp() / total));
        }
        let args = [Arg::tensor(&start, [start.len()]), Arg::tensor(&x, [n]), Arg::output::<f32>([n])];
        right(generated!(sparse_softmax()), &args, "y", &wanted, 1e-5);
    }
}
