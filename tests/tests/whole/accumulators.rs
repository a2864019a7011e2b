//! Bounds of tiles that statements change.

use tilewright::prelude::*;

use crate::inputs;

/// The largest of the first elements, to which the elements of a shorter tensor are added.
macro_rules! largest {
    ($name:ident, |$x:ident, $z:ident, $v:ident| $($body:tt)*) => {
        #[kernel]
        fn $name(x: &Tensor<f32, (_1024, N)>, z: &Tensor<f32, K>, y: &mut Tensor<f32, N>) {
            at_most(K, 1024);
            let ($x, $z) = (tile(x, (1024, 1), (0, block.x)), regroup(tile(z, 1024, 0), (1024, 1)));
            $($body)*
            copy(maximum($v)[(0, _)], tile(y, 1, block.x));
        }
    };
}

largest!(added, |x, z, v| let mut v = map(x, |x| x); v += z;);
largest!(copied, |x, z, v| let mut v = full::<f32>((1024, 1), 0.0); copy(x, v); v += z;);
largest!(scaled, |x, z, v| let mut v = x + 0.0; v += z * 2.0;);
largest!(squared, |x, z, v| let mut v = x + 0.0; v += 2.0 * z * z;);
largest!(under_a_condition, |x, z, v| let mut v = x + 0.0; if K > 3 { v = v + (-z) / 3.0; });
largest!(in_a_loop, |x, z, v| let mut v = x + 0.0; for _k in 0..K { v -= z; });

#[test]
fn accumulators_have_their_own_bounds() {
    let first = [added().def().clone(), copied().def().clone(), scaled().def().clone()];
    let rest = [squared().def().clone(), under_a_condition().def().clone(), in_a_loop().def().clone()];
    for def in first.into_iter().chain(rest) {
        inputs(&def).indexed("x", |at, _| if at == 700 { 5.0 } else { -5.0 }).with("z", |_| 1.0).written([
            "N = 1, K = 1",
            "N = 1, K = 8",
            "N = 1, K = 700",
        ]);
    }
}

/// Only filled before: its elements outside of the rows of `x` are no rows.
#[kernel]
fn sums_of_scaled(x: &Tensor<f32, (M, K)>, y: &mut Tensor<f32, M>) {
    let x = tile(x, (32, 8), (block.x, _));
    let mut v = full::<f32>((32, 8), 0.0);
    for k in 0..x.size(2) {
        v += x[(_, _, k)] * 2.0;
    }
    copy(sum(v, 1)[(_, 0)], tile(y, 32, block.x));
}

#[test]
fn what_is_added_may_be_scaled() {
    inputs(sums_of_scaled().def()).written([
        "M = 32, K = 8",
        "M = 33, K = 9",
        "M = 5, K = 30",
        "M = 5, K = 0",
    ]);
}

/// Tiles that are no loads: all of their elements are in bounds.
#[kernel]
fn numbers_in_a_tile(z: &Tensor<i32, K>, y: &mut Tensor<i32, N>) {
    at_most(K, 64);
    let (z, mut v, mut w) = (tile(z, 64, 0), iota(64), full::<i32>(64, 1) + 1);
    v += z;
    w += z;
    copy(sum(v) + sum(w), tile(y, 1, block.x));
}

#[test]
fn tiles_of_numbers_have_no_edges() {
    inputs(numbers_in_a_tile().def()).with("z", |_| 1.0).written([
        "N = 1, K = 1",
        "N = 1, K = 8",
        "N = 1, K = 64",
    ]);
}

/// Filled with an argument, or with a constant: it has the edges of the tile that is added to it first.
#[kernel]
fn filled_with(z: &Tensor<f32, K>, y: &mut Tensor<f32, N>, a: f32) {
    at_most(K, 64);
    let (z, mut v, mut w) = (tile(z, 64, 0), full::<f32>(64, a), full::<f32>(64, 2.0));
    v += z;
    w += z;
    copy(sum(v) + sum(w), tile(y, 1, block.x));
}

#[test]
fn any_fill_is_a_fill() {
    inputs(filled_with().def()).set("a = 3").written(["N = 1, K = 1", "N = 1, K = 8", "N = 1, K = 64"]);
}
