//! Kernels on images of several channels: sizes, groups of channels.

use crate::{drawn, generated, right};
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
        let mut wanted = vec![0.0; 4 * w * h * c];
        for (n, j, i) in (0..c).flat_map(|n| (0..h).flat_map(move |j| (0..w).map(move |i| (n, j, i)))) {
            for (a, b) in (0..16).map(|at| (at % 4, at / 4)) {
                let (u, v) = ((2 * i + a).wrapping_sub(1), (2 * j + b).wrapping_sub(1));
                if u < 2 * w && v < 2 * h {
                    wanted[u + 2 * w * (v + 2 * h * n)] +=
                        f64::from(x[i + w * (j + h * n)]) * f64::from(k[a + 4 * (b + 4 * n)]);
                }
            }
        }
        let args =
            [Arg::tensor(&x, [w, h, c]), Arg::tensor(&k, [4, 4, c]), Arg::output::<f32>([2 * w, 2 * h, c])];
        right(generated!(upsampled()), &args, "y", &wanted, 1e-5);
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
        let mut wanted = vec![0.0; x.len()];
        for (group, image) in (0..g * b).map(|at| (at % g, at / g)) {
            let places: Vec<usize> =
                (0..8 * p).map(|at| at % 8 + 8 * (group + g * (at / 8 + p * image))).collect();
            let mean = places.iter().map(|at| f64::from(x[*at])).sum::<f64>() / (8 * p) as f64;
            let var =
                places.iter().map(|at| (f64::from(x[*at]) - mean).powi(2)).sum::<f64>() / (8 * p) as f64;
            for at in places {
                let z = (f64::from(x[at]) - mean) / (var + 1e-5).sqrt() * f64::from(gamma[at % (8 * g)]);
                wanted[at] = z / (1.0 + (-z).exp());
            }
        }
        let args =
            [Arg::tensor(&x, [8, g, p, b]), Arg::tensor(&gamma, [8, g]), Arg::output::<f32>([8, g, p, b])];
        right(generated!(group_norm_swish()), &args, "y", &wanted, 1e-3);
    }
}
