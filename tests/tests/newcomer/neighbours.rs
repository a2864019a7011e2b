//! Neighbours: stencils, convolutions, pooling.

use crate::{drawn, generated, right, rows, rows_out, written};
use tilewright::prelude::*;
use tilewright_sim::Arg;

/// One Jacobi step: the mean of the four neighbours; 0 out of bounds.
#[kernel(allow(bank_conflicts, uncoalesced))]
fn stencil(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let s = shared::<f32>((34, 18));
    copy(tile(x, (32, 16), (block.x, block.y), halo = 1), s);
    let s = tile(s, (32, 16), (0, 0));
    let around = (shift(s, (0, 1)), shift(s, (2, 1)), shift(s, (1, 0)), shift(s, (1, 2)));
    copy(map(around, |a, b, c, d| 0.25 * (a + b + c + d)), tile(y, (32, 16), (block.x, block.y)));
}

/// The same, from global memory.
#[kernel(allow(uncoalesced))]
fn stencil_direct(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let x = tile(x, (32, 16), (block.x, block.y));
    let around = (shift(x, (-1, 0)), shift(x, (1, 0)), shift(x, (0, -1)), shift(x, (0, 1)));
    copy(map(around, |a, b, c, d| 0.25 * (a + b + c + d)), tile(y, (32, 16), (block.x, block.y)));
}

#[test]
fn stencils() {
    for (m, n) in [(32, 16), (45, 50), (1, 3)] {
        let x = drawn(m * n, 1);
        let args = [Arg::tensor(&x, [m, n]), Arg::output::<f32>([m, n])];
        written(stencil().def(), &args);
        written(stencil_direct().def(), &args);
    }
}

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
    let (w, h, c) = (37, 11, 3);
    let (x, k, bias) = (drawn(w * h * c, 2), drawn(9 * c, 3), drawn(c, 4));

    let args = [
        Arg::tensor(&x, [w, h, c]),
        Arg::tensor(&k, [3, 3, c]),
        Arg::tensor(&bias, [c]),
        Arg::output::<f32>([w, h, c]),
    ];
    written(depthwise().def(), &args);
}

/// The largest of each 2×2 window: windows and places in them are modes of their own.
#[kernel(allow(uncoalesced))]
fn max_pool(x: &Tensor<f32, (_2, W, _2, H)>, y: &mut Tensor<f32, (W, H)>) {
    let x = tile(x, (2, 32, 2, 8), (0, block.x, 0, block.y));
    let corners = (x[(0, _, 0, _)], x[(1, _, 0, _)], x[(0, _, 1, _)], x[(1, _, 1, _)]);
    copy(map(corners, |a, b, c, d| max(max(a, b), max(c, d))), tile(y, (32, 8), (block.x, block.y)));
}

#[test]
fn pooling() {
    let (w, h) = (35, 9);
    let x = drawn(4 * w * h, 5);
    written(max_pool().def(), &[Arg::tensor(&x, [2, w, 2, h]), Arg::output::<f32>([w, h])]);
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
    let (w, h, c, b, f) = (35, 4, 5, 2, 33);
    let (x, k) = (drawn(w * h * c * b, 6), drawn(f * c * 9, 7));
    let mut wanted = vec![];
    for at in 0..w * h * f * b {
        let (p, q, o, n) = (at % w, at / w % h, at / (w * h) % f, at / (w * h * f));
        let mut sum = 0.0;
        for term in 0..9 * c {
            let (ch, i, j) = (term % c, term / c % 3, term / c / 3);
            let (s, t) = ((p + i) as i64 - 1, (q + j) as i64 - 1);
            if (0..w as i64).contains(&s) && (0..h as i64).contains(&t) {
                let pixel = x[s as usize + w * (t as usize + h * (ch + c * n))];
                sum += f64::from(pixel) * f64::from(k[o + f * (ch + c * (i + 3 * j))]);
            }
        }
        wanted.push(sum);
    }
    let args =
        [Arg::tensor(&x, [w, h, c, b]), Arg::tensor(&k, [f, c, 3, 3]), Arg::output::<f32>([w, h, f, b])];
    right(generated!(convolution()), &args, "y", &wanted, 1e-4);
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
    for (h, w) in [(1, 1), (16, 32), (20, 71), (2, 40)] {
        let x = drawn(h * w, 1);
        written(blurred().def(), &[rows(&x, h, w), rows_out(h, w)]);
    }
}
