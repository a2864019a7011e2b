//! Assertions about sizes, and extents that are computed from others, at a launch: those that have no value, and strides that
//! mean nothing.

use tilewright::prelude::*;
use tilewright_sim::{Arg, Options, run_every};

use crate::integers::numbers;

/// Sizes with which an assertion, and an extent, have no value.
#[kernel(allow(uncoalesced))]
fn ratio(x: &Tensor<f32, (M, K)>, z: &mut Tensor<f32, { ceil_div(M, K) }>, y: &mut Tensor<f32, M>) {
    assert(M % K == 0);
    let g = tile(x, (2, 8), (block.x, _));
    let mut a = full::<f32>((2, 1), 1.0);
    for k in 0..g.size(2) {
        a += sum(g[(_, _, k)], 1);
    }
    copy(a[(_, 0)], tile(y, 2, block.x));
    if block.x == 0 {
        fill(tile(z, 1, block.y), 1.0);
    }
}

#[kernel(allow(uncoalesced))]
fn guarded(x: &Tensor<f32, (M, K)>, y: &mut Tensor<f32, M>) {
    assert(K == 0 || M % K == 0);
    let g = tile(x, (2, 8), (block.x, _));
    let mut a = full::<f32>((2, 1), 1.0);
    for k in 0..g.size(2) {
        a += sum(g[(_, _, k)], 1);
    }
    copy(a[(_, 0)], tile(y, 2, block.x));
}

#[kernel(allow(uncoalesced, unread))]
fn far_rows(
    x: &Tensor<f32, (M, N), (ld, _1)>,
    z: &Tensor<f32, { M * ld * ld * ld * ld }>,
    y: &mut Tensor<f32, M>,
) {
    assert(ld * ld * ld * ld > M);
    copy(tile(x, (32, 1), (block.x, 0)), regroup(tile(y, 32, block.x), (32, 1)));
}

#[test]
fn divisors_of_assertions_are_not_zero() {
    let message = |m: usize, k: usize, tiles: usize| {
        let x = vec![1.0f32; m * k];
        let args = [Arg::tensor(&x, [m, k]), Arg::output::<f32>([tiles]), Arg::output::<f32>([m])];
        ratio().simulate(&args).map(|done| done.get::<f32>("y").unwrap()).map_err(|why| why.to_string())
    };
    assert_eq!(message(3, 3, 1), Ok(vec![4.0; 3]));
    assert_eq!(message(1, 1, 1), Ok(vec![2.0; 1]));
    assert_eq!(
        message(5, 0, 5).unwrap_err(),
        "argument `z`: its extent 0 is `(M - 1) / K + 1`, which divides by 0: `K` is 0, the extent 1 of `x`, `M` is 5, the extent 0 of `x`"
    );
    let alone = |m: usize, k: usize| {
        let x = vec![1.0f32; m * k];
        let args = [Arg::tensor(&x, [m, k]), Arg::output::<f32>([m])];
        guarded().simulate(&args).map(|done| done.get::<f32>("y").unwrap()).map_err(|why| why.to_string())
    };
    assert_eq!(alone(5, 0), Ok(vec![1.0; 5]));
    assert_eq!(alone(6, 3), Ok(vec![4.0; 6]));
    assert!(alone(5, 3).unwrap_err().starts_with("the kernel asserts `"));
    let mut sizes = ratio().def().generate().unwrap();
    sizes.requires.retain(|require| require.of.is_none());
    let x: [f32; 0] = [];
    let args = [Arg::tensor(&x, [5, 0]), Arg::output::<f32>([5]), Arg::output::<f32>([5])];
    assert_eq!(
        tilewright_sim::run(&sizes, &args, &Options::default()).unwrap_err().to_string(),
        "the kernel asserts `M % K == 0`, which divides by 0: `K` is 0, the extent 1 of `x`, `M` is 5, the extent 0 of `x`\nhelp: where the kernel serves such launches, write assert(K == 0 || M % K == 0)"
    );
}

#[test]
fn assertions_that_overflow_are_not_false() {
    let x = vec![1.0f32; 2 * 70_000];
    let args =
        [Arg::tensor(&x, [2, 1]).strides([70_000, 1]), Arg::tensor(&x[..1], [1]), Arg::output::<f32>([2])];
    let mut kernel = far_rows().def().generate().unwrap();
    let message = |kernel: &tilewright_codegen::Generated| {
        tilewright_sim::run(kernel, &args, &Options::default()).unwrap_err().to_string()
    };
    assert_eq!(
        message(&kernel),
        "argument `z`: its extent 0 is `(((M * ld) * ld) * ld) * ld`, which overflows 64 bits: `ld` is 70000, the stride 0 of `x`, `M` is 2, the extent 0 of `x`"
    );
    kernel.requires.retain(|require| require.of.is_none());
    assert_eq!(
        message(&kernel),
        "the kernel asserts `M < ((ld * ld) * ld) * ld`, which overflows 64 bits: `M` is 2, the extent 0 of `x`, `ld` is 70000, the stride 0 of `x`"
    );
}

/// Two tensors with one leading dimension, and an assertion about it.
#[kernel]
fn one_leading_dimension(x: &Tensor<f32, (M, N), (ld, _1)>, y: &mut Tensor<f32, (L, N), (ld, _1)>) {
    assert(ld % 4 == 0);
    copy(tile(x, (1, 64), (0, block.y)), tile(y, (1, 64), (block.x, block.y)));
}

#[test]
fn strides_of_tensors_of_one_row_mean_nothing() {
    let x = numbers(2 * 80, 1);
    let n = 70;
    for (m, given, l, own) in
        [(1, 0, 1, 0), (1, 7, 2, 80), (2, 80, 1, 3), (2, 80, 2, 80), (1, 70, 1, 1), (1, 0, 3, 72)]
    {
        let args =
            [Arg::tensor(&x, [m, n]).strides([given, 1]), Arg::output::<f32>([l, n]).strides([own, 1])];
        let kernel = one_leading_dimension().def().generate().unwrap();
        let options = Options { complete: false, ..Options::default() };
        for outcome in run_every(&kernel, &args, &options).unwrap_or_else(|why| panic!("{why}")) {
            let y = outcome.get::<f32>("y").unwrap();
            let right = (0..l).all(|row| y[row * own..][..n] == x[..n]);
            assert!(right, "{m} rows apart by {given}, {l} apart by {own}: {y:?}");
        }
    }
    let args = [Arg::tensor(&x, [2, n]).strides([72, 1]), Arg::output::<f32>([2, n]).strides([76, 1])];
    let message = one_leading_dimension().simulate(&args).unwrap_err().to_string();
    assert_eq!(message, "argument `y`: its stride 0 is 76, and `ld` is 72, the stride 0 of `x`");
    let args = [Arg::tensor(&x, [2, n]).strides([73, 1]), Arg::output::<f32>([1, n]).strides([0, 1])];
    let message = one_leading_dimension().simulate(&args).unwrap_err().to_string();
    assert_eq!(message, "the kernel asserts `ld % 4 == 0`: `ld` is 73, the stride 0 of `x`");
}
