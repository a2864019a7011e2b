//! Tiles whose rows have any number of bytes, copied by a producer in bulk, and by the threads of a loop.

use tilewright::KernelDef;
use tilewright::prelude::*;
use tilewright_codegen::element::Element;
use tilewright_sim::Arg;

use super::{compiled, numbers, results};

/// Adds the elements of each row of a tensor in tiles along it.
#[track_caller]
fn along<T: Element, S: Element + Into<f64>>(def: &KernelDef, number: fn(f32) -> T, pitch: usize) {
    check::<T, S>(def, number, pitch, |x, n, row| x[row * n..][..n].iter().sum(), |m| m);
}

/// Adds the first `columns` elements of every 24th row.
#[track_caller]
fn down<T: Element, S: Element + Into<f64>>(
    def: &KernelDef,
    number: fn(f32) -> T,
    (columns, pitch): (usize, usize),
) {
    let sum = |x: &[f32], n: usize, row: usize| {
        let rows = x.chunks(n).skip(row).step_by(24);
        rows.flat_map(|row| row.iter().take(columns)).sum::<f32>()
    };
    check::<T, S>(def, number, pitch, sum, |_| 24);
}

/// Compares the sums of a kernel, from the elements, their number in a row and the sum's number.
#[track_caller]
fn check<T: Element, S: Element + Into<f64>>(
    def: &KernelDef,
    number: fn(f32) -> T,
    pitch: usize,
    sum: impl Fn(&[f32], usize, usize) -> f32,
    sums: fn(usize) -> usize,
) {
    let kernel = compiled(def);
    for (m, n) in [(48, 40), (45, 18), (1, 1), (24, 120), (7, 61)] {
        let leading = usize::next_multiple_of(n, pitch);
        let x = numbers(m * leading, 3);
        let stored: Vec<T> = x.iter().map(|x| number(*x)).collect();
        let inside: Vec<f32> = x.chunks(leading).flat_map(|row| row[..n].to_vec()).collect();
        let args = [Arg::tensor(&stored, [m, n]).strides([leading, 1]), Arg::output::<S>([sums(m)])];
        for y in results::<S>(&kernel, &args, "y") {
            for (row, y) in y.into_iter().enumerate() {
                let sum = sum(&inside, n, row);
                assert_eq!(y.into(), f64::from(sum), "{m}x{n}: row {row}\n{}", kernel.source());
            }
        }
    }
}

macro_rules! rows {
    ($($name:ident: $elem:ty => $sum:ty, $zero:expr, $columns:tt, $ahead:tt;)+) => {$(
        #[kernel(arch = 90, allow(unbounded, uncoalesced), allow(bank_conflicts))]
        fn $name(x: &Tensor<$elem, (M, N), (ld, _1)>, y: &mut Tensor<$sum, M>) {
            let (g, s) = (tile(x, (24, $columns), (block.x, _)), shared::<$elem>((24, $columns)));
            let mut a = full::<$sum>((24, $columns), $zero);
            for k in pipelined $ahead {
                copy(g[(_, _, k)], s);
                a += s as $sum;
            }
            copy(sum(a, 1)[(_, 0)], tile(y, 24, block.x));
        }
    )+};
}

rows! {
    ten_bytes_by_threads: f16 => f32, 0.0, 5, (0..g.size(2), stages = 3);
    three_bytes_by_threads: i8 => i32, 0, 3, (0..g.size(2), stages = 2);
    six_bytes_by_threads: bf16 => f32, 0.0, 3, (0..g.size(2), stages = 1);
    two_bytes_by_threads: f16 => f32, 0.0, 1, (0..g.size(2), stages = 2);
}

macro_rules! columns {
    ($($name:ident: $elem:ty => $sum:ty, $zero:expr, $columns:tt, $stages:tt;)+) => {$(
        #[kernel(arch = 90, allow(unbounded, uncoalesced), allow(bank_conflicts))]
        fn $name(x: &Tensor<$elem, (M, N), (ld, _1)>, y: &mut Tensor<$sum, _24>) {
            let (g, s) = (tile(x, (24, $columns), (_, 0)), shared::<$elem>((24, $columns)));
            let mut a = full::<$sum>((24, $columns), $zero);
            for k in pipelined(0..g.size(2), stages = $stages, producer = warp) {
                copy(g[(_, _, k)], s);
                a += s as $sum;
            }
            copy(sum(a, 1)[(_, 0)], tile(y, 24, 0));
        }
    )+};
}

