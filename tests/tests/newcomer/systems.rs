//! Systems of equations, trees, and a hash.

use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

/// LU with partial pivoting, a matrix for each block, in place.
#[kernel(threads = 32, allow(bank_conflicts))]
fn lu<const W: usize = 32>(a: &mut Tensor<f32, (N, N, B), (lda, _1, ba)>, pivots: &mut Tensor<i32, (N, B)>) {
    at_most(N, W);
    let s = shared::<f32>((W, W));
    let g = tile(a, (W, W, 1), (0, 0, block.x))[(_, _, 0)];
    copy(g, s);
    let larger = |(x, i), (y, j)| if (y > x) | ((y == x) & (j < i)) { (y, j) } else { (x, i) };
    for k in 0..N {
        let column = map((s[(_, k)], iota(W)), |x, i| (if (i >= k) & (i < N) { abs(x) } else { -1.0 }, i));
        let (_, p) = reduce(column, (-1.0, i32::MAX), larger, out_of_bounds = (-1.0, i32::MAX));
        copy(p, tile(pivots, (1, 1), (k, block.x))[(_, 0)]);
        // Swap rows k and p.
        let (rk, rp) = map(iota(W), |j| (s[(k, j)], s[(p, j)]));
        scatter((rp, iota(W)), s, |x, j| ((k, j), x), out_of_bounds = -1);
        scatter((rk, iota(W)), s, |x, j| ((p, j), x), out_of_bounds = -1);
        let factor = map((s[(_, k)], iota(W)), |x, i| if i > k { x / s[(k, k)] } else { 0.0 });
        let next = map((s, factor.along(0), iota((W, W), 0), iota((W, W), 1)), |x, f, i, j| {
            if j > k {
                x - f * s[(k, j)]
            } else if (j == k) & (i > k) {
                f
            } else {
                x
            }
        });
        copy(next, s);
    }
    copy(s, g);
}

#[test]
fn rows_are_pivoted() {
    inputs(lu().def()).with("a", |x| x).near(1e-3, ["N = 19, B = 2", "N = 1, B = 1"]);
}

/// A block-sparse matrix of 32x32 blocks times a dense one.
#[kernel]
fn bsr<const W: usize = 32, const BN: usize = 64>(
    start: &Tensor<i32, { R + 1 }>,
    column: &Tensor<i32, Z>,
    blocks: &Tensor<f16, (Z, W, W), (zs, ws, _1)>,
    x: &Tensor<f16, (N, C), (ldx, _1)>,
    y: &mut Tensor<f32, (W, R, N), (ly, lz, _1)>,
) {
    let (sa, sx) = (shared::<f16>((W, W)), shared::<f16>((BN, W)));
    let mut acc = tiled_mma::<f16, f32>(warps = 4).accumulators((W, BN), 0.0);
    for z in pipelined(start[(block.x + 0)]..start[(block.x + 1)], stages = 2) {
        copy(tile(blocks, (1, W, W), (z, 0, 0))[(0, _, _)], sa);
        copy(tile(x, (BN, W), (block.y, column[(z)])), sx);
        gemm(sa, sx, &mut acc);
    }
    copy(acc, tile(y, (W, 1, BN), (0, block.x, block.y))[(_, 0, _)]);
}

#[test]
fn blocks_of_a_matrix_are_sparse() {
    inputs(bsr().def())
        .list("start", [0, 2, 2, 5])
        .list("column", [0, 3, 1, 2, 3])
        .written(["R = 3, Z = 5, N = 70, C = 100"]);
}

