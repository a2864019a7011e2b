//! Results that bulk stores write from buffers in shared memory, part after part.

use tilewright::prelude::*;
use tilewright_codegen::Generated;
use tilewright_sim::{Arg, Outcome, run_every};

use crate::elements::{bits, numbers, options};

/// c = a·bᵀ + c, in tiles of any size.
#[kernel(arch = 90)]
fn added<const BM: usize = 128, const BN: usize = 96, const WARPGROUPS: usize = 2>(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<bf16, (M, N), (ldc, _1)>,
) {
    persistent();
    let (ga, gb) = (tile(a, (BM, 64), (block.x, _)), tile(b, (BN, 64), (block.y, _)));
    let gc = tile(c, (BM, BN), (block.x, block.y));
    let (sa, sb) = (shared::<bf16>((BM, 64)), shared::<bf16>((BN, 64)));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = WARPGROUPS).accumulators((BM, BN), 0.0);
    for k in pipelined(0..ga.size(2), most_stages = 16, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(map((acc, gc), |x, before| x + (before as f32)), gc);
}

/// c = a·bᵀ with contiguous columns, and its bytes beside it; one block for each tile.
#[kernel(arch = 90)]
fn columns<const BM: usize = 128, const BN: usize = 80>(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<bf16, (M, N)>,
    d: &mut Tensor<e4m3, (M, N), (ldd, _1)>,
) {
    let (ga, gb) = (tile(a, (BM, 64), (block.x, _)), tile(b, (BN, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((BM, 64)), shared::<bf16>((BN, 64)));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = 2).accumulators((BM, BN), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (BM, BN), (block.x, block.y)));
    copy(map(acc, |x| x / 4.0), tile(d, (BM, BN), (block.x, block.y)));
}

/// Every product of a list goes to the same tile: the last one remains.
#[kernel(arch = 90)]
fn overwritten(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<bf16, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let gc = tile(c, (64, 64), (block.x, block.y));
    let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((64, 64)));
    let mma = tiled_mma::<bf16, f32>(warpgroups = 1);
    for _ in 0..2 {
        let mut acc = mma.accumulators((64, 64), 0.0);
        for k in pipelined(0..ga.size(2), stages = 2, producer = warp) {
            copy(ga[(_, _, k)], sa);
            copy(gb[(_, _, k)], sb);
            gemm(sa, sb, &mut acc);
        }
        copy(acc, gc);
    }
}

/// By mma.sync, without a producer.
#[kernel(arch = 90, threads = 128)]
fn by_warps<const BM: usize = 64, const BN: usize = 64>(
    a: &Tensor<f16, (M, K), (lda, _1)>,
    b: &Tensor<f16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f16, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (BM, 32), (block.x, _)), tile(b, (BN, 32), (block.y, _)));
    let (sa, sb) = (shared::<f16>((BM, 32)), shared::<f16>((BN, 32)));
    let mut acc = tiled_mma("mma_m16n8k16_f16", layout!((4, 1))).accumulators((BM, BN), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (BM, BN), (block.x, block.y)));
}

/// Sizes where rows begin at multiples of 16 bytes, and others.
const SIZES: [(usize, usize, usize); 5] =
    [(256, 192, 64), (130, 200, 72), (300, 88, 8), (65, 67, 130), (1, 1, 1)];

/// Compares a result with the sums of a product of (m, n).
type Right<'r> = dyn Fn(&Outcome, &[f32], usize, usize) + 'r;

/// Small integers, the product and the results of every variant.
#[track_caller]
fn check(kernel: &Generated, outputs: &dyn Fn(usize, usize) -> Vec<Arg>, right: &Right<'_>) {
    for (m, n, k) in SIZES {
        let small =
            |count, seed| numbers(count, seed).iter().map(|x| x.clamp(-1.0, 1.0)).collect::<Vec<f32>>();
        let (a, b) = (small(m * k, 1), small(n * k, 2));
        let sums: Vec<f32> =
            (0..m * n).map(|at| (0..k).map(|l| a[at / n * k + l] * b[at % n * k + l]).sum::<f32>()).collect();
        let mut args = vec![
            Arg::tensor(&bits(&a), [m, k]).strides([k, 1]),
            Arg::tensor(&bits(&b), [n, k]).strides([k, 1]),
        ];
        args.extend(outputs(m, n));
        for outcome in run_every(kernel, &args, &options()).unwrap_or_else(|e| panic!("{m} {n} {k}: {e}")) {
            right(&outcome, &sums, m, n);
        }
    }
}

fn is_stored(kernel: &Generated, times: usize) {
    let source = kernel.source();
    let body = &source[source.find("extern").unwrap()..];
    assert_eq!(body.matches("bulk_store_2d(").count(), times, "{source}");
}

/// The most stages beside the buffers, which are narrower where that gives a stage more than four.
#[test]
fn parts_of_any_width_and_number() {
    let tiles = [
        (128, 96, 2, 7),
        (128, 256, 2, 4),
        (256, 64, 2, 4),
        (64, 16, 1, 16),
        (64, 80, 1, 12),
        (64, 192, 1, 6),
        (192, 192, 3, 4),
        (192, 128, 3, 5),
    ];
    for (bm, bn, warpgroups, stages) in tiles {
        let of = [("BM", bm), ("BN", bn), ("WARPGROUPS", warpgroups)];
        let kernel = added().specialize(&of).unwrap().def().generate().unwrap();
        is_stored(&kernel, 1);
        assert!(kernel.source().contains(&format!("ring_slots = {stages}")), "{}", kernel.source());
        check(
            &kernel,
            &|m, n| vec![Arg::in_out(&bits(&numbers(m * n, 3)), [m, n]).strides([n, 1])],
            &|outcome, sums, m, n| {
                let wanted: Vec<f32> =
                    sums.iter().zip(numbers(m * n, 3)).map(|(sum, before)| sum + before).collect();
                assert_eq!(outcome.get::<bf16>("c").unwrap(), bits(&wanted), "{bm} {bn}, {m} {n}");
            },
        );
    }
}

#[test]
fn columns_and_bytes() {
    let kernel = columns().def().generate().unwrap();
    is_stored(&kernel, 2);
    check(
        &kernel,
        &|m, n| {
            vec![Arg::output::<bf16>([m, n]).strides([1, m]), Arg::output::<e4m3>([m, n]).strides([n, 1])]
        },
        &|outcome, sums, m, n| {
            let turned: Vec<f32> = (0..m * n).map(|at| sums[at % m * n + at / m]).collect();
            assert_eq!(outcome.get::<bf16>("c").unwrap(), bits(&turned), "{m} {n}");
            let bytes = outcome.get::<e4m3>("d").unwrap();
            let wanted = sums.iter().map(|sum| e4m3::from_f32(sum / 4.0).to_f32());
            assert!(bytes.iter().map(|byte| byte.to_f32()).eq(wanted), "{m} {n}");
        },
    );
}

#[test]
fn what_is_written_again_is_stored_by_threads() {
    let kernel = overwritten().def().generate().unwrap();
    is_stored(&kernel, 0);
    check(
        &kernel,
        &|m, n| vec![Arg::in_out(&bits(&numbers(m * n, 3)), [m, n]).strides([n, 1])],
        &|outcome, sums, m, n| assert_eq!(outcome.get::<bf16>("c").unwrap(), bits(sums), "{m} {n}"),
    );
}

#[test]
fn products_of_warps_are_stored_so_too() {
    let kernel = by_warps().def().generate().unwrap();
    is_stored(&kernel, 1);
}
