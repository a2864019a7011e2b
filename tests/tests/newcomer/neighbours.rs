//! Neighbours: convolutions, and a blur.

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

/// A 3×3 convolution with many channels, as a product: rows are pixels of one line, columns are output
/// channels, and the sum runs over input channels and the nine places of the window.
#[kernel]
fn convolution<const P: usize = 32, const O: usize = 32, const BC: usize = 8>(
    x: &Tensor<f32, (W, H, C, B)>,
    w: &Tensor<f32, (F, C, _3, _3)>,
    y: &mut Tensor<f32, (W, H, F, B)>,
) {
    let (sx, sw) = (shared::<f32>((P, BC)), shared::<f32>((O, BC)));
    let (line, image) = walk((x.size(1), x.size(3)), block.z);
    let mut acc = full::<f32>((P, O), 0.0);
    for i in 0..3 {
        for j in 0..3 {
            let pixels = shift(tile(x, (P, 1, BC, 1), (block.x, line, _, image)), (i - 1, j - 1, 0, 0, 0));
            let weights = tile(w, (O, BC, 1, 1), (block.y, _, i, j));
            for k in 0..pixels.size(4) {
                copy(pixels[(_, 0, _, 0, k)], sx);
                copy(weights[(_, _, 0, 0, k)], sw);
                gemm(sx, sw, &mut acc);
            }
        }
    }
    copy(acc, tile(y, (P, 1, O, 1), (block.x, line, block.y, image))[(_, 0, _, 0)]);
}

#[test]
fn convolution_as_a_product() {
    inputs(convolution().def()).written(["W = 35, H = 4, C = 5, B = 2, F = 33"]);
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
