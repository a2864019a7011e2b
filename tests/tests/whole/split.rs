//! Loops whose iterations the blocks of a cluster share.

use tilewright::prelude::*;
use tilewright_codegen::Generated;
use tilewright_codegen::launch::Limits;
use tilewright_sim::{AccessCount, Arg, Options, Outcome, run_every};

use crate::elements::{bits, numbers, options};

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

fn small(count: usize, seed: usize) -> Vec<f32> {
    numbers(count, seed).iter().map(|x| x.clamp(-2.0, 2.0)).collect()
}

#[track_caller]
fn check(kernel: &Generated, args: &[Arg], right: &dyn Fn(&Outcome)) {
    let mut seen = Vec::new();
    for outcome in run_every(kernel, args, &options()).unwrap_or_else(|e| panic!("{e}")) {
        right(&outcome);
        seen.push(outcome.variant());
    }
    assert!(!seen.is_empty());
}

#[test]
fn batches_by_a_producer() {
    let kernel = batched().def().generate().unwrap();
    assert_eq!(kernel.report.left_out, [], "{}", kernel.report);
    assert!(kernel.source().contains("cluster_sync();"));
    for (m, n, k, l) in [(128, 64, 512, 2), (70, 40, 200, 3), (200, 88, 8, 1), (1, 1, 700, 2), (64, 64, 0, 1)]
    {
        let (a, b, bias) = (small(m * k * l, 1), small(n * k * l, 2), small(n, 3));
        let args = [
            Arg::tensor(&bits(&a), [m, k, l]).strides([k, 1, m * k]),
            Arg::tensor(&bits(&b), [n, k, l]).strides([k, 1, n * k]),
            Arg::tensor(&bias, [n]),
            Arg::output::<f32>([m, n, l]).strides([n, 1, m * n]),
        ];
        let at = |batch: usize, i: usize, j: usize| {
            let of = |all: &[f32], rows: usize, row: usize, x: usize| all[(batch * rows + row) * k + x];
            2.0 * (0..k).map(|x| of(&a, m, i, x) * of(&b, n, j, x)).sum::<f32>() + bias[j]
        };
        let wanted: Vec<f32> = (0..l * m * n).map(|p| at(p / (m * n), p / n % m, p % n)).collect();
        check(&kernel, &args, &|outcome| {
            assert_eq!(outcome.get::<f32>("c").unwrap(), wanted, "{m} {n} {k} {l}, {}", outcome.variant());
        });
    }
}

/// Whole waves, and a last one with parts; the last wave alone; and parts without iterations.
#[test]
fn blocks_divide_the_tiles_of_the_last_wave() {
    let kernel = of_last_wave().def().generate().unwrap();
    assert_eq!(kernel.report.left_out, [], "{}", kernel.report);
    let mut divided = 0;
    for (m, n, k, multiprocessors) in
        [(300, 200, 264, 16), (200, 136, 72, 12), (1, 1, 700, 132), (64, 64, 0, 132)]
    {
        let (a, b, bias) = (small(m * k, 1), small(n * k, 2), small(n, 3));
        let at =
            |i: usize, j: usize| 2.0 * (0..k).map(|x| a[i * k + x] * b[j * k + x]).sum::<f32>() + bias[j];
        for strides in [[n, 1], [1, m]] {
            let args = [
                Arg::tensor(&bits(&a), [m, k]).strides([k, 1]),
                Arg::tensor(&bits(&b), [n, k]).strides([k, 1]),
                Arg::tensor(&bias, [n]),
                Arg::output::<f32>([m, n]).strides(strides),
            ];
            let wanted: Vec<f32> = match strides {
                [_, 1] => (0..m * n).map(|p| at(p / n, p % n)).collect(),
                _ => (0..m * n).map(|p| at(p % m, p / m)).collect(),
            };
            let limits = Limits { multiprocessors, ..Limits::HOPPER };
            let options = Options { limits, ..options() };
            for outcome in run_every(&kernel, &args, &options).unwrap_or_else(|e| panic!("{e}")) {
                let is_sum = |of: &&AccessCount| of.tensor == "acc_parts" && of.executed > 0;
                divided += usize::from(outcome.accesses().iter().any(|of| is_sum(&of)));
                let what = format!("{m} {n} {k} {multiprocessors}, variant {}", outcome.variant());
                assert_eq!(outcome.get::<f32>("c").unwrap(), wanted, "{what}");
            }
        }
    }
    assert!(divided > 12, "{divided} launches divided tiles");
}

