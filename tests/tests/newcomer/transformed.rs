//! Loops with a producer that compute further shared tiles from the copied ones: by a group of their own where that is possible.

use tilewright::KernelDef;
use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

/// Sizes that tiles divide and others. The text computes in double precision; operands of instructions are rounded.
#[track_caller]
fn check(def: &KernelDef, within: f64) {
    inputs(def).schedules(3).near(
        within,
        [
            "M = 128, N = 64, K = 64",
            "M = 70, N = 72, K = 72",
            "M = 130, N = 40, K = 200",
            "M = 4, N = 8, K = 8",
        ],
    );
}

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
    let is_by_group = |def: &KernelDef| def.generate().unwrap().source().contains("// transform");
    let three = three_products();
    assert_eq!(three.source().matches("float* const").count(), 4, "sa, sb, low and a staged c");
    for (def, within) in [
        (three.def(), 1e-3),
        (converted().def(), 2e-2),
        (summed().def(), 1e-2),
        (divided().def(), 1e-2),
        (by_columns().def(), 1e-2),
        (of_both_orders().def(), 1e-2),
    ] {
        assert!(is_by_group(def), "{}", def.name());
        check(def, within);
    }
    assert!(!is_by_group(by_consumers().def()));
    check(by_consumers().def(), 1e-2);
}
