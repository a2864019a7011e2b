//! Scans: whole kernels compared with their text or a loop on the CPU, in every variant, at sizes that tiles do not divide.

use tilewright::KernelDef;
use tilewright::prelude::*;
use tilewright_codegen::Generated;
use tilewright_sim::{Arg, Options, Outcome, run_every};

use crate::inputs;

fn drawn(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 40) % 17) as f32 - 8.0
    };
    (0..count).map(|_| next()).collect()
}

#[track_caller]
fn every(kernel: Generated, args: &[Arg]) -> Vec<Outcome> {
    let options = Options { schedules: 2, ..Options::default() };
    run_every(&kernel, args, &options).unwrap_or_else(|fault| panic!("{fault}"))
}

macro_rules! generated {
    ($kernel:expr) => {
        $kernel.def().generate().unwrap_or_else(|diagnostics| panic!("{diagnostics:?}"))
    };
}

/// Prefixes of a row, inclusive or exclusive.
fn prefixes<T: Copy>(row: &[T], identity: T, exclusive: bool, join: impl Fn(T, T) -> T) -> Vec<T> {
    let mut all = identity;
    row.iter()
        .map(|x| {
            let before = all;
            all = join(all, *x);
            if exclusive { before } else { all }
        })
        .collect()
}

fn rows(m: usize, n: usize) -> [Arg; 2] {
    let x = drawn(m * n, (m * 1000 + n) as u64);
    [Arg::tensor(&x, [m, n]).strides([n, 1]), Arg::output::<f32>([m, n]).strides([n, 1])]
}

/// Sums of integers are exact, so every order gives the same.
#[track_caller]
fn sums_before(kernel: &Generated, sizes: &[(usize, usize)]) {
    for &(m, n) in sizes {
        let x = drawn(m * n, (m * 1000 + n) as u64);
        let wanted: Vec<f32> = x.chunks(n).flat_map(|row| prefixes(row, 0.0, true, |a, b| a + b)).collect();
        for outcome in every(kernel.clone(), &rows(m, n)) {
            assert_eq!(outcome.get::<f32>("y").unwrap(), wanted, "{m}x{n}");
        }
    }
}

#[track_caller]
fn check_rows(def: &KernelDef, sizes: &[(usize, usize)]) {
    for (m, n) in sizes {
        inputs(def).with("x", f64::trunc).written([&*format!("M = {m}, N = {n}")]);
    }
}

/// Whole tiles: one block per row, tile after tile.
#[kernel]
fn running_sum<const W: usize = 512, const L: usize = 64>(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    y: &mut Tensor<f32, (M, N), (ldy, _1)>,
) {
    threads(L);
    let (from, to) = (tile(x, (1, W), (block.x, _)), tile(y, (1, W), (block.x, _)));
    let mut total = full::<f32>((1, 1), 0.0);
    for k in 0..from.size(2) {
        let sums = scan(from[(_, _, k)], 0.0, |a, b| a + b, mode = 1, carry = &mut total);
        copy(sums, to[(_, _, k)]);
    }
}

#[test]
fn whole_rows_are_scanned_tile_by_tile() {
    let sizes = [(1, 1), (3, 512), (2, 513), (3, 1000), (1, 2049), (2, 7)];
    check_rows(running_sum().def(), &sizes);
    // Not a power of two; one warp; more threads than elements; several warps with one element each.
    check_rows(running_sum!(W = 96, L = 96).def(), &sizes);
    check_rows(running_sum!(W = 128, L = 32).def(), &sizes);
    check_rows(running_sum!(W = 64, L = 128).def(), &sizes);
    check_rows(running_sum!(W = 240, L = 48).def(), &sizes);
}

/// Rows and columns of a whole tile, several rows for each block, and a scan of both modes together.
#[kernel]
fn tiles(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    along_rows: &mut Tensor<f32, (M, N), (ldr, _1)>,
    along_columns: &mut Tensor<f32, (M, N), (ldc, _1)>,
    all: &mut Tensor<f32, (M, N), (lda, _1)>,
) {
    threads(64);
    let from = tile(x, (16, 32), (block.x, block.y));
    let at = (block.x, block.y);
    copy(scan(from, 0.0, |a, b| a + b, mode = 1), tile(along_rows, (16, 32), at));
    copy(scan(from, 0.0, |a, b| a + b, mode = 0, exclusive = true), tile(along_columns, (16, 32), at));
    copy(scan(from, 0.0, |a, b| a + b, mode = (1, 0)), tile(all, (16, 32), at));
}

#[test]
fn tiles_are_scanned_along_any_mode() {
    check_rows(tiles().def(), &[(16, 32), (5, 9), (1, 1), (40, 70)]);
}

