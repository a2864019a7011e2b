//! Pipelined loops inside of other loops.

use tilewright::prelude::*;
use tilewright::sim::Outcome;
use tilewright_sim::{Options, run_every};

#[track_caller]
fn every(kernel: &tilewright::KernelDef, args: &[Arg]) -> Vec<Outcome> {
    let generated = kernel.generate().unwrap_or_else(|why| panic!("{why}"));
    run_every(&generated, args, &Options::default()).unwrap_or_else(|why| panic!("{why}"))
}

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
    for (m, k) in [(128, 64), (200, 100), (64, 96), (130, 33), (1, 1)] {
        let x: Vec<f32> = (0..m * k).map(|at| (at * 7 % 13) as f32).collect();
        let args = [Arg::tensor(&x, [m, k]).strides([k, 1]), Arg::output::<f32>([m])];
        let expected: Vec<f32> = x.chunks(k).map(|row| row.iter().sum()).collect();
        for outcome in every(rows().def(), &args) {
            assert_eq!(outcome.get::<f32>("y").unwrap(), expected, "{m}x{k}");
        }
    }
}

#[test]
fn tiles_of_three_loops() {
    for (m, k, b) in [(64, 128, 2), (70, 100, 3), (33, 31, 2)] {
        let x: Vec<f32> = (0..m * k * b).map(|at| (at * 7 % 13) as f32).collect();
        let args =
            [Arg::tensor(&x, [m, k, b]).strides([k, 1, m * k]), Arg::output::<f32>([m, b]).strides([1, m])];
        let expected: Vec<f32> = x.chunks(k).map(|row| row.iter().sum()).collect();
        for outcome in every(batches().def(), &args) {
            assert_eq!(outcome.get::<f32>("y").unwrap(), expected, "{m}x{k}x{b}");
        }
    }
}

#[test]
fn sums_over_a_list_of_blocks() {
    let (m, n, k, list) = (64, 128, 256, [3i32, 0, 2]);
    let a: Vec<bf16> = (0..m * k).map(|at| bf16::from_f32((at * 7 % 5) as f32)).collect();
    let b: Vec<bf16> = (0..n * k).map(|at| bf16::from_f32((at * 3 % 4) as f32)).collect();
    let args = [
        Arg::tensor(&a, [m, k]).strides([k, 1]),
        Arg::tensor(&b, [n, k]).strides([k, 1]),
        Arg::tensor(&list, [3]),
        Arg::output::<bf16>([m, n]).strides([n, 1]),
    ];
    for outcome in every(listed().def(), &args) {
        let c = outcome.get::<bf16>("c").unwrap();
        for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
            let steps = list.iter().flat_map(|q| 64 * *q as usize..64 * (*q as usize + 1));
            let sum: f32 = steps.map(|k_| a[row * k + k_].to_f32() * b[column * k + k_].to_f32()).sum();
            assert_eq!(c[row * n + column].to_f32(), bf16::from_f32(sum).to_f32(), "{row}, {column}");
        }
    }
}
