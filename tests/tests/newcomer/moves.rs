//! Elements that go elsewhere: a ragged part, bins.

use tilewright::prelude::*;
use tilewright_sim::Arg;
use tilewright_tests::inputs::inputs;

/// The negative of a picture: the three colours are a mode of the regrouped tile, which four threads do not
/// divide.
#[kernel(allow(uncoalesced))]
fn negative(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let t = layout!((4, 30));
    let part = |x| parallelize(regroup(tile(x, 90, block.x), (3, 30)), t, thread.x, ragged = true);
    let (from, to) = (part(x), part(y));
    map(from, to, |x| -x);
}

#[test]
fn a_ragged_mode_of_a_regrouped_tile() {
    inputs(negative().def()).written(["N = 90", "N = 33", "N = 271"]);
}

/// How often each value occurs; values outside of the table are not counted.
#[kernel]
fn histogram(x: &Tensor<i32, N>, bins: &mut Tensor<i32, B>) {
    let t = layout!(256);
    let x = parallelize(tile(x, 256, block.x), t, thread.x);
    let one = registers::<i32>((1), 1);
    copy(one, tile(bins, 1, x[(0)]), how = "atomic_add");
}

#[test]
fn counted_values() {
    inputs(histogram().def()).below("x", 9).zero("bins").written(["N = 1000, B = 7"]);
}

/// The end of each row's list, from prefix sums of {E + 1} offsets; `at_most` bounds the computed extent.
#[kernel]
fn offsets(counts: &Tensor<i32, { E + 1 }>, ends: &mut Tensor<i32, { E + 1 }>) {
    at_most(E + 1, 512);
    copy(scan(tile(counts, 512, 0), 0, |a, b| a + b), tile(ends, 512, 0));
}

/// Each tile of each image, plus the tile above it: a walk over three modes, and a choice between integers.
#[kernel]
fn echoes(x: &Tensor<f32, (M, N, B)>, y: &mut Tensor<f32, (M, N, B)>) {
    let (i, j, image) = walk((ceil_div(M, 32), ceil_div(N, 8), B), block.x);
    let above = if i > 0 { i - 1 } else { 0 };
    let sum = tile(x, (32, 8, 1), (i, j, image)) + tile(x, (32, 8, 1), (above, j, image));
    copy(sum, tile(y, (32, 8, 1), (i, j, image)));
}

/// The sums of 3 or 5 tiles.
#[kernel]
fn sums_of_some(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (count, step) = if block.x % 2 == 0 || block.x > 2 { (3, 1) } else { (5, -1) };
    let mut total = full::<f32>(64, 0.0);
    for k in 0..count {
        total += tile(x, 64, block.x + step * k);
    }
    copy(total, tile(y, 64, block.x));
}

#[test]
fn integers_that_are_chosen() {
    inputs(echoes().def()).written(["M = 70, N = 20, B = 3", "M = 32, N = 1, B = 1"]);
    inputs(sums_of_some().def()).written(["N = 400"]);
}

#[test]
fn computed_extents_have_bounds() {
    inputs(offsets().def()).written(["E_plus_1 = 301"]);
    let args = [Arg::tensor(&[1; 513], [513]), Arg::output::<i32>([513])];
    assert!(offsets().simulate(&args).unwrap_err().to_string().contains("at most 512"));
}
