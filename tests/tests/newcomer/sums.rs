//! Sums across blocks.

use crate::{drawn, every, generated, right, rows};
use tilewright::prelude::*;
use tilewright_sim::Arg;

/// The sum of each piece of 4096 elements.
#[kernel]
fn partial_sums(x: &Tensor<f32, N>, partial: &mut Tensor<f32, { ceil_div(N, 4096) }>) {
    copy(sum(map(tile(x, 4096, block.x), |x| x), 0), tile(partial, 1, block.x));
}

/// The sum of all, by one block.
#[kernel]
fn total(x: &Tensor<f32, N>, out: &mut Tensor<f32, _1>) {
    let x = tile(x, 1024, _);
    let mut acc = full::<f32>((1024), 0.0);
    for k in 0..x.size(1) {
        acc += x[(_, k)];
    }
    copy(sum(acc, 0), out);
}

#[test]
fn two_stages() {
    for n in [1, 4096, 10_001] {
        let x = drawn(n, 1);
        let partials = n.div_ceil(4096);
        let wanted: Vec<f64> = x.chunks(4096).map(|x| x.iter().map(|x| f64::from(*x)).sum()).collect();
        let args = [Arg::tensor(&x, [n]), Arg::output::<f32>([partials])];
        for outcome in every(generated!(partial_sums()), &args) {
            let partial = outcome.get::<f32>("partial").unwrap();
            crate::close(&partial, &wanted, 1e-4);
            let args = [Arg::tensor(&partial, [partials]), Arg::output::<f32>([1])];
            right(generated!(total()), &args, "out", &[wanted.iter().sum()], 1e-4);
        }
    }
}

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
