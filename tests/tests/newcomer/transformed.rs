//! Loops with a producer that compute further shared tiles from the copied ones: by a group of their own where that is possible.

use crate::{drawn, generated};
use tilewright::prelude::*;
use tilewright_codegen::Generated;
use tilewright_sim::{Arg, Options, run_every};

/// Every variant in several schedules, of `a` and `b` by rows and `c` by rows, at sizes that tiles divide and others; `wanted` is
/// the product of two elements.
#[track_caller]
fn check(kernel: Generated, within: f64, wanted: fn(f64, f64) -> f64) {
    let is_by_columns = kernel.name == "by_columns";
    let options = Options { schedules: 3, ..Options::default() };
    for [m, n, k] in [[128, 64, 64], [70, 72, 72], [130, 40, 200], [4, 8, 8]] {
        let (a, b) = (drawn(m * k, 1), drawn(n * k, 2));
        let operand = |x: &[f32], rows: usize| match is_by_columns {
            true => {
                let columns: Vec<f32> = (0..rows * k).map(|at| x[at % rows * k + at / rows]).collect();
                Arg::tensor(&columns, [rows, k])
            }
            false => Arg::tensor(x, [rows, k]).strides([k, 1]),
        };
        let args = [operand(&a, m), operand(&b, n), Arg::output::<f32>([m, n]).strides([n, 1])];
        let outcomes = run_every(&kernel, &args, &options).unwrap_or_else(|fault| panic!("{fault}"));
        for (variant, outcome) in outcomes.iter().enumerate() {
            for (at, got) in outcome.get::<f32>("c").unwrap().into_iter().enumerate() {
                let (i, j) = (at / n, at % n);
                let dot = |of: fn(f64, f64) -> f64| -> f64 {
                    (0..k).map(|p| of(a[i * k + p].into(), b[j * k + p].into())).sum()
                };
                let (right, size) = (dot(wanted), dot(|a, b| (a * b).abs() + 1.0));
                let error = (f64::from(got) - right).abs();
                assert!(
                    error <= within * size,
                    "{m}x{n}x{k}, variant {variant}, ({i}, {j}): {got}, and {right} is right"
                );
            }
        }
    }
}

/// The error of elements that are rounded to bf16, of both operands.
const ROUNDED: f64 = 1.0 / 128.0;

/// Three products of terms of tf32 are nearly one of f32. The higher terms take the memory of the copied tile.
#[kernel(arch = 90)]
fn three_products(
    a: &Tensor<f32, (M, K), (lda, _1)>,
    b: &Tensor<f32, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    persistent();
    let (ga, gb) = (tile(a, (128, 32), (block.x, _)), tile(b, (64, 32), (block.y, _)));
    let (sa, sb) = (shared::<f32>((128, 32)), shared::<f32>((64, 32)));
    let (high, low) = (shared::<tf32>((64, 32)), shared::<tf32>((64, 32)));
    let mma = tiled_mma::<tf32, f32>(warpgroups = 2);
    let mut acc = mma.accumulators((128, 64), 0.0);
    let terms = |x| (x as tf32, (x - (x as tf32) as f32) as tf32);
    for k in pipelined(0..ga.size(2), stages = 3, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        let (left, right) = (map(sa, terms), map(sb, terms));
        copy(right.0, high);
        copy(right.1, low);
        gemm(left.1, high, &mut acc);
        gemm(left.0, low, &mut acc);
        gemm(left.0, high, &mut acc);
    }
    copy(acc, tile(c, (128, 64), (block.x, block.y)));
}

/// Both operands are converted to a narrower type, one of them by a function of two tiles. Blocks of a cluster share columns.
#[kernel(arch = 90)]
fn converted(
    a: &Tensor<f32, (M, K), (lda, _1)>,
    b: &Tensor<f32, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    persistent();
    cluster(2);
    let (ga, gb) = (tile(a, (64, 32), (block.x, _)), tile(b, (64, 32), (block.y, _)));
    let (sa, sb) = (shared::<f32>((64, 32)), shared::<f32>((64, 32)));
    let (left, right) = (shared::<bf16>((64, 32)), shared::<bf16>((64, 32)));
    let mma = tiled_mma::<bf16, f32>(warpgroups = 1);
    let mut acc = mma.accumulators((64, 64), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        copy(map((sa, sb), |a, b| (a + b) - b), left);
        copy(map(sb, |x| max(x, 0.0)), right);
        gemm(left, right, &mut acc);
    }
    copy(acc, tile(c, (64, 64), (block.x, block.y)));
}

/// Consumers read computed tiles too, and tiles of another loop are multiplied as they are. A loop around both runs twice.
#[kernel(arch = 90)]
fn summed(
    a: &Tensor<f32, (M, K), (lda, _1)>,
    b: &Tensor<f32, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (64, 32), (block.x, _)), tile(b, (64, 32), (block.y, _)));
    let (sa, sb, da, db) =
        (shared::<f32>((64, 32)), shared::<f32>((64, 32)), shared::<f32>((64, 32)), shared::<f32>((64, 32)));
    let (left, right) = (shared::<tf32>((64, 32)), shared::<tf32>((64, 32)));
    let more = shared::<f32>((64, 32));
    let mma = tiled_mma::<tf32, f32>(warpgroups = 1);
    let mut acc = mma.accumulators((64, 64), 0.0);
    let mut total = full::<f32>((1, 64), 0.0);
    for j in 0..2 {
        for k in pipelined(0..ga.size(2), stages = 2, producer = warp) {
            copy(ga[(_, _, k)], sa);
            copy(gb[(_, _, k)], sb);
            copy(map(sa, |x| x as tf32), left);
            copy(map(sb, |x| x as tf32), right);
            copy(map(sb, |x| 0.25 * x), more);
            gemm(left, right, &mut acc);
            total += permute(sum(more, 1), (1, 0));
        }
        for k in pipelined(0..ga.size(2), stages = 2, producer = warp) {
            copy(ga[(_, _, k)], da);
            copy(gb[(_, _, k)], db);
            total += permute(sum(map(db, |x| 0.25 * x), 1), (1, 0));
        }
    }
    copy(0.5 * acc + total, tile(c, (64, 64), (block.x, block.y)));
}

