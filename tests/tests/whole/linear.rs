//! Tensor-core products from whole tiles.

use tilewright::prelude::*;
use tilewright_sim::{Arg, run_every};

use crate::{inputs, options};

#[allow(dead_code)]
#[path = "../../../examples/linear.rs"]
mod example;

#[test]
fn the_example_is_right() {
    let tile = [("BM", 64), ("BN", 128), ("BK", 32)];
    inputs(example::linear().specialize(&tile).unwrap().def())
        .with("w", |x| x / 4.0)
        .near(1e-3, ["M = 64, N = 128, K = 64", "M = 65, N = 130, K = 33", "M = 3, N = 8, K = 100"]);
    // Copies of single elements, more of them than are in flight together.
    inputs(example::linear().def()).with("w", |x| x / 4.0).near(1e-3, ["M = 65, N = 130, K = 325"]);
}

#[test]
fn its_shared_memory_is_free_of_conflicts() {
    let report = example::linear().report().to_string();
    assert!(!report.contains("conflict"), "{report}");
    let source = example::linear().source().to_owned();
    assert!(source.contains("ldmatrix_x4(") && source.contains("cp_async_16("), "{source}");
}

/// The same product with an explicit instruction and warp layout.
#[kernel]
fn explicit(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    w: &Tensor<bf16, (N, K), (ldw, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gw) = (tile(a, (32, 16), (block.x, _)), tile(w, (32, 16), (block.y, _)));
    let gc = tile(c, (32, 32), (block.x, block.y));
    let (sa, sw) = (shared::<bf16>((32, 16)), shared::<bf16>((32, 16)));
    let mma = tiled_mma("mma_m16n8k16_bf16", layout!((2, 2)));
    let mut acc = mma.accumulators((32, 32), 0.0);
    for k in 0..ga.size(2) {
        copy(ga[(_, _, k)], sa);
        copy(gw[(_, _, k)], sw);
        gemm(sa, sw, &mut acc);
    }
    copy(map(acc, |x| 2.0 * x), gc);
}

#[test]
fn instructions_have_names() {
    inputs(explicit().def()).written(["M = 40, N = 33, K = 20"]);
}

/// A product of 8-bit floats, whose instruction sm_89 has; as many warps as the block.
#[kernel(arch = sm_89, threads = 32 * WARPS)]
fn of_8_bits<const WARPS: usize = 2>(
    a: &Tensor<e4m3, (M, K), (lda, _1)>,
    w: &Tensor<e4m3, (N, K), (ldw, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gw) = (tile(a, (32, 32), (block.x, _)), tile(w, (32, 32), (block.y, _)));
    let (sa, sw) = (shared::<e4m3>((32, 32)), shared::<e4m3>((32, 32)));
    let mut acc = tiled_mma::<e4m3, f32>().accumulators((32, 32), 0.0);
    for k in 0..ga.size(2) {
        copy(ga[(_, _, k)], sa);
        copy(gw[(_, _, k)], sw);
        gemm(sa, sw, &mut acc);
    }
    copy(acc, tile(c, (32, 32), (block.x, block.y)));
}

#[test]
fn the_attribute_names_architecture_and_threads() {
    for warps in [1, 2, 4] {
        let kernel = of_8_bits().specialize(&[("WARPS", warps)]).unwrap().def().generate().unwrap();
        let program = &kernel.variants[0].program;
        assert_eq!((program.arch, program.launch.threads), (89, 32 * warps as u32));
        assert!(kernel.source().contains("mma_m16n8k32_e4m3("));
    }
}

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7 + at / 5 + seed) % 19) as f32 - 9.0).collect()
}

fn bits(all: &[f32]) -> Vec<bf16> {
    all.iter().map(|x| bf16::from_f32(*x)).collect()
}

/// The same product a level down: parts of threads, fragments, and instructions by name.
#[kernel]
fn by_fragments<const BM: usize = 64, const BN: usize = 32, const BK: usize = 32>(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    w: &Tensor<bf16, (N, K)>,
    c: &mut Tensor<bf16, (M, N), (ldc, _1)>,
) {
    let (ga, gw) = (tile(a, (BM, BK), (block.x, _)), tile(w, (BN, BK), (block.y, _)));
    let sa = shared::<bf16>(swizzled(2, 3, 3, row_major((BM, BK))));
    let sw = shared::<bf16>(swizzled(2, 3, 3, layout!((BN, BK)))); // columns: ldmatrix transposes
    let mma = tiled_mma("mma_m16n8k16_bf16", layout!((4, 1)));
    let fa = fragment_like(mma.partition_a(sa, thread.x));
    let fw = fragment_like(mma.partition_b(sw, thread.x));
    let out = mma.partition_c(tile(c, (BM, BN), (block.x, block.y)), thread.x);
    let mut acc = fragment_like::<f32>(out, 0.0);
    let rows_a = mma.partition_a(sa, thread.x, how = "ldmatrix_x4");
    let rows_w = mma.partition_b(sw, thread.x, how = "ldmatrix_x2_trans");
    let (ta, tw) = (layout!((32, 4) : (4, 1)), layout!((4, 32)));
    for k in 0..ga.size(2) {
        let from = parallelize(ga[(_, _, k)], ta, thread.x, values = (1, 8));
        copy(from, parallelize(sa, ta, thread.x, values = (1, 8)));
        let from = parallelize(gw[(_, _, k)], tw, thread.x, values = (8, 1));
        copy(from, parallelize(sw, tw, thread.x, values = (8, 1)));
        cp_async_wait_all();
        sync_threads();
        for step in unroll(0..2) {
            copy(rows_a[(_, _, step)], retile(fa, rows_a)[(_, _, step)], how = "ldmatrix_x4");
            copy(rows_w[(_, _, step)], retile(fw, rows_w)[(_, _, step)], how = "ldmatrix_x2_trans");
        }
        gemm(fa, fw, &mut acc, how = "mma_m16n8k16_bf16");
        sync_threads();
    }
    copy(acc, out);
}

#[test]
fn fragments_and_instructions_are_explicit() {
    let kernel = by_fragments().def().generate().unwrap();
    let source = kernel.source();
    for name in ["ldmatrix_x4(", "ldmatrix_x2_trans(", "mma_m16n8k16_bf16("] {
        assert!(source.contains(name), "{source}");
    }
    assert!(!kernel.report.to_string().contains("conflict"), "{}", kernel.report);
    for (m, n, k) in [(64, 32, 32), (65, 40, 72), (1, 1, 1), (70, 33, 50)] {
        let (a, w) = (numbers(m * k, 1), numbers(n * k, 2));
        let args = [
            Arg::tensor(&bits(&a), [m, k]).strides([k, 1]),
            Arg::tensor(&bits(&w), [n, k]).strides([1, n]),
            Arg::output::<bf16>([m, n]).strides([n, 1]),
        ];
        let sum = |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * w[j + l * n]).sum::<f32>();
        let wanted: Vec<f32> = (0..m * n).map(|at| sum(at / n, at % n)).collect();
        for outcome in run_every(&kernel, &args, &options()).unwrap_or_else(|e| panic!("{m} {n} {k}: {e}")) {
            assert_eq!(outcome.get::<bf16>("c").unwrap(), bits(&wanted), "{m} {n} {k}");
        }
    }
}
