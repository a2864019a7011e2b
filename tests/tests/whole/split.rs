//! Loops whose iterations the blocks of a cluster share.

use tilewright::KernelDef;
use tilewright::prelude::*;
use tilewright_codegen::launch::Limits;
use tilewright_sim::{AccessCount, Options, run_every};

use crate::inputs;

/// c = 2·a·bᵀ + bias in batches, by wgmma and a producer. With 3 and 6 parts of K some blocks have columns of the sums.
#[kernel(arch = 90, choose((BM, BN, SPLIT, CLUSTER) in [
    (64, 64, 2, 1), (128, 32, 4, 1), (64, 16, 8, 1), (192, 48, 3, 1), (64, 64, 1, 1), (64, 96, 3, 1), (64, 48, 6, 1),
    (64, 64, 2, 2), (64, 96, 3, 4), (128, 32, 4, 2), (64, 32, 1, 4), (64, 64, 2, 8),
]))]
fn batched<const BM: usize, const BN: usize, const SPLIT: usize, const CLUSTER: usize>(
    a: &Tensor<bf16, (M, K, L), (lda, _1, a_2)>,
    b: &Tensor<bf16, (N, K, L), (ldb, _1, b_2)>,
    bias: &Tensor<f32, N>,
    c: &mut Tensor<f32, (M, N, L), (ldc, _1, c_2)>,
) {
    cluster(CLUSTER);
    persistent();
    let (a, b, c) = (a[(_, _, block.z)], b[(_, _, block.z)], c[(_, _, block.z)]);
    let (ga, gb) = (tile(a, (BM, 64), (block.x, _)), tile(b, (BN, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((BM, 64)), shared::<bf16>((BN, 64)));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = BM / 64).accumulators((BM, BN), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2, producer = warp, split = cluster(SPLIT)) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    let row = tile(bias, BN, block.y).along(1);
    copy(map((acc, row), |x, r| 2.0 * x + r), tile(c, (BM, BN), (block.x, block.y)));
}

/// c = 2·a·bᵀ + bias, where blocks divide the tiles of a last wave that is not full.
#[kernel(arch = 90, allow(uncoalesced), choose((BM, BN, PARTS, CLUSTER) in [
    (64, 64, 2, 1), (128, 32, 4, 1), (64, 96, 3, 1), (64, 16, 8, 1), (64, 64, 1, 1), (64, 64, 2, 2), (192, 32, 6, 1),
]))]
fn of_last_wave<const BM: usize, const BN: usize, const PARTS: usize, const CLUSTER: usize>(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    bias: &Tensor<f32, N>,
    c: &mut Tensor<f32, (M, N), (c_0, c_1)>,
) {
    cluster(CLUSTER);
    persistent();
    let (ga, gb) = (tile(a, (BM, 64), (block.x, _)), tile(b, (BN, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((BM, 64)), shared::<bf16>((BN, 64)));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = BM / 64).accumulators((BM, BN), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2, producer = warp, split = blocks(PARTS)) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    let row = tile(bias, BN, block.y).along(1);
    copy(map((acc, row), |x, r| 2.0 * x + r), tile(c, (BM, BN), (block.x, block.y)));
}

/// c = a·bᵀ − a·b₂ᵀ by mma.sync, into contiguous columns, without a producer.
#[kernel(arch = 90, threads = 128, choose(SPLIT in [2, 4, 1]))]
fn of_two<const SPLIT: usize>(
    a: &Tensor<f16, (M, K), (lda, _1)>,
    b: &Tensor<f16, (N, K), (ldb, _1)>,
    b2: &Tensor<f16, (N, K), (ldb2, _1)>,
    c: &mut Tensor<f16, (M, N)>,
) {
    let ga = tile(a, (64, 32), (block.x, _));
    let (gb, gb2) = (tile(b, (32, 32), (block.y, _)), tile(b2, (32, 32), (block.y, _)));
    let (sa, sb, sb2) = (shared::<f16>((64, 32)), shared::<f16>((32, 32)), shared::<f16>((32, 32)));
    let mma = tiled_mma::<f16, f32>();
    let mut acc = mma.accumulators((64, 32), 0.0);
    let mut acc2 = mma.accumulators((64, 32), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2, split = cluster(SPLIT)) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        copy(gb2[(_, _, k)], sb2);
        gemm(sa, sb, &mut acc);
        gemm(sa, sb2, &mut acc2);
    }
    let difference = acc - acc2;
    copy(difference, tile(c, (64, 32), (block.x, block.y)));
}

/// The same by two products of mma.sync, without a producer.
#[kernel(arch = 80, threads = 128, choose(PARTS in [2, 4, 1]))]
fn two_of_last_wave<const PARTS: usize>(
    a: &Tensor<f16, (M, K), (lda, _1)>,
    b: &Tensor<f16, (N, K), (ldb, _1)>,
    b2: &Tensor<f16, (N, K), (ldb2, _1)>,
    c: &mut Tensor<f16, (M, N)>,
) {
    persistent();
    let ga = tile(a, (64, 32), (block.x, _));
    let (gb, gb2) = (tile(b, (32, 32), (block.y, _)), tile(b2, (32, 32), (block.y, _)));
    let (sa, sb, sb2) = (shared::<f16>((64, 32)), shared::<f16>((32, 32)), shared::<f16>((32, 32)));
    let mma = tiled_mma::<f16, f32>();
    let mut acc = mma.accumulators((64, 32), 0.0);
    let mut acc2 = mma.accumulators((64, 32), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2, split = blocks(PARTS)) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        copy(gb2[(_, _, k)], sb2);
        gemm(sa, sb, &mut acc);
        gemm(sa, sb2, &mut acc2);
    }
    let difference = acc - acc2;
    copy(difference, tile(c, (64, 32), (block.x, block.y)));
}

