//! Pictures and signals: pools, transforms, colours, frames.

use crate::{below, every, generated, rows};
use tilewright::prelude::*;
use tilewright_fuzz::near;
use tilewright_sim::Arg;
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

/// JPEG: the cosine transform of blocks of 8x8, divided by a table, rounded, and in zigzag order.
#[kernel(allow(uncoalesced))]
fn jpeg_blocks(
    x: &Tensor<u8, (H, W), (ldx, _1)>,
    c: &Tensor<f32, { (8, 8) }, (_8, _1)>,
    table: &Tensor<f32, { (8, 8) }, (_8, _1)>,
    zigzag: &Tensor<i32, { (8, 8) }, (_8, _1)>,
    y: &mut Tensor<i32, { (ceil_div(H, 8), ceil_div(W, 8), 64) }, (ly, lx, _1)>,
) {
    let c = tile(c, (8, 8), (0, 0));
    let (s, t, cs) = (shared::<f32>((8, 8)), shared::<f32>((8, 8)), shared::<f32>((8, 8)));
    copy(c, cs);
    copy(map(tile(x, (8, 8), (block.y, block.x)), |x| x as f32 - 128.0), s);
    let mut a = full::<f32>((8, 8), 0.0);
    gemm(cs, permute(s, (1, 0)), &mut a);
    copy(a, t);
    let mut b = full::<f32>((8, 8), 0.0);
    gemm(t, cs, &mut b);
    let q = map((b, tile(table, (8, 8), (0, 0))), |b, t| round(b / t) as i32);
    let to = tile(y, (1, 1, 64), (block.y, block.x, 0))[(0, 0, _)];
    scatter((q, tile(zigzag, (8, 8), (0, 0))), to, |q, z| (z, q));
}

#[test]
fn blocks_are_in_zigzag_order() {
    let (h, w) = (20usize, 30usize);
    let x: Vec<u8> = below(256, h * w, 1).into_iter().map(|x| x as u8).collect();
    let c: Vec<f32> = (0..64)
        .map(|at| {
            let (k, n) = ((at / 8) as f64, (at % 8) as f64);
            let scale = if at / 8 == 0 { 0.125f64.sqrt() } else { 0.5 };
            (scale * ((2.0 * n + 1.0) * k * std::f64::consts::PI / 16.0).cos()) as f32
        })
        .collect();
    let table: Vec<f32> = (0..64).map(|at| (at / 8 + at % 8 + 3) as f32).collect();
    let mut order: Vec<usize> = (0..64).collect();
    order.sort_by_key(|at| (at / 8 + at % 8, if (at / 8 + at % 8) % 2 == 0 { at % 8 } else { at / 8 }));
    let mut zigzag = vec![0i32; 64];
    order.iter().enumerate().for_each(|(index, at)| zigzag[*at] = index as i32);
    let (p, q) = (h.div_ceil(8), w.div_ceil(8));
    let args = [
        Arg::tensor(&x, [h, w]).strides([w, 1]),
        rows(&c, 8, 8),
        rows(&table, 8, 8),
        Arg::tensor(&zigzag, [8, 8]).strides([8, 1]),
        Arg::output::<i32>([p, q, 64]).strides([q * 64, 64, 1]),
    ];
    for outcome in every(generated!(jpeg_blocks()), &args) {
        let y = outcome.get::<i32>("y").unwrap();
        for at in 0..p * q * 64 {
            let (i, j, k) = (at / 64 / q, at / 64 % q, at % 64);
            // An out-of-bounds pixel reads as 0.
            let pixel = |r: usize, s: usize| match i * 8 + r < h && j * 8 + s < w {
                true => x[(i * 8 + r) * w + j * 8 + s] as f64 - 128.0,
                false => -128.0,
            };
            let of =
                |n: usize| c[k / 8 * 8 + n / 8] as f64 * c[k % 8 * 8 + n % 8] as f64 * pixel(n / 8, n % 8);
            let wanted = (0..64).map(of).sum::<f64>() / table[k] as f64;
            assert!((y[at - k + zigzag[k] as usize] as f64 - wanted).abs() < 0.501, "{at}");
        }
    }
}

/// NV12 to RGB.
#[kernel(allow(uncoalesced))]
fn nv12(
    luma: &Tensor<u8, (H, W), (ldl, _1)>,
    chroma: &Tensor<u8, { (ceil_div(H, 2), ceil_div(W, 2), 2) }, (ldc, _2, _1)>,
    rgb: &mut Tensor<u8, (H, W, _3), (ldr, _3, _1)>,
) {
    let y = tile(luma, (8, 64), (block.x, block.y));
    let (r, g, b) = map(y, |y, at| {
        let y = 1.164 * (y as f32 - 16.0);
        let u = chroma[(at.0 / 2, at.1 / 2, 0)] as f32 - 128.0;
        let v = chroma[(at.0 / 2, at.1 / 2, 1)] as f32 - 128.0;
        let clamp = |x| min(max(round(x), 0.0), 255.0) as u8;
        (clamp(y + 1.596 * v), clamp(y - 0.392 * u - 0.813 * v), clamp(y + 2.017 * u))
    });
    copy(r, tile(rgb, (8, 64, 1), (block.x, block.y, 0))[(_, _, 0)]);
    copy(g, tile(rgb, (8, 64, 1), (block.x, block.y, 1))[(_, _, 0)]);
    copy(b, tile(rgb, (8, 64, 1), (block.x, block.y, 2))[(_, _, 0)]);
}

#[test]
fn colours_are_converted() {
    for (h, w) in [(19usize, 71usize), (1, 1)] {
        let (p, q) = (h.div_ceil(2), w.div_ceil(2));
        let bytes = |n, seed| below(256, n, seed).into_iter().map(|x| x as u8).collect::<Vec<u8>>();
        let (luma, chroma) = (bytes(h * w, 1), bytes(p * q * 2, 2));
        let args = [
            Arg::tensor(&luma, [h, w]).strides([w, 1]),
            Arg::tensor(&chroma, [p, q, 2]).strides([q * 2, 2, 1]),
            Arg::output::<u8>([h, w, 3]).strides([w * 3, 3, 1]),
        ];
        near(nv12().def(), &args, 1e-6);
    }
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
