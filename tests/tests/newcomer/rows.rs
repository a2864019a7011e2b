//! Rows: softmax, norms, losses, the largest elements.

use crate::{below, close, drawn, every, generated, near, right, rows, rows_out, written};
use tilewright::prelude::*;
use tilewright_sim::Arg;

/// Softmax of rows of any length, in pieces, with the maximum and the sum in one pass.
#[kernel]
fn softmax<const W: usize = 512>(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    let x = tile(x, (2, W), (block.x, _));
    let y = tile(y, (2, W), (block.x, _));
    let mut most = full::<f32>((2, 1), f32::NEG_INFINITY);
    let mut total = full::<f32>((2, 1), 0.0);
    for k in 0..x.size(2) {
        let piece = map(x[(_, _, k)], |x| x);
        let next = map((most, maximum(piece, 1)), |a, b| max(a, b));
        let here = sum(map((piece, next), |x, n| exp(x - n)), 1);
        total = map((total, most, next, here), |t, m, n, h| t * exp(m - n) + h);
        most = next;
    }
    for k in 0..x.size(2) {
        copy(map((x[(_, _, k)], most, total), |x, m, t| exp(x - m) / t), y[(_, _, k)]);
    }
}

/// One row for each warp, in registers.
#[kernel]
fn softmax_by_warps(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    at_most(N, 256);
    let t = layout!((4, 32) : (32, 1));
    let x = parallelize(tile(x, (4, 256), (block.x, 0)), t, thread.x, values = (1, 4));
    let y = parallelize(tile(y, (4, 256), (block.x, 0)), t, thread.x, values = (1, 4));
    let row = map(x, |x| x);
    let most = warp_maximum(maximum(row, 1));
    let grown = map((row, most), |x, m| exp(x - m));
    let total = warp_sum(sum(grown, 1));
    map((grown, total), y, |e, t| e / t);
}

#[test]
fn softmaxes() {
    for (m, n) in [(4, 512), (3, 1), (7, 129), (5, 1201)] {
        let x = drawn(m * n, 1);
        near(softmax().def(), &[rows(&x, m, n), rows_out(m, n)], 1e-6);
        if n <= 256 {
            near(softmax_by_warps().def(), &[rows(&x, m, n), rows_out(m, n)], 1e-6);
        }
    }
}

/// A vector of length 1: the length is one number, which the closure uses by its name.
#[kernel]
fn normalize(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    at_most(N, 1024);
    let x = map(tile(x, 1024, 0), |x| x);
    let squares = sum(map(x, |x| x * x));
    copy(map(x, |x| x * rsqrt(squares)), tile(y, 1024, 0));
}

/// The same from parts of threads.
#[kernel]
fn normalize_by_threads(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    at_most(N, 1024);
    let part = |x| parallelize(tile(x, 1024, 0), layout!(256), thread.x);
    let x = map(part(x), |x| x);
    let squares = block_sum(sum(map(x, |x| x * x)));
    map(x, part(y), |x| x * rsqrt(squares));
}

#[test]
fn vectors_of_length_one() {
    for n in [1, 300, 1024] {
        let x: Vec<f32> = drawn(n, 10).iter().map(|x| x + 4.5).collect();
        let length = x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        let wanted: Vec<f64> = x.iter().map(|x| f64::from(*x) / length).collect();
        let args = [Arg::tensor(&x, [n]), Arg::output::<f32>([n])];
        right(generated!(normalize()), &args, "y", &wanted, 1e-5);
        right(generated!(normalize_by_threads()), &args, "y", &wanted, 1e-5);
    }
}

/// The gradient of layer normalisation with respect to its input; mean and 1/σ come from the forward pass.
#[kernel(allow(uncoalesced))]
fn layernorm_backward<const W: usize = 1024>(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    w: &Tensor<f32, N>,
    dy: &Tensor<f32, (M, N), (ldg, _1)>,
    mean: &Tensor<f32, M>,
    rstd: &Tensor<f32, M>,
    dx: &mut Tensor<f32, (M, N), (ldd, _1)>,
) {
    at_most(N, W);
    let mean = tile(mean, 2, block.x).along(0);
    let rstd = tile(rstd, 2, block.x).along(0);
    let xhat = map((tile(x, (2, W), (block.x, 0)), mean, rstd), |x, m, r| (x - m) * r);
    let wdy = map((tile(dy, (2, W), (block.x, 0)), tile(w, W, 0).along(1)), |g, w| g * w);
    let c1 = map(sum(map((xhat, wdy), |x, g| x * g), 1), |s| s / N as f32);
    let c2 = map(sum(wdy, 1), |s| s / N as f32);
    copy(
        map((xhat, wdy, c1, c2, rstd), |x, g, c1, c2, r| (g - c2 - x * c1) * r),
        tile(dx, (2, W), (block.x, 0)),
    );
}

