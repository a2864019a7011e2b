//! Pipelined loops inside of other loops.

use crate::inputs;
use tilewright::prelude::*;

/// Sums of rows, 64 rows at a time in one block: the tile that is copied depends on the variables of both loops.
#[kernel]
fn rows(x: &Tensor<f32, (M, K), (ldx, _1)>, y: &mut Tensor<f32, M>) {
    let s = shared::<f32>((64, 32));
    for j in 0..ceil_div(M, 64) {
        let mut acc = full::<f32>((64, 1), 0.0);
        for k in pipelined(0..ceil_div(K, 32), stages = 2) {
            copy(tile(x, (64, 32), (j, k)), s);
            acc += sum(s, 1);
        }
        copy(acc, tile(y, 64, j).along(0));
    }
}

/// The same with a third loop, and three stages.
#[kernel]
fn batches(x: &Tensor<f32, (M, K, B), (ldx, _1, ldb)>, y: &mut Tensor<f32, (M, B)>) {
    let s = shared::<f32>((32, 32));
    for b in 0..B {
        for j in 0..ceil_div(M, 32) {
            let mut acc = full::<f32>((32, 1), 0.0);
            for k in pipelined(0..ceil_div(K, 32), stages = 3) {
                copy(tile(x, (32, 32, 1), (j, k, b))[(_, _, 0)], s);
                acc += sum(s, 1);
            }
            copy(acc, tile(y, (32, 1), (j, b)));
        }
    }
}

/// Products by instructions of the blocks of K that a list names: four k-steps each, of one sum.
#[kernel]
fn listed(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    list: &Tensor<i32, L>,
    c: &mut Tensor<bf16, (M, N), (ldc, _1)>,
) {
    let (sa, sb) = (shared::<bf16>((64, 16)), shared::<bf16>((64, 16)));
    let mut acc = tiled_mma::<bf16, f32>(warps = 4).accumulators((64, 64), 0.0);
    for p in 0..L {
        let q = list[(p)];
        for k in pipelined(0..4, stages = 2) {
            copy(tile(a, (64, 16), (block.x, 4 * q + k)), sa);
            copy(tile(b, (64, 16), (block.y, 4 * q + k)), sb);
            gemm(sa, sb, &mut acc);
        }
    }
    copy(acc, tile(c, (64, 64), (block.x, block.y)));
}

#[test]
fn tiles_of_two_loops() {
    inputs(rows().def()).written([
        "M = 128, K = 64",
        "M = 200, K = 100",
        "M = 64, K = 96",
        "M = 130, K = 33",
        "M = 1, K = 1",
    ]);
}

#[test]
fn tiles_of_three_loops() {
    inputs(batches().def()).written([
        "M = 64, K = 128, B = 2",
        "M = 70, K = 100, B = 3",
        "M = 33, K = 31, B = 2",
    ]);
}

#[test]
fn sums_over_a_list_of_blocks() {
    inputs(listed().def()).list("list", [3, 0, 2]).written(["M = 64, N = 128, K = 256, L = 3"]);
}
