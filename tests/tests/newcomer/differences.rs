//! Differences: of rows from the first one, of neighbours, of several results of one function.

use crate::{drawn, generated, right, rows, rows_out};
use tilewright::prelude::*;
use tilewright_sim::Arg;
use tilewright_tests::inputs::inputs;

/// How far each row is from the first one.
#[kernel]
fn from_the_first(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, M>) {
    at_most(N, 128);
    let (x, first) = (tile(x, (4, 128), (block.x, 0)), tile(x, (1, 128), (0, 0)));
    let d = map((x, first), |x, first| abs(x - first));
    copy(sum(d, 1)[(_, 0)], tile(y, 4, block.x));
}

#[test]
fn rows_are_compared_with_the_first() {
    inputs(from_the_first().def()).written(["M = 1, N = 1", "M = 5, N = 100", "M = 8, N = 128"]);
}

/// The total variation of a signal, by tiles that have fewer elements than the block threads.
#[kernel]
fn variation(x: &Tensor<f32, N>, total: &mut Tensor<f32, _1>, steps: &mut Tensor<f32, _1>) {
    let x = tile(x, 50, block.x);
    let (by, counts) =
        map((x, shift(x, (1))), |x, next, at| if at.0 + 1 < N { (abs(next - x), 1.0) } else { (0.0, 0.0) });
    copy(sum(by, out_of_bounds = 0.0), total, how = "atomic_add");
    let (_, count) =
        reduce((by, counts), (0.0, 0.0), |(a, n), (b, m)| (a + b, n + m), out_of_bounds = (0.0, 0.0));
    copy(count, steps, how = "atomic_add");
}

#[test]
fn signals_vary() {
    for n in [1, 2, 50, 51, 149] {
        let x = drawn(n, 6);
        let wanted = x.windows(2).map(|two| f64::from((two[1] - two[0]).abs())).sum();
        let zero = || Arg::in_out(&[0.0f32], [1]);
        let args = [Arg::tensor(&x, [n]), zero(), zero()];
        right(generated!(variation()), &args, "total", &[wanted], 1e-5);
        right(generated!(variation()), &args, "steps", &[n as f64 - 1.0], 0.0);
    }
}

/// Sine and cosine in one entry of a result, and the rest of the angle in another.
#[kernel]
fn turned(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, { (M, { 3 * N }) }, (ldy, _1)>) {
    let (x, width) = (tile(x, (4, 32), (block.x, block.y)), x.size(1));
    let ((sine, cosine), rest) = map(x, |x| ((sin(x), cos(x)), x - floor(x)));
    scatter(sine, y, |s, at| ((at.0, at.1), s));
    scatter(cosine, y, |c, at| ((at.0, at.1 + width), c));
    scatter(rest, y, |r, at| ((at.0, at.1 + 2 * width), r));
}

#[test]
fn results_are_tuples_of_tuples() {
    let kernel = turned();
    let source = kernel.source();
    assert!(["sine", "cosine", "rest"].iter().all(|name| source.contains(&format!("float {name} = "))));
    let (m, n) = (5, 37);
    let x = drawn(m * n, 7);
    let one = |at: usize| {
        let x = f64::from(x[at / (3 * n) * n + at % n]);
        [x.sin(), x.cos(), x - x.floor()][at % (3 * n) / n]
    };
    let wanted: Vec<f64> = (0..3 * m * n).map(one).collect();
    right(generated!(turned()), &[rows(&x, m, n), rows_out(m, 3 * n)], "y", &wanted, 1e-5);
}
