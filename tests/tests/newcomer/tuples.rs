//! Tuples of values and tiles: loops over them, and functions that return them.

use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

/// A filter whose taps are listed with their weights.
#[kernel]
fn filtered(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let mut total = full::<f32>(256, 0.0);
    for (offset, weight) in ((0, 0.5), (-1, 0.25), (4, 0.125)) {
        total += weight * shift(tile(x, 256, block.x), offset);
    }
    for more in (tile(x, 256, block.x), total) {
        total += more;
    }
    copy(total, tile(y, 256, block.x));
}

#[test]
fn loops_go_over_tuples() {
    inputs(filtered().def()).written(["N = 1", "N = 256", "N = 1000"]);
}

/// A point turned by an angle.
#[device]
fn turned(x: f32, y: f32, angle: f32) -> (f32, f32) {
    let (c, s) = (cos(angle), sin(angle));
    (c * x - s * y, s * x + c * y)
}

#[kernel]
fn spiral(angle: f32, x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    use self::turned;
    let x = tile(x, 256, block.x);
    let (a, b) = turned(x, x + 1.0, angle);
    let (_, c) = map((a, b), |a, b| turned(a, b, angle));
    copy(a + c, tile(y, 256, block.x));
}

#[test]
fn functions_of_several_results_take_tiles() {
    inputs(spiral().def()).set("angle = 0.3").near(1e-5, ["N = 300"]);
}
