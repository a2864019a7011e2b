//! Products by instructions of warps whose operands are converted on their way, and products whose warps share K.

use crate::inputs;
use tilewright::prelude::*;

/// Warps that share K, and a function of their sums.
#[kernel]
fn shared_k(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    bias: &Tensor<f32, N>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (a, b) = (tile(a, (32, 64), (block.x, _)), tile(b, (16, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((32, 64)), shared::<bf16>((16, 64)));
    let mut acc = tiled_mma::<bf16, f32>(warps = (2, 1, 4)).accumulators((32, 16), 0.0);
    for k in pipelined(0..a.size(2), stages = 3) {
        copy(a[(_, _, k)], sa);
        copy(b[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    let bias = tile(bias, 16, block.y).along(1);
    copy(map((acc, bias), |x, b| 2.0 * x + b), tile(c, (32, 16), (block.x, block.y)));
}

/// f32 as sums of two terms of tf32.
#[kernel]
fn in_terms(
    a: &Tensor<f32, (M, K), (lda, _1)>,
    b: &Tensor<f32, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (a, b) = (tile(a, (64, 32), (block.x, _)), tile(b, (64, 32), (block.y, _)));
    let (sa, sb) = (shared::<f32>((64, 32)), shared::<f32>((64, 32)));
    let mut acc = tiled_mma::<tf32, f32>(warps = (2, 2), terms = 2).accumulators((64, 64), 0.0);
    for k in pipelined(0..a.size(2), stages = 2) {
        copy(a[(_, _, k)], sa);
        copy(b[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (64, 64), (block.x, block.y)));
}

/// Both operands are rounded, and so are their sums before they are stored.
#[kernel]
fn rounded(
    a: &Tensor<f32, (M, K), (lda, _1)>,
    b: &Tensor<f32, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (a, b) = (tile(a, (64, 32), (block.x, _)), tile(b, (64, 32), (block.y, _)));
    let (sa, sb) = (shared::<f32>((64, 32)), shared::<f32>((64, 32)));
    let mut acc = tiled_mma::<tf32, f32>(warps = (2, 2)).accumulators((64, 64), 0.0);
    for k in pipelined(0..a.size(2), stages = 2) {
        copy(a[(_, _, k)], sa);
        copy(b[(_, _, k)], sb);
        gemm(map(sa, |x| x as tf32), map(sb, |x| x as tf32), &mut acc);
    }
    copy(acc, tile(c, (64, 64), (block.x, block.y)));
}

/// Functions that are not 0 past the end of K, unless their closures say so: by threads.
#[kernel(allow(bank_conflicts))]
fn powers(
    a: &Tensor<f32, (M, K), (lda, _1)>,
    b: &Tensor<f32, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (a, b) = (tile(a, (32, 16), (block.x, _)), tile(b, (16, 16), (block.y, _)));
    let (sa, sb) = (shared::<f32>((32, 16)), shared::<f32>((16, 16)));
    let mut acc = full::<f32>((32, 16), 0.0);
    for k in 0..a.size(2) {
        copy(map(a[(_, _, k)], |x, at| if (at.0 < M) & (at.1 < K) { exp2(x) } else { 0.0 }), sa);
        copy(map(b[(_, _, k)], |x, at| exp2(x) * (at.1 < K) as f32), sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (32, 16), (block.x, block.y)));
}

/// The same by tensor cores, from tiles that are copied ahead.
#[kernel]
fn powers_by_warps(
    a: &Tensor<f32, (M, K), (lda, _1)>,
    b: &Tensor<f32, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (a, b) = (tile(a, (32, 16), (block.x, _)), tile(b, (32, 16), (block.y, _)));
    let (sa, sb) = (shared::<f32>((32, 16)), shared::<f32>((32, 16)));
    let mut acc = tiled_mma::<bf16, f32>(warps = 4).accumulators((32, 32), 0.0);
    for k in pipelined(0..a.size(2), stages = 3) {
        copy(a[(_, _, k)], sa);
        copy(b[(_, _, k)], sb);
        let left = map(sa, |x, at| select(at.1 >= K, 0.0, exp2(x) as bf16));
        let right = map(sb, |x, at| if at.1 < K { exp2(x) as bf16 } else { 0.0 });
        gemm(left, right, &mut acc);
    }
    copy(acc, tile(c, (32, 32), (block.x, block.y)));
}

#[test]
fn warps_that_share_k_add_their_sums() {
    inputs(shared_k().def()).written([
        "M = 32, N = 16, K = 64",
        "M = 65, N = 19, K = 130",
        "M = 3, N = 40, K = 7",
        "M = 1, N = 1, K = 1",
        "M = 32, N = 16, K = 0",
    ]);
}

#[test]
fn functions_of_elements_past_the_end_of_k_are_0_where_they_say_so() {
    for def in [powers().def(), powers_by_warps().def()] {
        inputs(def).with("a", f64::round).with("b", f64::round).written([
            "M = 32, N = 32, K = 16",
            "M = 33, N = 17, K = 9",
            "M = 1, N = 1, K = 1",
            "M = 5, N = 40, K = 35",
            "M = 3, N = 2, K = 0",
        ]);
    }
}

#[test]
fn elements_of_f32_are_rounded_or_become_two_terms() {
    for (def, within) in [(in_terms().def(), 1e-4), (rounded().def(), 2e-2)] {
        inputs(def).near(within, ["M = 64, N = 64, K = 64", "M = 65, N = 30, K = 37", "M = 2, N = 3, K = 5"]);
    }
}

/// Weights of four bits as the right operand, with a scale and a zero point for each 32 along K.
#[kernel]
fn weights_on_the_right(
    x: &Tensor<bf16, (M, K), (ldx, _1)>,
    w: &Tensor<u8, { (N, ceil_div(K, 2)) }, (ldw, _1)>,
    scale: &Tensor<bf16, { (N, ceil_div(K, 32)) }>,
    zero: &Tensor<bf16, { (N, ceil_div(K, 32)) }>,
    y: &mut Tensor<f32, (M, N), (ldy, _1)>,
) {
    let (gx, gw) = (tile(x, (64, 64), (block.x, _)), tile(w, (32, 32), (block.y, _)));
    let (gs, gz) = (tile(scale, (32, 2), (block.y, _)), tile(zero, (32, 2), (block.y, _)));
    let (sx, sw) = (shared::<bf16>((64, 64)), shared::<u8>((32, 32)));
    let (ss, sz) = (shared::<bf16>((32, 2)), shared::<bf16>((32, 2)));
    let mut acc = tiled_mma::<bf16, f32>(warps = (2, 2)).accumulators((64, 32), 0.0);
    for k in pipelined(0..gx.size(2), stages = 3) {
        copy(gx[(_, _, k)], sx);
        copy(gw[(_, _, k)], sw);
        copy(gs[(_, _, k)], ss);
        copy(gz[(_, _, k)], sz);
        let (s, z) = (broadcast(ss, (_, 32, _)), broadcast(sz, (_, 32, _)));
        let (s, z) = (regroup(s, (32, 64)), regroup(z, (32, 64)));
        gemm(sx, map((unpack_int4::<i4, bf16>(sw), s, z), |w, s, z| (w - z) * s), &mut acc);
    }
    copy(acc, tile(y, (64, 32), (block.x, block.y)));
}

#[test]
fn the_right_operand_is_converted_in_registers() {
    let kernel = weights_on_the_right();
    let source = kernel.source();
    // Copies alone store to shared memory.
    assert!(!source.contains("operand") && source.contains("cp_async_16("), "{source}");
    let integers = |x: f64| (2.0 * x).round();
    inputs(kernel.def()).with("x", integers).with("scale", integers).with("zero", integers).written([
        "M = 64, N = 32, K = 64",
        "M = 70, N = 35, K = 100",
        "M = 1, N = 3, K = 32",
    ]);
}
