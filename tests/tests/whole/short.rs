//! Tiles that are smaller than the block: threads outside of them have no element that counts.

use tilewright::prelude::*;

use crate::inputs;

/// Reductions of 40 elements: in shared memory, in registers, filled, numbered.
#[kernel]
fn reduced(x: &Tensor<f32, N>, y: &mut Tensor<f32, _18>, running: &mut Tensor<f32, N>) {
    at_most(N, 40);
    let put = |value, n| copy(value, tile(y, 1, n));
    let s = shared::<f32>(40);
    copy(tile(x, 40, 0), s);
    put(maximum(s), 0);
    put(sum(exp(s)), 1);
    put(reduce(s, 1.0, |a, b| a * b), 2);
    put(minimum(s + 10.0), 3);
    let held = map(s, |x| x);
    put(maximum(held), 4);
    put(sum(exp(held)), 5);
    copy(scan(s, f32::NEG_INFINITY, |a, b| max(a, b)), tile(running, 40, 0));
    let three = full::<f32>(40, -3.0);
    put(maximum(three), 6);
    put(sum(three + 5.0), 7);
    put(reduce(three, 0.0, |a, b| a + b), 8);
    put(sum(exp(0.0 * iota(40) as f32)), 9);
    let two = shared::<f32>(40);
    fill(two, -2.0);
    put(maximum(two), 10);
    put(sum(two * two + 1.0), 11);
    let (index, least) =
        reduce((iota(40), full::<f32>(40, 1.0)), (99, 9.0), |(i, a), (j, b)| (min(i, j), min(a, b)));
    put(index, 12);
    put(least, 13);
    put(N - 1, 14);
    put(sum(full::<i32>((40, 3), 1)), 15);
    let rows = iota((40, 1), 0);
    put(maximum(regroup(rows, 40)), 16);
    put(sum(regroup(rows, 40)), 17);
}

#[test]
fn elements_beyond_the_tile_do_not_count() {
    let x = |x: f64| -1.0 - (x.abs() % 3.0) / 64.0;
    inputs(reduced().def()).with("x", x).near(1e-5, ["N = 1", "N = 3", "N = 33", "N = 40"]);
}

/// Along one mode of two, with operands that have an end along the other only; a vector that is replaced by all threads that
/// have its rows.
#[kernel]
fn columns(
    x: &Tensor<f32, _8>,
    z: &Tensor<f32, (_40, _64)>,
    a: &mut Tensor<f32, _40>,
    b: &mut Tensor<f32, _8>,
    c: &mut Tensor<f32, _8>,
    d: &mut Tensor<f32, _40>,
) {
    let two = full::<f32>((40, 8), 2.0);
    copy(sum(two, 1)[(_, 0)], tile(a, 40, 0));
    copy(sum(two, 0)[(0, _)], tile(b, 8, 0));
    let more = two + tile(x, 8, 0).along(1);
    copy(sum(more + 1.0, 0)[(0, _)], tile(c, 8, 0));
    let d = tile(d, 40, 0).along(0);
    d = 2.0 * d + sum(tile(z, (40, 64), (0, 0)), 1);
    d += 1.0;
}

#[test]
fn columns_of_small_tiles() {
    inputs(columns().def()).with("d", |x| x).written([""]);
}

/// One element in shared memory, which is read as an integer: the end of a loop, a side of a condition.
#[kernel(threads = 64)]
fn repeated(x: &Tensor<i32, N>, y: &mut Tensor<i32, N>) {
    let x = tile(x, 64, block.x);
    let count = shared::<i32>(1);
    copy(maximum(x), count);
    let mut total = full::<i32>(64, 0);
    for _k in 0..count[(0)] {
        total += x;
    }
    count = 7;
    if count[(0)] == 7 {
        total += 1;
    }
    copy(select(count < 8, total, x), tile(y, 64, block.x));
}

#[test]
fn an_element_is_written_before_it_is_read_as_an_integer() {
    inputs(repeated().def()).below("x", 5).written(["N = 100"]);
}

/// Tiles of 160 and 992 bytes that a producer copies, and one in boxes of 112: each begins where a bulk copy may.
#[kernel(threads = 64, arch = 90, allow(bank_conflicts))]
fn summed(
    x: &Tensor<i32, N>,
    z: &Tensor<f64, (_8, M)>,
    y: &mut Tensor<i32, _40>,
    w: &mut Tensor<f64, (_4, _31)>,
    v: &mut Tensor<f64, (_6, _7)>,
) {
    let boxes = tile(z, (6, 7), (0, _));
    let (x, z) = (tile(x, 40, _), tile(z, (4, 31), (_, 0)));
    let (sx, sz) = (shared::<i32>(40), shared::<f64>((4, 31)));
    let mut columns = full::<f64>((4, 31), 0.0);
    for k in pipelined(0..z.size(2), stages = 2, producer = warp) {
        copy(z[(_, _, k)], sz);
        columns += sz;
    }
    let mut total = full::<i32>(40, 0);
    for k in pipelined(0..x.size(1), stages = 3, producer = warp) {
        copy(x[(_, k)], sx);
        total += sx;
    }
    let sb = shared::<f64>((6, 7));
    let mut parts = full::<f64>((6, 7), 0.0);
    for k in pipelined(0..boxes.size(2), stages = 2, producer = warp) {
        copy(boxes[(_, _, k)], sb);
        parts += sb;
    }
    copy(total, tile(y, 40, 0));
    copy(columns, tile(w, (4, 31), (0, 0)));
    copy(parts, tile(v, (6, 7), (0, 0)));
}

#[test]
fn slots_of_small_tiles_are_aligned_for_bulk_copies() {
    inputs(summed().def()).written(["N = 130, M = 31"]);
}
