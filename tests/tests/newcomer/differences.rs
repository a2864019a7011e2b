//! Differences: of rows from the first one, of neighbours, of several results of one function.

use tilewright::prelude::*;
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
    inputs(variation().def())
        .zero("total")
        .zero("steps")
        .near(1e-5, ["N = 1", "N = 2", "N = 50", "N = 51", "N = 149"]);
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
    inputs(kernel.def()).near(1e-5, ["M = 5, N = 37"]);
}
