//! Copies and elementwise functions.

use tilewright::prelude::*;
use tilewright_fuzz::written_with;
use tilewright_sim::{Arg, Options, run_every};

pub(crate) const SIZES: [usize; 6] = [1, 3, 31, 100, 256, 1000];

pub(crate) fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7 + at / 5 + seed) % 19) as f32 - 9.0).collect()
}

pub(crate) fn options() -> Options {
    Options { schedules: 2, ..Options::default() }
}

/// y = a x + y
#[kernel]
fn axpy<const W: usize = 1024>(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>, a: f32) {
    let (gx, gy) = (tile(x, W, block.x), tile(y, W, block.x));
    copy(map((gx, gy), |x, y| a * x + y), gy);
}

#[test]
fn axpy_is_right_for_every_size_and_tile() {
    for width in [1, 3, 31, 100, 256, 1024, 5000] {
        let kernel = axpy().specialize(&[("W", width)]).unwrap();
        let kernel = kernel.def().generate().unwrap();
        for n in SIZES {
            let (x, y) = (numbers(n, 1), numbers(n, 2));
            let wanted: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 3.0 * x + y).collect();
            let args = [Arg::tensor(&x, [n]), Arg::in_out(&y, [n]), Arg::number(3.0f32)];
            for outcome in
                run_every(&kernel, &args, &options()).unwrap_or_else(|e| panic!("{width} {n}: {e}"))
            {
                assert_eq!(outcome.get::<f32>("y").unwrap(), wanted, "{width} {n}");
            }
        }
    }
}

pub(crate) fn bits(all: &[f32]) -> Vec<bf16> {
    all.iter().map(|x| bf16::from_f32(*x)).collect()
}

/// A transpose through shared memory with a derived layout.
#[kernel]
fn transpose<const T: usize = 32>(a: &Tensor<f32, (M, N)>, b: &mut Tensor<f32, (M, N), (ldb, _1)>) {
    let turning = shared::<f32>((T, T));
    copy(tile(a, (T, T), (block.x, block.y)), turning);
    copy(turning, tile(b, (T, T), (block.x, block.y)));
}

#[test]
fn transposes_need_no_explicit_barrier() {
    for side in [7, 32, 64] {
        let kernel = transpose().specialize(&[("T", side)]).unwrap();
        let kernel = kernel.def().generate().unwrap();
        for (m, n) in [(1, 1), (31, 100), (64, 64)] {
            let a = numbers(m * n, 1);
            let wanted: Vec<f32> = (0..m * n).map(|at| a[at / n + at % n * m]).collect();
            let args = [Arg::tensor(&a, [m, n]), Arg::output::<f32>([m, n]).strides([n, 1])];
            for outcome in
                run_every(&kernel, &args, &options()).unwrap_or_else(|e| panic!("{side}, {m} {n}: {e}"))
            {
                assert_eq!(outcome.get::<f32>("b").unwrap(), wanted, "{side}, {m} {n}");
            }
        }
    }
}

/// Whole tiles and per-thread partitions in one kernel: row sums by whole tiles, plus terms added by hand.
#[kernel(allow(unbounded))]
fn both_levels(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, M>) {
    threads(64);
    let gx = tile(x, (16, 64), (block.x, 0));
    let gy = tile(y, 16, block.x);
    let sums = shared::<f32>((16, 1));
    copy(sum(gx, 1), sums);
    sync_threads();
    let t = layout!(64);
    let own = parallelize(sums[(_, 0)], t, thread.x, ragged = true);
    let out = parallelize(gy, t, thread.x, ragged = true);
    copy(map(own, |s| s + 1.0), out);
}

#[test]
fn both_levels_work_in_one_kernel() {
    let (m, n) = (37, 50);
    let x = numbers(m * n, 1);
    let args = [Arg::tensor(&x, [m, n]).strides([n, 1]), Arg::output::<f32>([m])];
    written_with(both_levels().def(), &args, &options());
}