#[test]
fn layernorm_has_a_gradient() {
    for (m, n) in [(3, 1024), (5, 77)] {
        let (x, w, dy) = (drawn(m * n, 2), drawn(n, 3), drawn(m * n, 4));
        let (mut means, mut rstds, mut wanted) = (vec![], vec![], vec![]);
        for i in 0..m {
            let (row, dy) = (&x[i * n..][..n], &dy[i * n..][..n]);
            let mean = row.iter().map(|x| f64::from(*x)).sum::<f64>() / n as f64;
            let var = row.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / n as f64;
            let (mean, rstd) = (mean as f32, (1.0 / (var + 1e-5).sqrt()) as f32);
            let xhat = |j: usize| (f64::from(row[j]) - f64::from(mean)) * f64::from(rstd);
            let wdy = |j: usize| f64::from(w[j]) * f64::from(dy[j]);
            let c1 = (0..n).map(|j| xhat(j) * wdy(j)).sum::<f64>() / n as f64;
            let c2 = (0..n).map(wdy).sum::<f64>() / n as f64;
            wanted.extend((0..n).map(|j| (wdy(j) - c2 - xhat(j) * c1) * f64::from(rstd)));
            means.push(mean);
            rstds.push(rstd);
        }
        let args = [
            rows(&x, m, n),
            Arg::tensor(&w, [n]),
            rows(&dy, m, n),
            Arg::tensor(&means, [m]),
            Arg::tensor(&rstds, [m]),
            rows_out(m, n),
        ];
        written(layernorm_backward().def(), &args);
    }
}

/// The cross entropy of each row against its class.
#[kernel]
fn cross_entropy<const W: usize = 512>(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    class: &Tensor<i32, M>,
    loss: &mut Tensor<f32, M>,
) {
    let x = tile(x, (2, W), (block.x, _));
    let class = tile(class, 2, block.x).along(0);
    let mut most = full::<f32>((2, 1), f32::NEG_INFINITY);
    let mut total = full::<f32>((2, 1), 0.0);
    let mut own = full::<f32>((2, 1), 0.0);
    for k in 0..x.size(2) {
        let piece = map(x[(_, _, k)], |x| x);
        let next = map((most, maximum(piece, 1)), |a, b| max(a, b));
        let here = sum(map((piece, next), |x, n| exp(x - n)), 1);
        total = map((total, most, next, here), |t, m, n, h| t * exp(m - n) + h);
        most = next;
        own += sum(map((piece, class), |x, c, at| if at.1 == c { x } else { 0.0 }), 1);
    }
    copy(map((most, total, own), |m, t, o| m + log(t) - o)[(_, 0)], tile(loss, 2, block.x));
}

#[test]
fn cross_entropies() {
    for (m, n) in [(4, 512), (3, 700), (5, 3)] {
        let (x, class) = (drawn(m * n, 5), below(n as i32, m, 6));
        let args = [rows(&x, m, n), Arg::tensor(&class, [m]), Arg::output::<f32>([m])];
        near(cross_entropy().def(), &args, 1e-5);
    }
}

/// The largest of each row, and the first column that has it.
#[kernel]
fn argmax<const W: usize = 512>(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    most: &mut Tensor<f32, M>,
    index: &mut Tensor<i32, M>,
) {
    at_most(N, W);
    let own = map(tile(x, (2, W), (block.x, 0)), |x, at| (x, at.1));
    let first = |(a, i), (b, j)| if (b > a) | ((b == a) & (j < i)) { (b, j) } else { (a, i) };
    let (best, column) = reduce(own, (f32::NEG_INFINITY, i32::MAX), first, mode = 1);
    copy(best[(_, 0)], tile(most, 2, block.x));
    copy(column[(_, 0)], tile(index, 2, block.x));
}

#[test]
fn largest_and_where() {
    for (m, n) in [(2, 512), (5, 100), (3, 1)] {
        let x = drawn(m * n, 7);
        let args = [rows(&x, m, n), Arg::output::<f32>([m]), Arg::output::<i32>([m])];
        written(argmax().def(), &args);
    }
}

