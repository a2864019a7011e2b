//! Sums and extrema over modes of whole tiles.

use crate::inputs;
use tilewright::prelude::*;

/// y(i, j) = x(i, j) - y(before), column after column: the factors are no elements of `x`, and have no edge.
#[kernel(threads = 32)]
fn alternating(x: &Tensor<i32, (M, N)>, y: &mut Tensor<i32, (M, N)>) {
    let x = tile(x, (8, 4), (block.x, block.y));
    let compose = |(a, x), (b, y)| (a * b, b * x + y);
    let (_factor, value) = scan((full::<i32>((8, 4), -1), x), (1, 0), compose, mode = (0, 1));
    copy(value, tile(y, (8, 4), (block.x, block.y)));
}

#[test]
fn tuples_at_the_edge_of_one_tile_are_left_out_of_scans() {
    inputs(alternating().def()).with("x", |x| x % 5.0 - 2.0).written([
        "M = 8, N = 4",
        "M = 5, N = 7",
        "M = 13, N = 3",
    ]);
}

/// A tile is summed while it is only filled, and is loaded from memory afterwards.
#[kernel(threads = 96, allow(uncoalesced))]
fn filled_first(x: &Tensor<i32, (_3, N)>, y: &mut Tensor<f32, 2>, z: &mut Tensor<f16, (_3, N)>) {
    let v = full::<f16>((3, 8), 1.0);
    let w = full::<f16>((3, 8), 2.0);
    let (before, most) = (sum(v), maximum(w, 0));
    for _k in 0..2 {
        v = tile(x, (3, 8), (0, block.y)) as f16;
    }
    w = v;
    copy(before, tile(y, 1, 0));
    copy(sum(most) as f32, tile(y, 1, 1));
    copy(w, tile(z, (3, 8), (0, block.y)));
}

#[test]
fn threads_beyond_a_tile_that_is_only_filled_have_no_part_in_its_sum() {
    inputs(filled_first().def()).written(["N = 5", "N = 8"]);
}

/// Combinations of pairs of neighbours, which are a part of a mode: they stand for no coordinate of `x`, whichever threads
/// have them. The next tile gives one.
macro_rules! coordinates_of_pairs {
    ($name:ident, |$p:ident| $combined:expr, $($rest:tt)*) => {
        #[kernel]
        fn $name(x: &Tensor<f32, N>, y: &mut Tensor<i32, M>, z: &mut Tensor<f32, M>) {
            at_most(N, 512);
            let $p = map(regroup(tile(x, 512, 0), (2, 256)), |x| x);
            let (to, rest) = (tile(y, 256, block.x), tile(z, 256, block.x));
            copy(map((regroup($combined, 256), to), |_, _, at| at.0), to);
            copy($p$($rest)*, rest);
        }
    };
}

coordinates_of_pairs!(of_sums, |p| sum(p, 0), [(0, _)]);
coordinates_of_pairs!(of_sums_by_threads, |p| sum(p, 0), [(1, _)] * 0.0 + regroup(sum(p * 2.0, 0), 256));
coordinates_of_pairs!(of_maxima, |p| maximum(p, 0), [(0, _)]);
coordinates_of_pairs!(of_minima, |p| minimum(p, 0), [(1, _)]);
coordinates_of_pairs!(of_folds, |p| reduce(p, 0.0, |a, b| a + b, mode = 0), [(0, _)]);

#[test]
fn combined_parts_of_a_mode_have_no_coordinate() {
    let all = [of_sums().def().clone(), of_sums_by_threads().def().clone(), of_maxima().def().clone()];
    for def in all.into_iter().chain([of_minima().def().clone(), of_folds().def().clone()]) {
        inputs(&def).written(["N = 512, M = 256"]);
    }
}
