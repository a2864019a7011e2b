//! Results that bulk stores write from buffers in shared memory, part after part.

use crate::inputs;
use tilewright::KernelDef;
use tilewright::prelude::*;

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
const SIZES: [&str; 5] = [
    "M = 256, N = 192, K = 64",
    "M = 130, N = 200, K = 72",
    "M = 300, N = 88, K = 8",
    "M = 65, N = 67, K = 130",
    "M = 1, N = 1, K = 1",
];

fn is_stored(def: &KernelDef, times: usize) {
    let kernel = def.generate().unwrap();
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
        let kernel = added().specialize(&of).unwrap();
        is_stored(kernel.def(), 1);
        assert!(kernel.source().contains(&format!("ring_slots = {stages}")), "{}", kernel.source());
        inputs(kernel.def()).with("c", |x| x).written(SIZES);
    }
}

#[test]
fn columns_and_bytes() {
    is_stored(columns().def(), 2);
    inputs(columns().def()).near(1e-3, SIZES);
}

#[test]
fn what_is_written_again_is_stored_by_threads() {
    is_stored(overwritten().def(), 0);
    inputs(overwritten().def()).with("c", |x| x).written(SIZES);
}

#[test]
fn products_of_warps_are_stored_so_too() {
    is_stored(by_warps().def(), 1);
}
