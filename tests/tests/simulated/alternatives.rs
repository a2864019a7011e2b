//! Kernels with alternatives: values of constants among which a launch chooses.

use tilewright::KernelDef;
use tilewright::prelude::*;
use tilewright_codegen::Generated;
use tilewright_codegen::launch::{Given, Limits, Plan, Refusal, Tensor, plan};
use tilewright_tests::inputs::inputs;

/// c = a·wᵀ + bias, in tiles of several sizes; one size has too few registers for its accumulators.
#[kernel(arch = 90, choose((BM, BN) in [(128, 128), (256, 256), (64, 64), (64, 16)], STAGES in [3, 5]))]
fn linear<const BM: usize, const BN: usize, const STAGES: usize>(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    w: &Tensor<bf16, (N, K), (ldw, _1)>,
    bias: &Tensor<f32, N>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    persistent();
    let (ga, gw) = (tile(a, (BM, 64), (block.x, _)), tile(w, (BN, 64), (block.y, _)));
    let (sa, sw) = (shared::<bf16>((BM, 64)), shared::<bf16>((BN, 64)));
    let mma = tiled_mma::<bf16, f32>(warpgroups = if BM == 64 { 1 } else { 2 });
    let mut acc = mma.accumulators((BM, BN), 0.0);
    for k in pipelined(0..ga.size(2), stages = STAGES, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gw[(_, _, k)], sw);
        gemm(sa, sw, &mut acc);
    }
    copy(map((acc, tile(bias, BN, block.y).along(1)), |x, b| x + b), tile(c, (BM, BN), (block.x, block.y)));
}

/// Sums of rows, in parts that an assertion says to divide them.
#[kernel(choose(PART in [1024, 256, 32]))]
fn sums<const PART: usize>(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, M>) {
    assert(N % PART == 0);
    let x = tile(x, (8, PART), (block.x, _));
    let mut total = full::<f32>((8, 1), 0.0);
    for k in 0..x.size(2) {
        total += sum(x[(_, _, k)], 1);
    }
    copy(total, tile(y, 8, block.x).along(0));
}

/// The plan of a launch of row-major tensors with these extents.
fn planned(kernel: &Generated, extents: &[&[i64]]) -> Result<Plan, Refusal> {
    let of = |(index, extents): (usize, &&[i64])| {
        let strides = if extents.len() > 1 { vec![extents[1], 1] } else { vec![1] };
        Given::Tensor(Tensor {
            elem: kernel.params[index].elem,
            mutable: kernel.params[index].tensor.is_some_and(|(mutable, _)| mutable),
            extents: extents.to_vec(),
            strides,
            len: extents.iter().product::<i64>() as u64,
            address: (index as u64 + 1) << 40,
        })
    };
    plan(kernel, &extents.iter().enumerate().map(of).collect::<Vec<_>>(), &Limits::HOPPER)
}

/// The alternative that a launch takes.
#[track_caller]
fn taken(def: &KernelDef, extents: &[&[i64]]) -> String {
    let kernel = def.generate().unwrap();
    let plan = planned(&kernel, extents).unwrap_or_else(|why| panic!("{why}"));
    kernel.variants[plan.variant].label.clone().unwrap_or_default()
}

fn product(m: i64, n: i64, k: i64) -> [Vec<i64>; 4] {
    [vec![m, k], vec![n, k], vec![n], vec![m, n]]
}

#[test]
fn what_cannot_be_made_is_left_out_with_the_reason() {
    let report = linear().report().to_string();
    let lines: Vec<&str> =
        report.lines().skip_while(|line| !line.starts_with("alternatives")).take(8).collect();
    assert_eq!(
        lines.join("\n"),
        "\
alternatives   BM = 128, BN = 128, STAGES = 3
               BM = 128, BN = 128, STAGES = 5
               BM = 64, BN = 64, STAGES = 3
               BM = 64, BN = 64, STAGES = 5
               BM = 64, BN = 16, STAGES = 3
               BM = 64, BN = 16, STAGES = 5
left out       BM = 256, BN = 256, STAGES = 3: `acc`, (256,256) of f32, takes 256 registers of each of 256 threads, and 255 is the limit
               BM = 256, BN = 256, STAGES = 5: `acc`, (256,256) of f32, takes 256 registers of each of 256 threads, and 255 is the limit"
    );
}