columns! {
    ten_bytes: f16 => f32, 0.0, 5, 2;
    two_bytes: f16 => f32, 0.0, 1, 1;
    twenty_four_bytes: bf16 => f32, 0.0, 12, 3;
    three_bytes: i8 => i32, 0, 3, 4;
    forty_four_bytes: f32 => f32, 0.0, 11, 2;
    a_hundred_and_twenty_two_bytes: f16 => f32, 0.0, 61, 2;
}

#[test]
fn rows_of_any_number_of_bytes() {
    for pitch in [1, 8] {
        down::<f16, f32>(ten_bytes().def(), f16::from_f32, (5, pitch));
        down::<f16, f32>(two_bytes().def(), f16::from_f32, (1, pitch));
        down::<bf16, f32>(twenty_four_bytes().def(), bf16::from_f32, (12, pitch));
        down::<i8, i32>(three_bytes().def(), |x| x as i8, (3, 16 * pitch));
        down::<f32, f32>(forty_four_bytes().def(), |x| x, (11, pitch));
        down::<f16, f32>(a_hundred_and_twenty_two_bytes().def(), f16::from_f32, (61, pitch));
    }
}

#[test]
fn rows_of_any_number_of_bytes_by_threads() {
    for pitch in [1, 8] {
        along::<f16, f32>(ten_bytes_by_threads().def(), f16::from_f32, pitch);
        along::<i8, i32>(three_bytes_by_threads().def(), |x| x as i8, pitch);
        along::<bf16, f32>(six_bytes_by_threads().def(), bf16::from_f32, pitch);
        along::<f16, f32>(two_bytes_by_threads().def(), f16::from_f32, pitch);
    }
}

/// Columns that are longer than a box of a bulk copy.
#[kernel(arch = 90, allow(uncoalesced), allow(bank_conflicts))]
fn long_columns(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, N>) {
    let (g, s) = (tile(x, (300, 3), (_, block.x)), shared::<f32>((300, 3)));
    let mut a = full::<f32>((300, 3), 0.0);
    for k in pipelined(0..g.size(2), stages = 3, producer = warp) {
        copy(g[(_, _, k)], s);
        a += s;
    }
    copy(sum(a, 0)[(0, _)], tile(y, 3, block.x));
}

/// More rows than a box has.
#[kernel(arch = 90, allow(uncoalesced), allow(bank_conflicts))]
fn many_rows(x: &Tensor<f32, (M, N), (ld, _1)>, y: &mut Tensor<f32, M>) {
    let (g, s) = (tile(x, (300, 8), (block.x, _)), shared::<f32>((300, 8)));
    let mut a = full::<f32>((300, 8), 0.0);
    for k in pipelined(0..g.size(2), stages = 3, producer = warp) {
        copy(g[(_, _, k)], s);
        a += s;
    }
    copy(sum(a, 1)[(_, 0)], tile(y, 300, block.x));
}

#[test]
fn tiles_of_many_rows() {
    let columns = compiled(long_columns().def());
    for (m, n) in [(600, 24), (504, 7), (4, 1)] {
        let x = numbers(m * n, 5);
        let args = [Arg::tensor(&x, [m, n]), Arg::output::<f32>([n])];
        let sums: Vec<f32> = x.chunks(m).map(|column| column.iter().sum()).collect();
        results::<f32>(&columns, &args, "y").into_iter().for_each(|y| assert_eq!(y, sums, "{m}x{n}"));
    }
    let rows = compiled(many_rows().def());
    for (m, n) in [(600, 24), (333, 8), (1, 4)] {
        let x = numbers(m * n, 5);
        let args = [Arg::tensor(&x, [m, n]).strides([n, 1]), Arg::output::<f32>([m])];
        let sums: Vec<f32> = x.chunks(n).map(|row| row.iter().sum()).collect();
        results::<f32>(&rows, &args, "y").into_iter().for_each(|y| assert_eq!(y, sums, "{m}x{n}"));
    }
}

/// The remedy in the message about a regrouped tile.
#[kernel(arch = 90)]
fn regrouped_behind_the_copy(x: &Tensor<f32, (M, N), (ld, _1)>, y: &mut Tensor<f32, M>) {
    let (g, s) = (tile(x, (1, 64), (block.x, _)), shared::<f32>((1, 64)));
    let mut a = full::<f32>((2, 32), 0.0);
    for k in pipelined(0..g.size(2), stages = 2, producer = warp) {
        copy(g[(_, _, k)], s);
        a += regroup(s, (2, 32));
    }
    copy(sum(regroup(a, 64), out_of_bounds = 0.0), tile(y, 1, block.x));
}

#[test]
fn a_tile_that_is_regrouped_behind_the_copy() {
    along::<f32, f32>(regrouped_behind_the_copy().def(), |x| x, 4);
}
