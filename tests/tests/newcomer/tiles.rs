//! Algorithms within a tile: sorting, a Fourier transform, tiles that are swapped.

use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

/// Each piece of 256 elements, sorted by a bitonic network. A comparison of elements that stand 2^j apart
/// is a statement on two halves of a regrouped tile; every other group of 2^k elements is sorted downwards.
#[kernel(allow(bank_conflicts))]
fn sort(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let s = shared::<f32>(layout!(256));
    copy(tile(x, 256, block.x), s, fill = f32::INFINITY);
    for k in unroll(1..8) {
        for i in unroll(0..k) {
            // Pairs this far apart, in groups of 2^k.
            let near = 1 << (k - 1 - i);
            let pairs = regroup(s, (near, 2, 1 << i, 2, 128 >> k));
            let up = (pairs[(_, 0, _, 0, _)], pairs[(_, 1, _, 0, _)]);
            let down = (pairs[(_, 0, _, 1, _)], pairs[(_, 1, _, 1, _)]);
            map(up, up, |a, b| (min(a, b), max(a, b)));
            map(down, down, |a, b| (max(a, b), min(a, b)));
        }
    }
    for i in unroll(0..8) {
        let pairs = regroup(s, (128 >> i, 2, 1 << i));
        let both = (pairs[(_, 0, _)], pairs[(_, 1, _)]);
        map(both, both, |a, b| (min(a, b), max(a, b)));
    }
    copy(s, tile(y, 256, block.x));
}

#[test]
fn sorted_pieces() {
    inputs(sort().def()).written(["N = 256", "N = 1", "N = 700"]);
}

/// The Fourier transform of 64 points, one for each column; real and imaginary parts apart, and a table of
/// twiddle factors. Bit reversal is a permutation of six modes of two.
#[kernel(allow(bank_conflicts, uncoalesced))]
fn fft(
    re: &Tensor<f32, (_64, B)>,
    im: &Tensor<f32, (_64, B)>,
    cosines: &Tensor<f32, _32>,
    sines: &Tensor<f32, _32>,
    out_re: &mut Tensor<f32, (_64, B)>,
    out_im: &mut Tensor<f32, (_64, B)>,
) {
    let (re, im) = (tile(re, (64, 8), (0, block.x)), tile(im, (64, 8), (0, block.x)));
    let (to_re, to_im) = (tile(out_re, (64, 8), (0, block.x)), tile(out_im, (64, 8), (0, block.x)));
    let reversed = |x| regroup(permute(regroup(x, (2, 2, 2, 2, 2, 2, 8)), (5, 4, 3, 2, 1, 0, 6)), (64, 8));
    let (s, t) = (shared::<f32>((64, 8)), shared::<f32>((64, 8)));
    copy(reversed(re), s);
    copy(reversed(im), t);
    for k in unroll(0..6) {
        let half = 1 << k;
        let (s, t) = (regroup(s, (half, 2, 32 / half, 8)), regroup(t, (half, 2, 32 / half, 8)));
        // Every 32/half-th twiddle factor.
        let every = |w| regroup(w, (32 / half, half, 1, 1))[(0, _, _, _)];
        let (c, d) = (every(cosines), every(sines));
        let (a, b) = map((s[(_, 0, _, _)], t[(_, 0, _, _)]), |a, b| (a, b));
        let (u, v) =
            map((s[(_, 1, _, _)], t[(_, 1, _, _)], c, d), |x, y, c, d| (x * c - y * d, x * d + y * c));
        copy(map((a, u), |a, u| a + u), s[(_, 0, _, _)]);
        copy(map((a, u), |a, u| a - u), s[(_, 1, _, _)]);
        copy(map((b, v), |b, v| b + v), t[(_, 0, _, _)]);
        copy(map((b, v), |b, v| b - v), t[(_, 1, _, _)]);
    }
    copy(s, to_re);
    copy(t, to_im);
}

#[test]
fn fourier() {
    inputs(fft().def()).written(["B = 8", "B = 3", "B = 11"]);
}

/// Two whole tiles are swapped.
#[kernel]
fn fibonacci(n: i32, x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (mut a, mut b) = (full::<f32>(256, 0.0), map(tile(x, 256, block.x), |x| x));
    for k in 0..n {
        (a, b) = (b, a + b);
    }
    (a, b) = (b, a);
    copy(b, tile(y, 256, block.x));
}

#[test]
fn tiles_are_swapped() {
    inputs(fibonacci().def()).written(["n = 7, N = 300"]);
}
