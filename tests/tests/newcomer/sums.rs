//! Sums: compensated ones, and the greatest of columns.

use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

/// The sum of each row, whose rounding errors are added up beside it and taken into account (Kahan, Knuth).
#[kernel]
fn compensated(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, M>) {
    let x = tile(x, (8, 128), (block.x, _));
    let (mut total, mut lost) = (full::<f32>((8, 128), 0.0), full::<f32>((8, 128), 0.0));
    for k in 0..x.size(2) {
        (total, lost) = map((x[(_, _, k)], total, lost), |x, s, c| {
            let y = x - c;
            let t = s + y;
            (t, (t - s) - y)
        });
    }
    let two_sum = |(a, p), (b, q)| {
        let t = a + b;
        let z = t - a;
        (t, (a - (t - z)) + (b - z) + p + q)
    };
    // Out-of-bounds elements are 0, and so are their rounding errors.
    let (total, rest) = reduce((total, -lost), (0.0, 0.0), two_sum, mode = 1, out_of_bounds = (0.0, 0.0));
    copy((total + rest)[(_, 0)], tile(y, 8, block.x));
}

#[test]
fn sums_are_compensated() {
    inputs(compensated().def())
        .indexed("x", |at, x| if at % 7 == 0 { 1e6 * x } else { x })
        .near(4e-7, ["M = 0, N = 5", "M = 1, N = 1", "M = 9, N = 1000", "M = 3, N = 0", "M = 17, N = 129"]);
}

/// The greatest of each column of 256, in shared memory first; out-of-bounds elements do not count.
#[kernel]
fn greatest_of_columns(x: &Tensor<i32, N>, most: &mut Tensor<i32, _256>) {
    let own = shared::<i32>(256);
    fill(own, i32::MIN);
    copy(tile(x, 256, block.x), own, how = "atomic_max");
    copy(own, tile(most, 256, 0), how = "atomic_max");
}

#[test]
fn nothing_beyond_the_end_takes_part_in_atomics() {
    inputs(greatest_of_columns().def())
        .with("x", |x| -1.0 - x)
        .with("most", |_| i32::MIN.into())
        .written(["N = 700"]);
}
