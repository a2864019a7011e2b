//! Functions of elements.

use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

/// Limits of types, in closures over another type.
#[kernel]
fn limits(
    x: &Tensor<f32, N>,
    large: &mut Tensor<i32, N>,
    small: &mut Tensor<i32, N>,
    far: &mut Tensor<f32, N>,
) {
    let x = tile(x, 256, block.x);
    let (all, chosen, most) = map(x, |x| {
        let most = -i32::MAX;
        (i32::MAX - 1, if x > 0.0 { most } else { i32::MIN }, u32::MAX as f32)
    });
    copy(all, tile(large, 256, block.x));
    copy(chosen, tile(small, 256, block.x));
    copy(most, tile(far, 256, block.x));
}

#[test]
fn constants_have_the_types_that_they_name() {
    let args = [
        Arg::tensor(&[1.0f32, -1.0], [2]),
        Arg::output::<i32>([2]),
        Arg::output::<i32>([2]),
        Arg::output::<f32>([2]),
    ];
    let outcome = limits().simulate(&args).unwrap();
    assert_eq!(outcome.get::<i32>("large").unwrap(), [i32::MAX - 1; 2]);
    assert_eq!(outcome.get::<i32>("small").unwrap(), [-i32::MAX, i32::MIN]);
    assert_eq!(outcome.get::<f32>("far").unwrap(), [u32::MAX as f32; 2]);
}

/// Minors of rows of 2x2 matrices, where a tile that is loaded whole is combined with a tile whose elements are set one by one.
#[kernel]
fn adjugates(x: &Tensor<f32, (_4, N)>, y: &mut Tensor<f32, (_4, N)>) {
    let x = map(tile(x, (4, 256), (0, block.x)), |x| x);
    let mut turned = full::<f32>((4, 256), 0.0);
    turned += x;
    turned[(0, _)] = x[(3, _)];
    turned[(3, _)] = x[(0, _)];
    turned[(1, _)] *= -1.0;
    turned[(2, _)] *= -1.0;
    copy(turned + 0.5 * x, tile(y, (4, 256), (0, block.x)));
}

#[test]
fn elements_of_a_tile_that_is_combined_with_another() {
    inputs(adjugates().def()).written(["N = 1", "N = 256", "N = 300"]);
}

/// Each element less the mean of its week. The threads divide neither a week nor the number of weeks.
#[kernel(allow(uncoalesced))]
fn weekly<const D: usize = 7, const W: usize = 30>(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let x = map(regroup(tile(x, D * W, block.x), (D, W)), |x| x);
    copy(x - sum(x, 0) / D as f32, regroup(tile(y, D * W, block.x), (D, W)));
}

#[test]
fn tiles_with_another_shape_whose_extents_threads_do_not_divide() {
    for kernel in [weekly(), weekly!(W = 300), weekly!(D = 3, W = 5), weekly!(D = 33, W = 31)] {
        inputs(kernel.def()).written(["N = 21", "N = 280", "N = 1320"]);
    }
}
