//! Products by instructions of warps whose operands are converted on their way, and products whose warps share K.

use tilewright::prelude::*;
use tilewright::program::narrow::packed_i4;
use tilewright_fuzz::written_with;
use tilewright_sim::{Arg, run_every};

use crate::elements::{bits, numbers, options};

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

#[track_caller]
fn close(got: f32, wanted: f64, most: f64) {
    assert!((f64::from(got) - wanted).abs() <= most * wanted.abs().max(1.0), "{got} {wanted}");
}

#[test]
fn warps_that_share_k_add_their_sums() {
    for (m, n, k) in [(32, 16, 64), (65, 19, 130), (3, 40, 7), (1, 1, 1), (32, 16, 0)] {
        let [a, b] = [(m, 1), (n, 2)].map(|(rows, seed)| numbers(rows * k, seed));
        let bias = numbers(n, 3);
        let args = [
            Arg::tensor(&bits(&a), [m, k]).strides([k.max(1), 1]),
            Arg::tensor(&bits(&b), [n, k]).strides([k.max(1), 1]),
            Arg::tensor(&bias, [n]),
            Arg::output::<f32>([m, n]).strides([n, 1]),
        ];
        written_with(shared_k().def(), &args, &options());
    }
}

#[test]
fn functions_of_elements_past_the_end_of_k_are_0_where_they_say_so() {
    for (m, n, k) in [(32, 32, 16), (33, 17, 9), (1, 1, 1), (5, 40, 35), (3, 2, 0)] {
        let whole = |rows: usize, seed| numbers(rows * k, seed).iter().map(|x| x % 3.0).collect::<Vec<f32>>();
        let (a, b) = (whole(m, 1), whole(n, 2));
        let args = [
            Arg::tensor(&a, [m, k]).strides([k.max(1), 1]),
            Arg::tensor(&b, [n, k]).strides([k.max(1), 1]),
            Arg::output::<f32>([m, n]).strides([n, 1]),
        ];
        for def in [powers().def(), powers_by_warps().def()] {
            written_with(def, &args, &options());
        }
    }
}

#[test]
fn elements_of_f32_are_rounded_or_become_two_terms() {
    let thirds = |count: usize, seed| numbers(count, seed).iter().map(|x| x / 3.0).collect::<Vec<f32>>();
    for (m, n, k) in [(64, 64, 64), (65, 30, 37), (2, 3, 5)] {
        let (a, b) = (thirds(m * k, 1), thirds(n * k, 2));
        let args = [
            Arg::tensor(&a, [m, k]).strides([k, 1]),
            Arg::tensor(&b, [n, k]).strides([k, 1]),
            Arg::output::<f32>([m, n]).strides([n, 1]),
        ];
        let product = |at: usize, l: usize| f64::from(a[at / n * k + l]) * f64::from(b[at % n * k + l]);
        for (def, most) in [(in_terms().def().clone(), 1e-5), (rounded().def().clone(), 2e-2)] {
            let kernel = def.generate().unwrap();
            for outcome in
                run_every(&kernel, &args, &options()).unwrap_or_else(|e| panic!("{m} {n} {k}: {e}"))
            {
                for (at, got) in outcome.get::<f32>("c").unwrap().into_iter().enumerate() {
                    close(got, (0..k).map(|l| product(at, l)).sum(), most);
                }
            }
        }
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
    let kernel = weights_on_the_right().def().generate().unwrap();
    let source = kernel.source();
    // Copies alone store to shared memory.
    assert!(!source.contains("operand") && source.contains("cp_async_16("), "{source}");
    for (m, n, k) in [(64, 32, 64), (70, 35, 100), (1, 3, 32)] {
        let x = numbers(m * k, 1);
        let weights: Vec<i8> = (0..n * k).map(|at| (at * 5 % 16) as i8 - 8).collect();
        let groups = k.div_ceil(32);
        let [scale, zero] = [3, 4].map(|seed| numbers(n * groups, seed));
        let args = [
            Arg::tensor(&bits(&x), [m, k]).strides([k, 1]),
            Arg::tensor(&packed_i4(&weights, k), [n, k / 2]).strides([k / 2, 1]),
            Arg::tensor(&bits(&scale), [n, groups]),
            Arg::tensor(&bits(&zero), [n, groups]),
            Arg::output::<f32>([m, n]).strides([n, 1]),
        ];
        for outcome in run_every(&kernel, &args, &options()).unwrap_or_else(|e| panic!("{m} {n} {k}: {e}")) {
            for (at, got) in outcome.get::<f32>("y").unwrap().into_iter().enumerate() {
                let weight = |l: usize| {
                    let group = l / 32 * n + at % n;
                    (f32::from(weights[at % n * k + l]) - zero[group]) * scale[group]
                };
                let sum: f32 = (0..k).map(|l| x[at / n * k + l] * weight(l)).sum();
                assert_eq!(got, sum, "{m} {n} {k} {at}");
            }
        }
    }
}
