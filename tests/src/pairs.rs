//! Pairs: each thread has all elements of a tile along a short mode.

use tilewright::KernelDef;
use tilewright::prelude::*;

/// All of them, by name.
pub fn all() -> Vec<(&'static str, KernelDef)> {
    vec![
        ("squares", squares().def().clone()),
        ("squares_f64", squares!(T = f64).def().clone()),
        ("squares_bf16", squares!(T = bf16).def().clone()),
        ("squares_of_rows", squares_of_rows().def().clone()),
        ("squares_of_planes", squares_of_planes().def().clone()),
        ("few", few().def().clone()),
        ("chained", chained().def().clone()),
        ("summed", summed().def().clone()),
        ("apart", apart().def().clone()),
        ("loaded", loaded().def().clone()),
    ]
}

/// Squares of complex numbers.
#[kernel(T = f32 | f64 | bf16)]
pub fn squares<T, const BN: usize = 256>(
    x: &Tensor<T, (_2, N), (_1, _2)>,
    z: &mut Tensor<T, (_2, N), (_1, _2)>,
) {
    let x = map(tile(x, (2, BN), (0, block.x)), |x| x);
    let mut y = full::<T>((2, BN), 0.0);
    map((x[(0, _)], x[(1, _)]), (y[(0, _)], y[(1, _)]), |a, b| (a * a - b * b, 2.0 * a * b));
    copy(y, tile(z, (2, BN), (0, block.x)));
}

/// Pairs along the last mode.
#[kernel]
pub fn squares_of_rows(
    x: &Tensor<f32, (M, N, _2), (ld, _2, _1)>,
    z: &mut Tensor<f32, (M, N, _2), (ld, _2, _1)>,
) {
    let x = map(tile(x, (4, 128, 2), (block.x, block.y, 0)), |x| x);
    let mut y = full::<f32>((4, 128, 2), 0.0);
    map((x[(_, _, 0)], x[(_, _, 1)]), (y[(_, _, 0)], y[(_, _, 1)]), |a, b| (a * a - b * b, 2.0 * a * b));
    copy(y, tile(z, (4, 128, 2), (block.x, block.y, 0)));
}

/// Real and imaginary parts apart.
#[kernel]
pub fn squares_of_planes(x: &Tensor<f32, (N, _2)>, z: &mut Tensor<f32, (N, _2)>) {
    let x = map(tile(x, (1024, 2), (block.x, 0)), |x| x);
    let mut y = full::<f32>((1024, 2), 0.0);
    map((x[(_, 0)], x[(_, 1)]), (y[(_, 0)], y[(_, 1)]), |a, b| (a * a - b * b, 2.0 * a * b));
    copy(y, tile(z, (1024, 2), (block.x, 0)));
}

/// Fewer pairs than threads.
#[kernel]
pub fn few(x: &Tensor<f32, (_2, N), (_1, _2)>, z: &mut Tensor<f32, N>) {
    let x = map(tile(x, (2, 32), (0, block.x)), |x| x);
    map((x[(0, _)], x[(1, _)]), tile(z, 32, block.x), |a, b| sqrt(a * a + b * b));
}

/// Conditions, sums and arithmetic on both parts.
#[kernel]
pub fn chained(x: &Tensor<f32, (_2, N), (_1, _2)>, z: &mut Tensor<f32, (_2, N), (_1, _2)>) {
    let x = map(tile(x, (2, 512), (0, block.x)), |x| x);
    let (a, b) = (x[(0, _)], x[(1, _)]);
    let size = sqrt(a * a + b * b);
    let mut y = full::<f32>((2, 512), 0.0);
    y[(0, _)] = if size > 1.0 { a / size } else { a };
    y[(1, _)] = if size > 1.0 { b / size } else { b };
    y[(1, _)] += a;
    copy(y, tile(z, (2, 512), (0, block.x)));
}

/// The sums of real and imaginary parts of each tile, and how many of the real parts are positive.
#[kernel]
pub fn summed(
    x: &Tensor<f32, (_2, N), (_1, _2)>,
    z: &mut Tensor<f32, { (2, ceil_div(N, 512)) }>,
    n: &mut Tensor<i32, { ceil_div(N, 512) }>,
) {
    let x = map(tile(x, (2, 512), (0, block.x)), |x| x);
    let z = tile(z, (2, 1), (0, block.x));
    copy(sum(x[(0, _)]), z[(0, _)]);
    copy(sum(x[(1, _)]), z[(1, _)]);
    copy(sum((x[(0, _)] > 0.0) as i32), tile(n, 1, block.x));
}

/// Differences of neighbours: of every second element, and the next.
#[kernel]
pub fn apart(x: &Tensor<f32, N>, y: &mut Tensor<f32, { ceil_div(N, 2) }>) {
    let x = regroup(tile(x, 512, block.x), (2, 256));
    map((x[(0, _)], x[(1, _)]), tile(y, 256, block.x), |a, b| b - a);
}

/// The same, where each thread loads a pair.
#[kernel]
pub fn loaded(x: &Tensor<f32, N>, y: &mut Tensor<f32, { ceil_div(N, 2) }>) {
    let x = map(regroup(tile(x, 512, block.x), (2, 256)), |x| x);
    map((x[(0, _)], x[(1, _)]), tile(y, 256, block.x), |a, b| b - a);
}