/// Where each element of a tile stands, in tiles that are contiguous along either mode, read transposed, and reduced.
#[kernel]
fn places<const R: usize = 8, const W: usize = 64>(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    y: &mut Tensor<i32, (M, N), (ldy, _1)>,
    t: &mut Tensor<i32, (N, M), (ldt, _1)>,
    rows: &mut Tensor<i32, { (M, ceil_div(N, W)) }>,
) {
    let s = map(tile(x, (R, W), (block.x, block.y)), |x| x);
    copy(map(s, |_, at| at.0 * 1000 + at.1), tile(y, (R, W), (block.x, block.y)));
    copy(map(permute(s, (1, 0)), |_, at| at.0 * 1000 + at.1), tile(t, (W, R), (block.y, block.x)));
    let most = maximum(s, 1);
    copy(map(most, |_, at| at.0), tile(rows, (R, 1), (block.x, block.y)));
}

#[test]
fn elements_of_whole_tiles_know_their_coordinates() {
    for (m, n) in [(8, 64), (13, 70), (1, 1), (24, 65)] {
        let args = [
            Arg::tensor(&numbers(m * n, 1), [m, n]).strides([n, 1]),
            Arg::output::<i32>([m, n]).strides([n, 1]),
            Arg::output::<i32>([n, m]).strides([m, 1]),
            Arg::output::<i32>([m, n.div_ceil(64)]),
        ];
        written_with(places().def(), &args, &options());
    }
}

/// Rows that are repeated give coordinates along columns alone; a tile gives both.
#[kernel(allow(uncoalesced, unread))]
fn repeated_rows(
    x: &Tensor<f32, (M, N)>,
    columns: &mut Tensor<i32, (M, N)>,
    both: &mut Tensor<i32, (M, N)>,
    reduced: &mut Tensor<i32, (M, N)>,
) {
    let at = (block.x, block.y);
    let x = tile(x, (4, 8), at);
    let mut a = full::<f32>((4, 8), 0.0);
    a += x[(0, _)].along(1);
    copy(map(a, |_, at| at.1), tile(columns, (4, 8), at));
    a += x;
    copy(map(a, |_, at| at.0 * 1000 + at.1), tile(both, (4, 8), at));
    let rows = map(x, |x| x);
    let scaled = full::<f32>((4, 8), 1.0) * sum(rows, 1) + maximum(rows, 0);
    copy(map(scaled, |_, at| at.0 * 1000 + at.1), tile(reduced, (4, 8), at));
}

/// The first operand whose coordinates are known along a mode gives them, and a row gives none along rows.
#[kernel(allow(uncoalesced, unread))]
fn row_first(x: &Tensor<f32, (M, N)>, y: &mut Tensor<i32, (M, N)>, one: &mut Tensor<i32, (M, N)>) {
    let at = (block.x, block.y);
    let g = tile(x, (4, 8), at);
    let row = map(tile(x, (1, 8), (0, block.y)), |x| x);
    copy(map((row, g), |_, _, at| at.0 * 1000 + at.1), tile(y, (4, 8), at));
    let line = tile(x, (1, 8), (block.x * 4, block.y));
    copy(map(line, |_, at| at.0 * 1000 + at.1), tile(one, (1, 8), (block.x * 4, block.y)));
}

/// The first operand gives the coordinates also where it went through shared memory: a row, and sums that several threads have.
#[kernel(threads = 32, allow(uncoalesced, unread))]
fn through_shared(x: &Tensor<i32, (M, N)>, y: &mut Tensor<i32, (M, N)>, one: &mut Tensor<i32, (M, N)>) {
    let row = (block.x * 32, block.y);
    let s = shared::<i32>((1, 4));
    copy(tile(x, (1, 4), row), s);
    let other = tile(x, (1, 4), (0, block.y));
    copy(map((s, other), |_, _, at| at.0 * 1000 + at.1), tile(one, (1, 4), row));
    let at = (block.x, block.y);
    let least = minimum(map(tile(x, (32, 4), at), |x| x), 1);
    let first = tile(x, (32, 4), (0, block.y));
    copy(map((least, first), |_, _, at| at.0 * 1000 + at.1), tile(y, (32, 4), at));
}

