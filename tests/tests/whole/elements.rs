//! Copies and elementwise functions.

use crate::inputs;
use tilewright::prelude::*;

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
    inputs(both_levels().def()).written(["M = 37, N = 50"]);
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
    inputs(places().def()).written(["M = 8, N = 64", "M = 13, N = 70", "M = 1, N = 1", "M = 24, N = 65"]);
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
    inputs(through_shared().def()).with("one", |_| -1.0).written([
        "M = 33, N = 9",
        "M = 64, N = 16",
        "M = 5, N = 3",
    ]);
}

#[test]
fn repeated_elements_have_no_coordinate_along_what_repeats_them() {
    let sizes = ["M = 1, N = 1", "M = 4, N = 8", "M = 5, N = 9", "M = 12, N = 17"];
    inputs(repeated_rows().def()).written(sizes);
    inputs(row_first().def()).with("one", |_| -1.0).written(sizes);
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
    inputs(counts().def()).with("a", |_| 7.0).with("b", |_| 2.0).written(["P = 70, L = 300"]);
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
    inputs(halved().def()).list("x", [0.1f32, -0.9]).written(["N = 2"]);
}