/// The blocks of a cluster divide K.
#[kernel(arch = 90)]
fn divided(
    a: &Tensor<f32, (M, K), (lda, _1)>,
    b: &Tensor<f32, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (64, 32), (block.x, _)), tile(b, (32, 32), (block.y, _)));
    let (sa, sb) = (shared::<f32>((64, 32)), shared::<f32>((32, 32)));
    let right = shared::<tf32>((32, 32));
    let mma = tiled_mma::<tf32, f32>(warpgroups = 1);
    let mut acc = mma.accumulators((64, 32), 0.0);
    for k in pipelined(0..ga.size(2), stages = 3, producer = warp, split = cluster(2)) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        copy(map(sb, |x| -x as tf32), right);
        gemm(map(sa, |x| x as tf32), right, &mut acc);
    }
    copy(acc, tile(c, (64, 32), (block.x, block.y)));
}

/// Tensor cores read tf32 along K, and the copied tiles are contiguous along M and N. One function reads tiles of both orders.
#[kernel(arch = 90, allow(bank_conflicts))]
fn by_columns(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, c: &mut Tensor<f32, (M, N), (ldc, _1)>) {
    persistent();
    let (ga, gb) = (tile(a, (128, 32), (block.x, _)), tile(b, (32, 32), (block.y, _)));
    let (sa, sb) = (shared::<f32>((128, 32)), shared::<f32>((32, 32)));
    let right = shared::<tf32>((32, 32));
    let mma = tiled_mma::<tf32, f32>(warpgroups = 2);
    let mut acc = mma.accumulators((128, 32), 0.0);
    for k in pipelined(0..ga.size(2), stages = 3, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        copy(map(sb, |x| x as tf32), right);
        gemm(map(sa, |x| x as tf32), right, &mut acc);
    }
    copy(acc, tile(c, (128, 32), (block.x, block.y)));
}

/// Tiles of both orders in one function: each has memory of its own.
#[kernel(arch = 90, allow(bank_conflicts))]
fn of_both_orders(
    a: &Tensor<f32, (M, K), (lda, _1)>,
    b: &Tensor<f32, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let (sa, sb) = (shared::<f32>((64, 64)), shared::<f32>((64, 64)));
    let (left, right) = (shared::<tf32>((64, 64)), shared::<tf32>((64, 64)));
    let mma = tiled_mma::<tf32, f32>(warpgroups = 1);
    let mut acc = mma.accumulators((64, 64), 0.0);
    for k in pipelined(0..ga.size(2), stages = 1, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(permute(gb[(_, _, k)], (1, 0)), sb);
        copy(map((sa, sb), |a, b| (a + 0.0 * b) as tf32), left);
        copy(map(permute(sb, (1, 0)), |x| x as tf32), right);
        gemm(left, right, &mut acc);
    }
    copy(acc, tile(c, (64, 64), (block.x, block.y)));
}

/// Coordinates of elements, and a tile that is used after the loop: consumers compute such tiles.
#[kernel(arch = 90)]
fn by_consumers(
    a: &Tensor<f32, (M, K), (lda, _1)>,
    b: &Tensor<f32, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (64, 32), (block.x, _)), tile(b, (32, 32), (block.y, _)));
    let (sa, sb) = (shared::<f32>((64, 32)), shared::<f32>((32, 32)));
    let (left, right) = (shared::<tf32>((64, 32)), shared::<tf32>((32, 32)));
    let last = shared::<f32>((32, 32));
    let mma = tiled_mma::<tf32, f32>(warpgroups = 1);
    let mut acc = mma.accumulators((64, 32), 0.0);
    for k in pipelined(0..ga.size(2), stages = 3, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        copy(map(sa, |x, at| if at.1 < K { x as tf32 } else { 0.0 as tf32 }), left);
        copy(map(sb, |x| x as tf32), right);
        gemm(left, right, &mut acc);
    }
    copy(map(right, |x| 0.0 * (x as f32)), last);
    copy(acc + permute(last[(_, 0)].along(0), (1, 0)), tile(c, (64, 32), (block.x, block.y)));
}

#[test]
fn tiles_are_computed_by_a_group_of_their_own() {
    let is_by_group = |kernel: &Generated| kernel.source().contains("// transform");
    let three = generated!(three_products());
    assert_eq!(three.source().matches("float* const").count(), 4, "sa, sb, low and a staged c");
    let kernels = [
        (three, 2f64.powi(-19), (|a, b| a * b) as fn(f64, f64) -> f64),
        (generated!(converted()), ROUNDED, |a, b| a * b.max(0.0)),
        (generated!(summed()), 2f64.powi(-9), |a, b| a * b + b),
        (generated!(divided()), 2f64.powi(-9), |a, b| -a * b),
        (generated!(by_columns()), 2f64.powi(-9), |a, b| a * b),
        (generated!(of_both_orders()), 2f64.powi(-9), |a, b| a * b),
    ];
    for (kernel, within, wanted) in kernels {
        assert!(is_by_group(&kernel), "{}", kernel.source());
        check(kernel, within, wanted);
    }
    let kernel = generated!(by_consumers());
    assert!(!is_by_group(&kernel));
    check(kernel, 2f64.powi(-9), |a, b| a * b);
}