#[test]
fn batches_by_a_producer() {
    let kernel = batched().def().generate().unwrap();
    assert_eq!(kernel.report.left_out, [], "{}", kernel.report);
    assert!(kernel.source().contains("cluster_sync();"));
    inputs(batched().def()).written([
        "M = 128, N = 64, K = 512, L = 2",
        "M = 70, N = 40, K = 200, L = 3",
        "M = 200, N = 88, K = 8, L = 1",
        "M = 1, N = 1, K = 700, L = 2",
        "M = 64, N = 64, K = 0, L = 1",
    ]);
}

/// Whole waves, and a last one with parts; the last wave alone; and parts without iterations.
#[test]
fn blocks_divide_the_tiles_of_the_last_wave() {
    let kernel = of_last_wave().def().generate().unwrap();
    assert_eq!(kernel.report.left_out, [], "{}", kernel.report);
    let mut divided = 0;
    for (sizes, multiprocessors) in [
        ("M = 300, N = 200, K = 264", 16),
        ("M = 200, N = 136, K = 72", 12),
        ("M = 1, N = 1, K = 700", 132),
        ("M = 64, N = 64, K = 0", 132),
    ] {
        let inputs = inputs(of_last_wave().def()).multiprocessors(multiprocessors);
        let extent = |at: usize| sizes.split([' ', ',']).nth(at).unwrap();
        let rows = format!("{sizes}, c_0 = {}, c_1 = 1", extent(6));
        inputs.written([&*rows, &format!("{sizes}, c_0 = 1, c_1 = {}", extent(2))]);
        let limits = Limits { multiprocessors, ..Limits::HOPPER };
        let options = Options { limits, ..Options::default() };
        for outcome in run_every(&kernel, &inputs.args(&rows), &options).unwrap() {
            let is_sum = |of: &AccessCount| of.tensor == "acc_parts" && of.executed > 0;
            divided += usize::from(outcome.accesses().iter().any(is_sum));
        }
    }
    assert!(divided > 6, "{divided} launches divided tiles");
}

#[test]
fn two_products_without_a_producer() {
    of_two_products(of_two().def());
}

#[test]
fn two_products_of_the_last_wave() {
    of_two_products(two_of_last_wave().def());
}

#[track_caller]
fn of_two_products(def: &KernelDef) {
    let kernel = def.generate().unwrap();
    assert_eq!(kernel.report.left_out, [], "{}", kernel.report);
    inputs(def).written([
        "M = 64, N = 64, K = 256",
        "M = 70, N = 40, K = 200",
        "M = 130, N = 33, K = 9",
        "M = 1, N = 1, K = 300",
    ]);
}

/// The first three tiles along K alone, whose sums are promoted, and above the diagonal alone.
#[kernel(arch = 90, choose(SPLIT in [2, 4]))]
fn upper<const SPLIT: usize>(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (32, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((32, 64)));
    let mma = tiled_mma::<bf16, f32>(warpgroups = 1);
    let mut acc = mma.accumulators((64, 32), 0.0);
    for k in pipelined(0..min(ga.size(2), 3), stages = 2, producer = warp, split = cluster(SPLIT)) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        let mut part = mma.accumulators((64, 32), 0.0);
        gemm(sa, sb, &mut part);
        acc += part;
    }
    let masked = map(acc, |x, at| if at.0 <= at.1 { x } else { 0.0 });
    copy(masked, tile(c, (64, 32), (block.x, block.y)));
}

#[test]
fn a_part_of_k_above_the_diagonal() {
    let kernel = upper().def().generate().unwrap();
    assert_eq!(kernel.report.left_out, [], "{}", kernel.report);
    inputs(upper().def()).written([
        "M = 128, N = 64, K = 512",
        "M = 70, N = 100, K = 328",
        "M = 65, N = 33, K = 72",
    ]);
}

/// A launch of other blocks than the program counts on ends with a fault or a refusal, or runs all the same.
#[test]
fn a_divided_product_that_is_not_persistent_does_not_panic() {
    let mut kernel = of_last_wave().def().generate().unwrap();
    kernel.variants.iter_mut().for_each(|variant| variant.program.launch.persistent = false);
    let args = inputs(of_last_wave().def()).args("M = 130, N = 64, K = 128, c_0 = 64, c_1 = 1");
    let runs = (0..kernel.variants.len())
        .map(|variant| tilewright_sim::run_variant(&kernel, variant, &args, &Options::default()));
    assert!(runs.filter(|run| matches!(run, Err(tilewright_sim::Error::Fault(_)))).count() > 0);
}
