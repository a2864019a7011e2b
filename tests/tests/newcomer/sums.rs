//! Sums: compensated ones, and the greatest of columns.

use crate::{drawn, every, generated, right, rows};
use tilewright::prelude::*;
use tilewright_sim::Arg;

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
    for (m, n) in [(0, 5), (1, 1), (9, 1000), (3, 0), (17, 129)] {
        let x: Vec<f32> =
            drawn(m * n, 5).iter().zip(0..).map(|(x, at)| if at % 7 == 0 { x * 1e6 } else { *x }).collect();
        let wanted: Vec<f64> = (0..m).map(|i| x[i * n..][..n].iter().map(|x| f64::from(*x)).sum()).collect();
        right(generated!(compensated()), &[rows(&x, m, n), Arg::output::<f32>([m])], "y", &wanted, 1e-7);
    }
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
    let x: Vec<i32> = (0..700).map(|at| -1 - (at * 37) % 501).collect();
    let mut wanted = vec![i32::MIN; 256];
    x.iter().enumerate().for_each(|(at, x)| wanted[at % 256] = wanted[at % 256].max(*x));
    let args = [Arg::tensor(&x, [700]), Arg::in_out(&[i32::MIN; 256], [256])];
    for out in every(generated!(greatest_of_columns()), &args) {
        assert_eq!(out.get::<i32>("most").unwrap(), wanted);
    }
}
