//! Pictures and signals: pools, transforms, frames.

use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

/// Maxima of windows of 2x2, and their places.
#[kernel]
fn max_pool(
    x: &Tensor<f32, (H, W, C), (ldx, _1, cx)>,
    y: &mut Tensor<f32, (P, Q, C), (ldy, _1, cy)>,
    index: &mut Tensor<i32, (P, Q, C), (ldp, _1, cp)>,
) {
    assert(P == H / 2);
    assert(Q == W / 2);
    let to = tile(y, (8, 32, 1), (block.x, block.y, block.z));
    let (best, at) = map(to, |_, at| {
        let (i, j) = (2 * at.0, 2 * at.1);
        let a = (x[(i, j, at.2)], i * W + j);
        let b = (x[(i, j + 1, at.2)], i * W + j + 1);
        let c = (x[(i + 1, j, at.2)], (i + 1) * W + j);
        let d = (x[(i + 1, j + 1, at.2)], (i + 1) * W + j + 1);
        let larger = |(x, i), (y, j)| if y > x { (y, j) } else { (x, i) };
        larger(larger(a, b), larger(c, d))
    });
    copy(best, to);
    copy(at, tile(index, (8, 32, 1), (block.x, block.y, block.z)));
}

#[test]
fn windows_have_maxima_and_places() {
    inputs(max_pool().def())
        .written(["H = 37, W = 71, C = 2, P = 18, Q = 35", "H = 2, W = 3, C = 1, P = 1, Q = 1"]);
}

/// Bᵀ d B of Winograd's F(2x2, 3x3), for all tiles of an image.
#[kernel]
fn winograd_input(
    x: &Tensor<f32, (H, W), (ldx, _1)>,
    v: &mut Tensor<f32, { (ceil_div(H, 2), ceil_div(W, 2), 4, 4) }>,
) {
    let to = tile(v, (8, 32, 1, 1), (block.x, block.y, 0, 0))[(_, _, 0, 0)];
    for i in unroll(0..4) {
        for j in unroll(0..4) {
            let value = map(to, |_, at| {
                let d = |r, c| x[(2 * at.0 + r - 1, 2 * at.1 + c - 1)];
                let row = |c| {
                    if i == 0 {
                        d(0, c) - d(2, c)
                    } else if i == 1 {
                        d(1, c) + d(2, c)
                    } else if i == 2 {
                        d(2, c) - d(1, c)
                    } else {
                        d(1, c) - d(3, c)
                    }
                };
                if j == 0 {
                    row(0) - row(2)
                } else if j == 1 {
                    row(1) + row(2)
                } else if j == 2 {
                    row(2) - row(1)
                } else {
                    row(1) - row(3)
                }
            });
            copy(value, tile(v, (8, 32, 1, 1), (block.x, block.y, i, j))[(_, _, 0, 0)]);
        }
    }
}

#[test]
fn tiles_are_transformed() {
    inputs(winograd_input().def()).written(["H = 19, W = 68", "H = 1, W = 1"]);
}

/// Power of the frames of a signal under a window, by a table of cosines and sines.
#[kernel(allow(bank_conflicts))]
fn spectrogram<const W: usize = 64, const HOP: usize = 16>(
    x: &Tensor<f32, N>,
    window: &Tensor<f32, W>,
    cosine: &Tensor<f32, (F, W)>,
    sine: &Tensor<f32, (F, W)>,
    power: &mut Tensor<f32, (T, F), (ldp, _1)>,
) {
    assert(T == (N - W) / HOP + 1);
    let (frames, re, im) = (shared::<f32>((32, W)), shared::<f32>((32, W)), shared::<f32>((32, W)));
    let w = tile(window, W, 0).along(1);
    copy(
        map((iota((32, W), 0), iota((32, W), 1), w), |t, j, w| w * x[((block.x * 32 + t) * HOP + j)]),
        frames,
    );
    copy(tile(cosine, (32, W), (block.y, 0)), re);
    copy(tile(sine, (32, W), (block.y, 0)), im);
    let mut a = full::<f32>((32, 32), 0.0);
    let mut b = full::<f32>((32, 32), 0.0);
    gemm(frames, re, &mut a);
    gemm(frames, im, &mut b);
    copy(a * a + b * b, tile(power, (32, 32), (block.x, block.y)));
}

#[test]
fn frames_have_powers() {
    inputs(spectrogram().def()).written(["N = 750, F = 33, T = 43"]);
}
