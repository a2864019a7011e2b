//! Kernels on images of several channels: sizes, groups of channels.

use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

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

/// Group normalisation, channels contiguous, and swish.
#[kernel]
fn group_norm_swish(
    x: &Tensor<f32, (_8, G, P, B)>,
    gamma: &Tensor<f32, (_8, G)>,
    y: &mut Tensor<f32, (_8, G, P, B)>,
) {
    let (x, y) =
        (tile(x, (8, 1, 64, 1), (0, block.x, _, block.y)), tile(y, (8, 1, 64, 1), (0, block.x, _, block.y)));
    let mut moments = (full::<f32>(1, 0.0), full::<f32>(1, 0.0));
    for k in 0..x.size(4) {
        let here = x[(_, 0, _, 0, k)];
        moments = (moments.0 + sum(here), moments.1 + sum(here * here));
    }
    let count = (8 * P) as f32;
    let mean = moments.0 / count;
    let scale = rsqrt(moments.1 / count - mean * mean + 1e-5);
    let gamma = tile(gamma, (8, 1), (0, block.x));
    for k in 0..x.size(4) {
        copy(silu((x[(_, 0, _, 0, k)] - mean) * scale * gamma), y[(_, 0, _, 0, k)]);
    }
}

#[test]
fn groups_of_channels() {
    inputs(group_norm_swish().def()).written([
        "G = 1, P = 1, B = 1",
        "G = 2, P = 64, B = 2",
        "G = 3, P = 100, B = 2",
    ]);
}
