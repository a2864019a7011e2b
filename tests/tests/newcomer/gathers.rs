//! Gathers and scatters: elements that are loaded and stored by indices.

use tilewright::prelude::*;
use tilewright_tests::gathers::*;
use tilewright_tests::inputs::inputs;

/// A mixture of experts: rows of each are gathered, multiplied by its weights, and stored where its part ends.
#[kernel(allow(bank_conflicts))]
fn grouped_product<const BM: usize = 32, const BN: usize = 32, const BK: usize = 16>(
    offsets: &Tensor<i32, { E + 1 }>,
    rows: &Tensor<i32, R>,
    x: &Tensor<f32, (T, K), (ldx, _1)>,
    w: &Tensor<f32, (N, K, E), (ldw, _1, we)>,
    y: &mut Tensor<f32, (R, N), (ldy, _1)>,
) {
    let e = block.z;
    let start = offsets[(e)];
    let end = offsets[(e + 1)];
    let gw = tile(w, (BN, BK, 1), (block.y, _, e));
    let (sx, sw) = (shared::<f32>((BM, BK)), shared::<f32>((BN, BK)));
    for first in 0..ceil_div(end - start, BM) {
        let m = start + first * BM;
        let mut acc = full::<f32>((BM, BN), 0.0);
        for k in 0..gw.size(3) {
            for i in 0..BM {
                copy(tile(x, (1, BK), (rows[(m + i)], k)), sx[(i, _)].along(1));
            }
            copy(gw[(_, _, 0, k)], sw);
            gemm(sx, sw, &mut acc);
        }
        let out = shift(tile(y, (BM, BN), (0, block.y)), (m, 0));
        scatter(
            (acc, out),
            y,
            |a, _, at| ((if at.0 < end { at.0 } else { -1 }, at.1), a),
            out_of_bounds = -1,
        );
    }
}

#[test]
fn experts_multiply_their_rows() {
    inputs(grouped_product().def())
        .list("offsets", [0, 35, 35, 50])
        .below("rows", 20)
        .written(["E = 3, R = 50, T = 20, K = 40, N = 45"]);
}
#[test]
fn strided_pooling() {
    inputs(max_pool().def()).with("x", |x| x - 10.0).written(["H = 17, W = 70, C = 1"]);
}

#[test]
fn interpolated_images() {
    inputs(bilinear().def()).near(1e-4, ["H = 7, W = 9, P = 13, Q = 40"]);
}

#[test]
fn counted_bytes() {
    inputs(histogram().def()).zero("bins").written(["N = 3000"]);
}

#[test]
fn a_generation_of_life() {
    inputs(life().def()).below("x", 2).written(["H = 13, W = 70"]);
}

#[test]
fn sparse_triples() {
    inputs(coo().def()).below("row", 9).below("col", 7).zero("y").written(["M = 9, N = 7, Z = 300"]);
}