#[test]
fn a_launch_takes_tiles_that_suit_its_sizes() {
    let tiles = |m, n, k| {
        let extents = product(m, n, k);
        let label = taken(linear().def(), &extents.each_ref().map(|extents| &extents[..]));
        label.split(", STAGES").next().unwrap_or_default().to_owned()
    };
    assert_eq!(tiles(8192, 8192, 4096), "BM = 128, BN = 128");
    assert_eq!(tiles(512, 1024, 4096), "BM = 64, BN = 64");
    assert_eq!(tiles(64, 2048, 4096), "BM = 64, BN = 16");
}

#[test]
fn a_use_sets_constants_that_are_chosen_otherwise() {
    let all = |def: &KernelDef| def.generate().unwrap().report.alternatives;
    let one = linear!(BM = 64, BN = 64, STAGES = 5);
    assert_eq!(all(one.def()), [""; 0]);
    // Lists without the value do not count.
    assert!(all(linear!(BM = 64, BN = 32, STAGES = 4).def()).is_empty());
    assert_eq!(all(linear!(BM = 64).def()).len(), 4);
    assert_eq!(all(linear().specialize(&[("STAGES", 3)]).unwrap().def()).len(), 3);
}

#[test]
fn an_assertion_of_one_alternative_does_not_concern_others() {
    let kernel = sums().def().generate().unwrap();
    assert_eq!(kernel.requires.len(), 0);
    let label = |n| taken(sums().def(), &[&[64, n], &[64]]);
    assert!(["PART = 1024", "PART = 256", "PART = 32"].contains(&&*label(4096)));
    assert!(["PART = 256", "PART = 32"].contains(&&*label(768)));
    assert_eq!(label(96), "PART = 32");
    let refused = planned(&kernel, &[&[64, 33], &[64]]).unwrap_err().to_string();
    assert!(refused.contains("32 does not divide N, which is 33"), "{refused}");
}

/// Sums of rows, in parts for short and for long rows.
#[kernel(choose((PART, LEAST) in [(256, 300), (64, 1)]))]
fn sums_of_long_rows<const PART: usize, const LEAST: usize>(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    y: &mut Tensor<f32, M>,
) {
    assert(N >= LEAST);
    let x = tile(x, (8, PART), (block.x, _));
    let mut total = full::<f32>((8, 1), 0.0);
    for k in 0..x.size(2) {
        total += sum(x[(_, _, k)], 1);
    }
    copy(total, tile(y, 8, block.x).along(0));
}

#[test]
fn a_size_of_at_least_one_is_no_further_assertion() {
    let report = sums_of_long_rows().report().to_string();
    assert!(!report.contains("left out"), "{report}");
    let label = |n| taken(sums_of_long_rows().def(), &[&[64, n], &[64]]);
    assert_eq!(label(100), "PART = 64, LEAST = 1");
    assert!(["PART = 256, LEAST = 300", "PART = 64, LEAST = 1"].contains(&&*label(4096)));
}

/// Sums of rows that one tile has, in tiles of several lengths.
#[kernel(choose((PART, ROWS) in [(1024, 1), (256, 4), (256, 8), (64, 8)]))]
fn short_sums<const PART: usize, const ROWS: usize>(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    y: &mut Tensor<f32, M>,
) {
    assert(N <= PART);
    copy(sum(tile(x, (ROWS, PART), (block.x, 0)), 1), tile(y, ROWS, block.x).along(0));
}

#[test]
fn a_refusal_has_each_reason_and_each_remedy_once() {
    let kernel = short_sums().def().generate().unwrap();
    let refused = planned(&kernel, &[&[64, 2000], &[64]]).unwrap_err().to_string();
    insta::assert_snapshot!("refused_by_each_alternative", refused);
}

#[test]
fn every_alternative_computes_the_same() {
    inputs(linear().def()).written(["M = 70, N = 40, K = 136"]);
}
