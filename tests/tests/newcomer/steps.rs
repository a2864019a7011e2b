//! Several steps in shared memory or registers: a Fourier transform, heat, selection by histograms, a hash; a packed triangle.

use crate::{close, drawn, every, generated, right, words};
use tilewright::prelude::*;
use tilewright_sim::Arg;
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
    let b = 3;
    let (re, im) = (drawn(256 * b, 1), drawn(256 * b, 2));
    let (mut wr, mut wi) = (Vec::new(), Vec::new());
    for (q, k) in (0..256 * b).map(|at| (at / 256, at % 256)) {
        let (mut r, mut i) = (0.0, 0.0);
        for n in 0..256 {
            let (s, c) = (-std::f64::consts::TAU * (n * k % 256) as f64 / 256.0).sin_cos();
            let (x, y) = (f64::from(re[q * 256 + n]), f64::from(im[q * 256 + n]));
            (r, i) = (r + x * c - y * s, i + x * s + y * c);
        }
        wr.push(r);
        wi.push(i);
    }
    let (from, to) = (|x: &[f32]| Arg::tensor(x, [256, b]), Arg::output::<f32>([256, b]));
    let kernel = generated!(fft256());
    // An expression that is used several times is computed once.
    let longest = kernel.variants[0].source.lines().map(str::len).max().unwrap();
    assert!(longest < 300, "a line of {longest} characters");
    for outcome in every(kernel, &[from(&re), from(&im), to.clone(), to]) {
        close(&outcome.get::<f32>("yr").unwrap(), &wr, 1e-3);
        close(&outcome.get::<f32>("yi").unwrap(), &wi, 1e-3);
    }
}

/// Heat that spreads for S steps between two trips to memory; outside of the plate it is 0.
#[kernel]
fn heat<const S: usize = 4, const T: usize = 32>(
    rate: f32,
    x: &Tensor<f32, (H, W), (ldx, _1)>,
    y: &mut Tensor<f32, (H, W), (ldy, _1)>,
) {
    let (s, next) = (shared::<f32>((T + 2 * S, T + 2 * S)), shared::<f32>((T + 2 * S, T + 2 * S)));
    copy(tile(x, (T, T), (block.y, block.x), halo = S), s);
    let (i, j) = (iota((T + 2 * S, T + 2 * S), 0), iota((T + 2 * S, T + 2 * S), 1));
    for step in 0..S {
        let warm = map((s, i, j), |x, i, j| {
            let (r, c) = (i + block.y * T - S, j + block.x * T - S);
            let around = s[(i - 1, j)] + s[(i + 1, j)] + s[(i, j - 1)] + s[(i, j + 1)];
            if (r >= 0) & (r < H) & (c >= 0) & (c < W) { x + rate * (around - 4.0 * x) } else { 0.0 }
        });
        copy(warm, next);
        copy(next, s);
    }
    map((iota((T, T), 0), iota((T, T), 1)), tile(y, (T, T), (block.y, block.x)), |i, j| s[(i + S, j + S)]);
}

#[test]
fn heat_spreads() {
    inputs(heat().def()).written(["rate = 0.2, H = 37, W = 45"]);
}

/// The k-th smallest of each row: four passes choose eight bits each, by a histogram of the elements that agree so far.
#[kernel]
fn kth(k: i32, x: &Tensor<u32, (M, N), (ldx, _1)>, y: &mut Tensor<u32, M>) {
    let row = tile(x, (1, 1024), (block.x, _));
    let counts = shared::<i32>(256);
    let mut prefix = full::<u32>(1, 0);
    let mut mask = full::<u32>(1, 0);
    let mut rest = full::<i32>(1, k);
    for pass in unroll(0..4) {
        let at = 24 - 8 * pass;
        fill(counts, 0);
        for n in 0..row.size(2) {
            let digit = |x| if (x & mask) == prefix { ((x >> at) & 255) as i32 } else { -1 };
            scatter(row[(0, _, n)], counts, |x| (digit(x), 1), how = "atomic_add");
        }
        let before = scan(counts, 0, |a, b| a + b, exclusive = true);
        let result =
            map((before, counts, iota(256)), |b, c, i| if (b <= rest) & (rest < b + c) { i } else { -1 });
        rest -= maximum(map((result, before), |f, b| if f >= 0 { b } else { -1 }));
        prefix |= (maximum(result) as u32) << at;
        mask |= 255 << at;
    }
    copy(prefix, tile(y, 1, block.x));
}

#[test]
fn rows_have_a_kth_smallest() {
    let (m, n) = (3, 1500);
    let x: Vec<u32> = words(m * n, 1).into_iter().map(|w| (w as u32).wrapping_mul(2654435761)).collect();
    for k in [0, 400, n - 1] {
        let sorted = |row: &[u32]| {
            let mut row = row.to_vec();
            row.sort();
            row[k]
        };
        let wanted: Vec<u32> = x.chunks(n).map(sorted).collect();
        let args = [Arg::number(k as i32), Arg::tensor(&x, [m, n]).strides([n, 1]), Arg::output::<u32>([m])];
        for outcome in every(generated!(kth()), &args) {
            assert_eq!(outcome.get::<u32>("y").unwrap(), wanted);
        }
    }
}

/// The upper triangle of A·Aᵀ, packed row by row.
#[kernel]
fn packed_syrk(a: &Tensor<bf16, (N, K), (lda, _1)>, c: &mut Tensor<f32, { N * (N + 1) / 2 }>) {
    let (ga, gb) = (tile(a, (64, 32), (block.x, _)), tile(a, (64, 32), (block.y, _)));
    if block.x <= block.y {
        let (sa, sb) = (shared::<bf16>((64, 32)), shared::<bf16>((64, 32)));
        let mut acc = tiled_mma::<bf16, f32>(warps = 4).accumulators((64, 64), 0.0);
        for k in pipelined(0..ga.size(2), stages = 3) {
            copy(ga[(_, _, k)], sa);
            copy(gb[(_, _, k)], sb);
            gemm(sa, sb, &mut acc);
        }
        let index = |i, j| i * N - i * (i - 1) / 2 + j - i;
        scatter(acc, c, |x, at| (if at.0 <= at.1 { index(at.0, at.1) } else { -1 }, x));
    }
}

#[test]
fn triangles_are_packed() {
    let (n, k) = (150, 70);
    let a: Vec<bf16> = drawn(n * k, 1).into_iter().map(bf16::from_f32).collect();
    let row = |i: usize| a[i * k..][..k].iter().map(|x| f64::from(x.to_f32()));
    let pairs = (0..n).flat_map(|i| (i..n).map(move |j| (i, j)));
    let wanted: Vec<f64> = pairs.map(|(i, j)| row(i).zip(row(j)).map(|(x, y)| x * y).sum()).collect();
    let args = [Arg::tensor(&a, [n, k]).strides([k, 1]), Arg::output::<f32>([n * (n + 1) / 2])];
    right(generated!(packed_syrk()), &args, "c", &wanted, 1e-3);
}