#[test]
fn coordinates_survive_shared_memory() {
    for (m, n) in [(33, 9), (64, 16), (5, 3)] {
        let x: Vec<i32> = (0..m * n).map(|x| x as i32).collect();
        let args =
            [Arg::tensor(&x, [m, n]), Arg::output::<i32>([m, n]), Arg::in_out(&vec![-1; m * n], [m, n])];
        written_with(through_shared().def(), &args, &options());
    }
}

#[test]
fn repeated_elements_have_no_coordinate_along_what_repeats_them() {
    for (m, n) in [(1, 1), (4, 8), (5, 9), (12, 17)] {
        let x = numbers(m * n, 1);
        let x = || Arg::tensor(&x, [m, n]);
        let all = || Arg::output::<i32>([m, n]);
        let args = [x(), all(), all(), all()];
        written_with(repeated_rows().def(), &args, &options());
        let args = [x(), all(), Arg::in_out(&vec![-1; m * n], [m, n])];
        written_with(row_first().def(), &args, &options());
    }
}

/// How many bytes of each row are equal, and how many numbers are positive: counts above 255.
#[kernel]
fn counts(a: &Tensor<u8, (P, L)>, b: &Tensor<bf16, (P, L)>, d: &mut Tensor<i32, P>, e: &mut Tensor<f32, P>) {
    let (a, b) = (tile(a, (64, 1), (block.x, _)), tile(b, (64, 1), (block.x, _)));
    let mut equal = map(a[(_, 0, 0)], |x| if x == 7 { 1 } else { 0 });
    let mut positive = map(b[(_, 0, 0)], |x| if x > 0.0 { 1.0 } else { 0.0 });
    for k in 1..a.size(2) {
        equal += map(a[(_, 0, k)], |x| if x == 7 { 1 } else { 0 });
        positive += map(b[(_, 0, k)], |x| if x > 0.0 { 1.0 } else { 0.0 });
    }
    copy(equal, tile(d, 64, block.x));
    copy(positive, tile(e, 64, block.x));
}

#[test]
fn literals_that_closures_return_are_counted() {
    let (p, l) = (70, 300);
    let (a, b) = (vec![7u8; p * l], vec![bf16::from_f32(2.0); p * l]);
    let args =
        [Arg::tensor(&a, [p, l]), Arg::tensor(&b, [p, l]), Arg::output::<i32>([p]), Arg::output::<f32>([p])];
    let done = counts().simulate(&args).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(done.get::<i32>("d").unwrap(), vec![300; p]);
    assert_eq!(done.get::<f32>("e").unwrap(), vec![300.0; p]);
}

#[device]
fn pair(x: f32) -> (f32, i32) {
    (x, if x > 0.0 { 1 } else { 7 })
}

/// Literals with a suffix, and results of functions, have the type that is written.
#[kernel(allow(unread))]
fn halved(x: &Tensor<f32, N>, y: &mut Tensor<i32, N>, z: &mut Tensor<i32, N>) {
    use self::pair;
    let x = map(tile(x, 256, block.x), |x| x);
    let class = map(x, |x| if x > 0.0 { 1i32 } else { 3i32 });
    copy(class / 2 * 2, tile(y, 256, block.x));
    let (_, class) = map(x, |x| pair(x));
    copy(class / 2, tile(z, 256, block.x));
}

#[test]
fn written_types_of_literals_count() {
    let outputs = [Arg::output::<i32>([2]), Arg::output::<i32>([2])];
    let args = [&[Arg::tensor(&[0.1f32, -0.9], [2])][..], &outputs].concat();
    let done = halved().simulate(&args).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(done.get::<i32>("y").unwrap(), [0, 2]);
    assert_eq!(done.get::<i32>("z").unwrap(), [0, 3]);
}