#[test]
fn two_products_without_a_producer() {
    of_two_products(of_two().def().generate().unwrap());
}

#[test]
fn two_products_of_the_last_wave() {
    of_two_products(two_of_last_wave().def().generate().unwrap());
}

fn of_two_products(kernel: Generated) {
    assert_eq!(kernel.report.left_out, [], "{}", kernel.report);
    for (m, n, k) in [(64, 64, 256), (70, 40, 200), (130, 33, 9), (1, 1, 300)] {
        let half = |all: &[f32]| all.iter().map(|x| f16::from_f32(*x)).collect::<Vec<_>>();
        let (a, b, b2) = (small(m * k, 1), small(n * k, 2), small(n * k, 5));
        let args = [
            Arg::tensor(&half(&a), [m, k]).strides([k, 1]),
            Arg::tensor(&half(&b), [n, k]).strides([k, 1]),
            Arg::tensor(&half(&b2), [n, k]).strides([k, 1]),
            Arg::output::<f16>([m, n]).strides([1, m]),
        ];
        let at =
            |i: usize, j: usize| (0..k).map(|x| a[i * k + x] * (b[j * k + x] - b2[j * k + x])).sum::<f32>();
        let wanted: Vec<f32> = (0..m * n).map(|p| at(p % m, p / m)).collect();
        check(&kernel, &args, &|outcome| {
            assert_eq!(outcome.get::<f16>("c").unwrap(), half(&wanted), "{m} {n} {k}, {}", outcome.variant());
        });
    }
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
    for (m, n, k) in [(128, 64, 512), (70, 100, 328), (65, 33, 72)] {
        let (a, b) = (small(m * k, 1), small(n * k, 2));
        let args = [
            Arg::tensor(&bits(&a), [m, k]).strides([k, 1]),
            Arg::tensor(&bits(&b), [n, k]).strides([k, 1]),
            Arg::output::<f32>([m, n]).strides([n, 1]),
        ];
        let at = |i: usize, j: usize| (0..k.min(192)).map(|x| a[i * k + x] * b[j * k + x]).sum::<f32>();
        let wanted: Vec<f32> =
            (0..m * n).map(|p| if p / n <= p % n { at(p / n, p % n) } else { 0.0 }).collect();
        check(&kernel, &args, &|outcome| {
            assert_eq!(outcome.get::<f32>("c").unwrap(), wanted, "{m} {n} {k}, {}", outcome.variant());
        });
    }
}

/// A launch of other blocks than the program counts on ends with a fault or a refusal, or runs all the same.
#[test]
fn a_divided_product_that_is_not_persistent_does_not_panic() {
    let mut kernel = of_last_wave().def().generate().unwrap();
    kernel.variants.iter_mut().for_each(|variant| variant.program.launch.persistent = false);
    let (m, n, k) = (130, 64, 128);
    let (a, b, bias) = (small(m * k, 1), small(n * k, 2), small(n, 3));
    let args = [
        Arg::tensor(&bits(&a), [m, k]).strides([k, 1]),
        Arg::tensor(&bits(&b), [n, k]).strides([k, 1]),
        Arg::tensor(&bias, [n]),
        Arg::output::<f32>([m, n]).strides([n, 1]),
    ];
    let runs = (0..kernel.variants.len())
        .map(|variant| tilewright_sim::run_variant(&kernel, variant, &args, &Options::default()));
    assert!(runs.filter(|run| matches!(run, Err(tilewright_sim::Error::Fault(_)))).count() > 0);
}
