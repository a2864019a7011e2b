//! Products of warpgroups: rings of one slot, and edges of tiles that take nearly all registers.

use tilewright::KernelDef;
use tilewright::prelude::*;
use tilewright_tests::sweep;

use super::compiled;
use tilewright_tests::inputs::inputs;

/// c = a b^T, for sizes with and without edges.
#[track_caller]
fn check(def: &KernelDef, sizes: &[[usize; 3]]) {
    compiled(def);
    let integers = |x: f64| x.round();
    let inputs = inputs(def).schedules(4).with("a", integers).with("b", integers);
    for [m, n, k] in sizes {
        inputs.written([&*format!("M = {m}, N = {n}, K = {k}")]);
    }
}

macro_rules! products {
    ($($name:ident: $c:ty, $bm:tt x $bn:tt by $groups:tt, $stages:tt;)+) => {$(
        #[kernel(arch = 90)]
        fn $name(
            a: &Tensor<bf16, (M, K), (lda, _1)>,
            b: &Tensor<bf16, (N, K), (ldb, _1)>,
            c: &mut Tensor<$c, (M, N), (ldc, _1)>,
        ) {
            let (ga, gb) = (tile(a, ($bm, 64), (block.x, _)), tile(b, ($bn, 64), (block.y, _)));
            let (sa, sb) = (shared::<bf16>(($bm, 64)), shared::<bf16>(($bn, 64)));
            let mma = tiled_mma::<bf16, f32>(warpgroups = $groups);
            let mut acc = mma.accumulators(($bm, $bn), 0.0);
            for k in pipelined(0..ga.size(2), stages = $stages, producer = warp) {
                copy(ga[(_, _, k)], sa);
                copy(gb[(_, _, k)], sb);
                gemm(sa, sb, &mut acc);
            }
            copy(acc, tile(c, ($bm, $bn), (block.x, block.y)));
        }
    )+};
}

products! {
    one_slot: f32, 64 x 64 by 1, 1;
    one_slot_of_two: bf16, 128 x 64 by 2, 1;
    wide_to_bf16: bf16, 256 x 136 by 2, 2;
    wide_to_f16: f16, 256 x 136 by 2, 2;
    widest_to_bf16: bf16, 256 x 192 by 2, 2;
}

/// A product, and other work on its slot.
#[kernel(arch = 90)]
fn one_slot_with_sums(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((64, 64)));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = 1).accumulators((64, 64), 0.0);
    for k in pipelined(0..ga.size(2), stages = 1, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
        gemm(sa, sb, &mut acc);
    }
    copy(0.5 * acc, tile(c, (64, 64), (block.x, block.y)));
}

#[test]
fn rings_of_one_slot() {
    let sizes = [[128, 128, 256], [100, 72, 136], [1, 8, 8], [65, 64, 64]];
    check(one_slot().def(), &sizes);
    check(one_slot_of_two().def(), &sizes);
    check(one_slot_with_sums().def(), &sizes);
}

#[test]
fn edges_of_tiles_that_take_most_registers() {
    let sizes = sweep::share([[256, 136, 128], [250, 130, 72], [257, 137, 8], [3, 1, 64]], 4);
    check(wide_to_bf16().def(), &sizes);
    check(wide_to_f16().def(), &sizes);
    check(widest_to_bf16().def(), &sizes);
}