/// American put options by binomial trees, one for each block.
#[kernel]
fn binomial<const W: usize = 512>(
    rate: f32,
    vol: f32,
    years: f32,
    steps: i32,
    spot: &Tensor<f32, N>,
    strike: &Tensor<f32, N>,
    price: &mut Tensor<f32, N>,
) {
    let (s, k) = (spot[(block.x)], strike[(block.x)]);
    let dt = years / steps as f32;
    let up = exp(vol * sqrt(dt));
    let grow = exp(rate * dt);
    let q = (grow - 1.0 / up) / (up - 1.0 / up);
    let value = shared::<f32>((W));
    let payoff = |i, t| max(k - s * pow(up, (2 * i - t) as f32), 0.0);
    copy(map(iota(W), |i| payoff(i, steps)), value);
    for back in 0..steps {
        let t = max(steps - 1 - back, 0);
        let next = map(iota(W), |i| {
            let hold = (q * value[(i + 1)] + (1.0 - q) * value[(i)]) / grow;
            max(hold, payoff(i, t))
        });
        copy(next, value);
    }
    copy(value[(0)], tile(price, 1, block.x));
}

#[test]
fn options_have_early_exercise() {
    inputs(binomial().def())
        .set("rate = 0.05, vol = 0.3, years = 1, steps = 60")
        .list("spot", [100.0, 120.0])
        .list("strike", [110.0, 100.0])
        .near(1e-3, ["N = 2"]);
}

#[device]
fn rotr(x: u32, n: u32) -> u32 {
    (x >> n) | (x << (32 - n))
}

/// SHA-256 of messages of one block of 16 words.
#[kernel]
fn sha256(message: &Tensor<u32, (N, _16)>, k: &Tensor<u32, _64>, digest: &mut Tensor<u32, (N, _8)>) {
    use self::rotr;
    let w = shared::<u32>((128, 16));
    copy(tile(message, (128, 16), (block.x, 0)), w);
    let start = |n| full::<u32>((128), n);
    let mut s = (
        start(0x6a09e667),
        start(0xbb67ae85),
        start(0x3c6ef372),
        start(0xa54ff53a),
        start(0x510e527f),
        start(0x9b05688c),
        start(0x1f83d9ab),
        start(0x5be0cd19),
    );
    let first = s;
    for i in 0..64 {
        if i >= 16 {
            let next = map(
                (w[(_, i % 16)], w[(_, (i + 1) % 16)], w[(_, (i + 9) % 16)], w[(_, (i + 14) % 16)]),
                |a, b, c, d| {
                    let s0 = rotr(b, 7) ^ rotr(b, 18) ^ (b >> 3);
                    let s1 = rotr(d, 17) ^ rotr(d, 19) ^ (d >> 10);
                    a + s0 + c + s1
                },
            );
            copy(next, w[(_, i % 16)]);
        }
        s = map((s.0, s.1, s.2, s.3, s.4, s.5, s.6, s.7, w[(_, i % 16)]), |a, b, c, d, e, f, g, h, w| {
            let s1 = rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25);
            let ch = (e & f) ^ (!e & g);
            let t1 = h + s1 + ch + k[(i)] + w;
            let s0 = rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22);
            let maj = (a & b) ^ (a & c) ^ (b & c);
            (t1 + s0 + maj, a, b, c, d + t1, e, f, g)
        });
    }
    copy(first.0 + s.0, tile(digest, (128, 1), (block.x, 0))[(_, 0)]);
    copy(first.1 + s.1, tile(digest, (128, 1), (block.x, 1))[(_, 0)]);
    copy(first.2 + s.2, tile(digest, (128, 1), (block.x, 2))[(_, 0)]);
    copy(first.3 + s.3, tile(digest, (128, 1), (block.x, 3))[(_, 0)]);
    copy(first.4 + s.4, tile(digest, (128, 1), (block.x, 4))[(_, 0)]);
    copy(first.5 + s.5, tile(digest, (128, 1), (block.x, 5))[(_, 0)]);
    copy(first.6 + s.6, tile(digest, (128, 1), (block.x, 6))[(_, 0)]);
    copy(first.7 + s.7, tile(digest, (128, 1), (block.x, 7))[(_, 0)]);
}

#[test]
fn messages_have_digests() {
    inputs(sha256().def()).written(["N = 130"]);
}
