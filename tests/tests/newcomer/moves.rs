//! Elements that go elsewhere: a ragged part, bins.

use crate::{below, every, generated};
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
    let x = parallelize(tile(x, 256, block.x), layout!(256), thread.x);
    let one = registers::<i32>((1), 1);
    copy(one, tile(bins, 1, x[(0)]), how = "atomic_add");
}

#[test]
fn counted_values() {
    let (n, b) = (1000, 7);
    let x = below(9, n, 9);
    let wanted: Vec<i32> = (0..b).map(|bin| x.iter().filter(|x| **x == bin).count() as i32).collect();
    let args = [Arg::tensor(&x, [n]), Arg::in_out(&[0i32; 7], [b as usize])];
    for outcome in every(generated!(histogram()), &args) {
        assert_eq!(outcome.get::<i32>("bins").unwrap(), wanted);
    }
}
