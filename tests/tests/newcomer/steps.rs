//! Several steps in shared memory: a Fourier transform.

use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

/// Fourier transforms of 256 complex numbers, in four steps of radix 4 (Stockham's order).
#[kernel(threads = 64)]
fn fft256(
    re: &Tensor<f32, (_256, B)>,
    im: &Tensor<f32, (_256, B)>,
    yr: &mut Tensor<f32, (_256, B)>,
    yi: &mut Tensor<f32, (_256, B)>,
) {
    let (sr, si) = (shared::<f32>(256), shared::<f32>(256));
    copy(tile(re, (256, 1), (0, block.x))[(_, 0)], sr);
    copy(tile(im, (256, 1), (0, block.x))[(_, 0)], si);
    let product = |(a, b), (c, d)| (a * c - b * d, a * d + b * c);
    for step in unroll(0..4) {
        let span = 1 << (2 * step);
        let (ar, ai, br, bi, cr, ci, dr, di) = map(iota(64), |t| {
            let angle = -6.2831853 * (t % span) as f32 / (4 * span) as f32;
            let w = (cos(angle), sin(angle));
            let w2 = product(w, w);
            let w3 = product(w2, w);
            let a = (sr[(t)], si[(t)]);
            let b = product((sr[(t + 64)], si[(t + 64)]), w);
            let c = product((sr[(t + 128)], si[(t + 128)]), w2);
            let d = product((sr[(t + 192)], si[(t + 192)]), w3);
            let (p, q) = ((a.0 + c.0, a.1 + c.1), (a.0 - c.0, a.1 - c.1));
            let (r, s) = ((b.0 + d.0, b.1 + d.1), (b.1 - d.1, d.0 - b.0));
            (p.0 + r.0, p.1 + r.1, q.0 + s.0, q.1 + s.1, p.0 - r.0, p.1 - r.1, q.0 - s.0, q.1 - s.1)
        });
        let index = |t, n| t / span * (4 * span) + t % span + n * span;
        scatter((iota(64), ar), sr, |t, x| (index(t, 0), x));
        scatter((iota(64), ai), si, |t, x| (index(t, 0), x));
        scatter((iota(64), br), sr, |t, x| (index(t, 1), x));
        scatter((iota(64), bi), si, |t, x| (index(t, 1), x));
        scatter((iota(64), cr), sr, |t, x| (index(t, 2), x));
        scatter((iota(64), ci), si, |t, x| (index(t, 2), x));
        scatter((iota(64), dr), sr, |t, x| (index(t, 3), x));
        scatter((iota(64), di), si, |t, x| (index(t, 3), x));
    }
    copy(sr, tile(yr, (256, 1), (0, block.x))[(_, 0)]);
    copy(si, tile(yi, (256, 1), (0, block.x))[(_, 0)]);
}

#[test]
fn signals_have_spectra() {
    let kernel = fft256();
    // An expression that is used several times is computed once.
    let longest = kernel.source().lines().map(str::len).max().unwrap();
    assert!(longest < 300, "a line of {longest} characters");
    inputs(kernel.def()).near(1e-3, ["B = 3"]);
}
