//! Neighbours: a convolution of each channel, a blur, and pixels that are twice as many.

use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

/// A 3×3 convolution of each channel on its own, with its bias.
#[kernel]
fn depthwise(
    x: &Tensor<f32, (W, H, C)>,
    w: &Tensor<f32, (_3, _3, C)>,
    bias: &Tensor<f32, C>,
    y: &mut Tensor<f32, (W, H, C)>,
) {
    let x = tile(x, (32, 8, 1), (block.x, block.y, block.z))[(_, _, 0)];
    let mut acc = full::<f32>((32, 8), 0.0);
    for i in unroll(0..3) {
        for j in unroll(0..3) {
            let weight = w[(i, j, block.z)];
            acc = map((acc, shift(x, (i - 1, j - 1))), |s, x| s + x * weight);
        }
    }
    let bias = bias[(block.z)];
    copy(map(acc, |s| s + bias), tile(y, (32, 8, 1), (block.x, block.y, block.z))[(_, _, 0)]);
}

#[test]
fn depthwise_convolution() {
    inputs(depthwise().def()).written(["W = 37, H = 11, C = 3"]);
}

/// The mean of 5x5 pixels; out-of-bounds pixels are the nearest ones inside.
#[kernel(deny(uncoalesced), allow(bank_conflicts))]
fn blurred(x: &Tensor<f32, (H, W), (ldx, _1)>, y: &mut Tensor<f32, (H, W), (ldy, _1)>) {
    let pixels = shared::<f32>((20, 36));
    copy(tile(x, (16, 32), (block.x, block.y), halo = 2), pixels, clamp = true);
    let mut total = full::<f32>((16, 32), 0.0);
    for i in unroll(0..5) {
        for j in unroll(0..5) {
            total += shift(tile(pixels, (16, 32), (0, 0)), (i, j));
        }
    }
    copy(total / 25.0, tile(y, (16, 32), (block.x, block.y)));
}

#[test]
fn images_are_blurred() {
    inputs(blurred().def()).written(["H = 1, W = 1", "H = 16, W = 32", "H = 20, W = 71", "H = 2, W = 40"]);
}

/// Transposed convolution of each channel, stride 2: pixels that are twice as many.
#[kernel]
fn upsampled(
    x: &Tensor<f32, (W, H, C)>,
    w: &Tensor<f32, (_4, _4, C)>,
    y: &mut Tensor<f32, { (2 * W, 2 * H, C) }>,
) {
    let y = tile(y, (64, 4, 1), (block.x, block.y, block.z));
    map(y, y, |_, at| {
        let (i, j) = ((at.0 + 1) / 2, (at.1 + 1) / 2);
        let (a, b) = ((at.0 + 1) % 2, (at.1 + 1) % 2);
        x[(i, j, at.2)] * w[(a, b, at.2)]
            + x[(i - 1, j, at.2)] * w[(a + 2, b, at.2)]
            + x[(i, j - 1, at.2)] * w[(a, b + 2, at.2)]
            + x[(i - 1, j - 1, at.2)] * w[(a + 2, b + 2, at.2)]
    });
}

#[test]
fn images_are_upsampled() {
    inputs(upsampled().def()).written([
        "W = 1, H = 1, C = 1",
        "W = 32, H = 4, C = 2",
        "W = 35, H = 7, C = 3",
    ]);
}