/// The four largest of each row, largest first: four times the argmax, without those already found.
#[kernel]
fn top_four<const W: usize = 256>(x: &Tensor<f32, (M, N), (ldx, _1)>, top: &mut Tensor<f32, (_4, M)>) {
    at_most(N, W);
    let mut row = map(tile(x, (1, W), (block.x, 0)), |x| x);
    let columns = map(row, |_, at| at.1);
    let first = |(a, i), (b, j)| if (b > a) | ((b == a) & (j < i)) { (b, j) } else { (a, i) };
    for i in unroll(0..4) {
        let (best, column) = reduce((row, columns), (f32::NEG_INFINITY, i32::MAX), first, mode = 1);
        copy(best, tile(top, (1, 1), (i, block.x)));
        row = map((row, columns, column), |x, j, c| if j == c { f32::NEG_INFINITY } else { x });
    }
}

#[test]
fn four_largest() {
    for (m, n) in [(3, 256), (2, 19), (2, 4)] {
        let x = drawn(m * n, 8);
        let mut wanted = vec![];
        for row in x.chunks(n) {
            let mut row = row.to_vec();
            row.sort_by(|a, b| b.total_cmp(a));
            wanted.extend(row[..4].iter().map(|x| f64::from(*x)));
        }
        right(generated!(top_four()), &[rows(&x, m, n), Arg::output::<f32>([4, m])], "top", &wanted, 0.0);
    }
}

/// Rows as 8-bit integers, each with its scale.
#[kernel]
fn quantize<const W: usize = 512>(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    q: &mut Tensor<i8, (M, N), (ldq, _1)>,
    scale: &mut Tensor<f32, M>,
) {
    at_most(N, W);
    let row = map(tile(x, (2, W), (block.x, 0)), |x| x);
    let s = map(maximum(map(row, |x| abs(x)), 1), |m| m / 127.0);
    copy(map((row, s), |x, s| round(x / s) as i8), tile(q, (2, W), (block.x, 0)));
    copy(s[(_, 0)], tile(scale, 2, block.x));
}

#[test]
fn quantized_rows() {
    let (m, n) = (5, 300);
    let x = drawn(m * n, 9);
    let args = [rows(&x, m, n), Arg::output::<i8>([m, n]).strides([n, 1]), Arg::output::<f32>([m])];
    for outcome in every(generated!(quantize()), &args) {
        let (q, scale) = (outcome.get::<i8>("q").unwrap(), outcome.get::<f32>("scale").unwrap());
        for at in 0..m * n {
            assert!((f32::from(q[at]) * scale[at / n] - x[at]).abs() <= 0.5001 * scale[at / n]);
        }
    }
}

/// Numbers of 8 bits with a scale for each 128 of a row, eight of these at once.
#[kernel(allow(uncoalesced))] // scales are few
fn quantised(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    q: &mut Tensor<i8, (M, N), (ldq, _1)>,
    scale: &mut Tensor<f32, { (M, ceil_div(N, 128)) }, (lds, _1)>,
) {
    let here = (block.x, block.y);
    let x = map(regroup(tile(x, (2, 1024), here), (2, 128, 8)), |x| x);
    let s = maximum(abs(x), 1) / 127.0;
    copy(s, regroup(tile(scale, (2, 8), here), (2, 1, 8)));
    let round = |x, s| if s > 0.0 { min(max(round_ties_even(x / s), -127.0), 127.0) as i8 } else { 0 };
    map((x, s), regroup(tile(q, (2, 1024), here), (2, 128, 8)), round);
}

#[test]
fn rows_are_quantised_in_blocks() {
    for (m, n) in [(9, 300), (1, 1), (3, 2050)] {
        let mut x = drawn(m * n, 6);
        x[0] = 0.0;
        let blocks = n.div_ceil(128);
        let (mut numbers, mut scales) = (Vec::new(), Vec::new());
        for block in x.chunks(n).flat_map(|row| row.chunks(128)) {
            let scale = block.iter().fold(0.0f32, |most, x| most.max(x.abs())) / 127.0;
            scales.push(f64::from(scale));
            let number = |x: &f32| {
                if scale > 0.0 { (x / scale).round_ties_even().clamp(-127.0, 127.0) as i8 } else { 0 }
            };
            numbers.extend(block.iter().map(number));
        }
        let args = [rows(&x, m, n), Arg::output::<i8>([m, n]).strides([n, 1]), rows_out(m, blocks)];
        for outcome in every(generated!(quantised()), &args) {
            assert_eq!(outcome.get::<i8>("q").unwrap(), numbers);
            close(&outcome.get::<f32>("scale").unwrap(), &scales, 1e-7);
        }
    }
}
