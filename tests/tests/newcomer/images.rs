//! Kernels on images of several channels: sizes, groups of channels.

use crate::{drawn, written};
use tilewright::prelude::*;
use tilewright_sim::Arg;

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
    for (w, h, c) in [(1, 1, 1), (32, 4, 2), (35, 7, 3)] {
        let (x, k) = (drawn(w * h * c, 1), drawn(16 * c, 2));
        let args =
            [Arg::tensor(&x, [w, h, c]), Arg::tensor(&k, [4, 4, c]), Arg::output::<f32>([2 * w, 2 * h, c])];
        written(upsampled().def(), &args);
    }
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
    for (g, p, b) in [(1, 1, 1), (2, 64, 2), (3, 100, 2)] {
        let (x, gamma) = (drawn(8 * g * p * b, 1), drawn(8 * g, 2));
        let args =
            [Arg::tensor(&x, [8, g, p, b]), Arg::tensor(&gamma, [8, g]), Arg::output::<f32>([8, g, p, b])];
        written(group_norm_swish().def(), &args);
    }
}