/// Parts of threads: four elements each, then the warp or the block.
#[kernel]
fn by_parts<const L: usize = 64>(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    let threads = layout!((1, L));
    let from = parallelize(tile(x, (1, 4 * L), (block.x, _)), threads, thread.x, values = (1, 4));
    let to = parallelize(tile(y, (1, 4 * L), (block.x, _)), threads, thread.x, values = (1, 4));
    let mut total = registers::<f32>((1, 1), 0.0);
    for k in 0..from.size(2) {
        let own = map(from[(_, _, k)], |x| x);
        let sums = scan(own, 0.0, |a, b| a + b, mode = 1, exclusive = true);
        let before = block_scan(sum(own, 1), 0.0, |a, b| a + b, exclusive = true, carry = &mut total);
        copy(map((sums, before), |x, b| b + x), to[(_, _, k)]);
    }
}

#[test]
fn parts_of_threads_are_scanned_level_by_level() {
    let sizes = [(3, 256), (2, 300), (1, 1), (2, 1025)];
    sums_before(&generated!(by_parts()), &sizes);
    sums_before(&generated!(by_parts!(L = 40)), &sizes);
}

/// Eight lanes together; each has two elements, which are scanned separately.
#[kernel(allow(unbounded))]
fn by_lanes(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>, totals: &mut Tensor<f32, (M, N)>) {
    let threads = layout!((64, 1));
    let at = (block.x, 0);
    let from = map(parallelize(tile(x, (64, 2), at), threads, thread.x), |x| x);
    let mut most = registers::<f32>((1, 2), f32::NEG_INFINITY);
    let larger = |a, b| if a > b { a } else { b };
    let running = warp_scan(from, f32::NEG_INFINITY, larger, lanes = 8, carry = &mut most);
    copy(running, parallelize(tile(y, (64, 2), at), threads, thread.x));
    copy(most, parallelize(tile(totals, (64, 2), at), threads, thread.x));
}

#[test]
fn lanes_are_scanned_in_groups() {
    for m in [64, 33, 1, 130] {
        let mut x = drawn(m * 2, 5);
        x[m / 2] = f32::INFINITY;
        x[0] = f32::NEG_INFINITY;
        let args = [Arg::tensor(&x, [m, 2]), Arg::output::<f32>([m, 2]), Arg::output::<f32>([m, 2])];
        for outcome in every(generated!(by_lanes()), &args) {
            let (y, totals) = (outcome.get::<f32>("y").unwrap(), outcome.get::<f32>("totals").unwrap());
            for (column, first) in [0, m].into_iter().enumerate() {
                for (group, chunk) in x[first..first + m].chunks(8).enumerate() {
                    let wanted = prefixes(chunk, f32::NEG_INFINITY, false, f32::max);
                    let at = column * m + 8 * group;
                    assert_eq!(y[at..at + chunk.len()], wanted, "{m} {group}");
                    assert!(totals[at..at + chunk.len()].iter().all(|x| x == wanted.last().unwrap()));
                }
            }
        }
    }
}

/// Linear recurrences y[n] = a[n]·y[n-1] + x[n]: maps compose, and composition does not commute.
#[kernel]
fn recurrence<const L: usize = 64>(
    a: &Tensor<i32, (M, N), (lda, _1)>,
    x: &Tensor<i32, (M, N), (ldx, _1)>,
    y: &mut Tensor<i32, (M, N), (ldy, _1)>,
) {
    threads(L);
    let at = (block.x, _);
    let (ga, gx, gy) = (tile(a, (1, 256), at), tile(x, (1, 256), at), tile(y, (1, 256), at));
    let (mut slope, mut start) = (full::<i32>((1, 1), 1), full::<i32>((1, 1), 0));
    let compose = |(a, b), (c, d)| (a * c, b * c + d);
    for k in 0..gx.size(2) {
        let given = (ga[(_, _, k)], gx[(_, _, k)]);
        let maps = scan(given, (1, 0), compose, mode = 1, carry = (slope, start));
        copy(maps.1, gy[(_, _, k)]);
    }
}

#[test]
fn order_matters_to_what_does_not_commute() {
    for kernel in [recurrence(), recurrence!(L = 48)] {
        let few = |x: f64| x % 3.0 - 1.0;
        inputs(kernel.def()).with("a", few).with("x", few).written([
            "M = 2, N = 256",
            "M = 1, N = 1",
            "M = 3, N = 777",
        ]);
    }
}

/// Sums over tiles of rows, to which a function with numbers of its own is added: it is set to 0 out of bounds.
#[kernel(allow(unbounded))]
fn shifted(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, _64)>) {
    let gx = tile(x, (32, 64), (block.x, _));
    let mut acc = full::<f32>((32, 64), 0.0);
    for k in 0..gx.size(2) {
        acc += map(gx[(_, _, k)], |x, at| if (at.0 < M) & (at.1 < N) { x + 1.0 } else { 0.0 });
    }
    copy(scan(acc, 0.0, |a, b| a + b, mode = 1, out_of_bounds = 0.0), tile(y, (32, 64), (block.x, 0)));
}

#[test]
fn elements_that_are_the_identity_out_of_bounds_are_scanned() {
    check_rows(shifted().def(), &[(32, 64), (33, 100), (1, 1), (5, 130)]);
}
