//! Kernels of a first week: routers, running maxima, returns, inverses, sums of centres.

use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

/// Cumulative maxima down the columns of a matrix of any height.
#[kernel]
fn running_most(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    let (x, y) = (tile(x, (32, 64), (_, block.x)), tile(y, (32, 64), (_, block.x)));
    let mut most = full::<f32>((1, 64), f32::NEG_INFINITY);
    for k in 0..x.size(2) {
        copy(
            scan(x[(_, _, k)], f32::NEG_INFINITY, |a, b| max(a, b), mode = 0, carry = &mut most),
            y[(_, _, k)],
        );
    }
}

#[test]
fn maxima_run() {
    inputs(running_most().def()).written(["M = 75, N = 70"]);
}

/// Discounted returns of reinforcement learning, from the last reward to the first: g(t) = r(t) + gamma g(t + 1).
#[kernel]
fn returns<const T: usize = 256>(
    gamma: f32,
    r: &Tensor<f32, (B, N), (ldr, _1)>,
    g: &mut Tensor<f32, (B, N), (ldg, _1)>,
) {
    at_most(N, T);
    let own = tile(r, (4, T), (block.x, 0));
    let backwards = map(own, |_, at| (gamma, r[(at.0, N - 1 - at.1)]));
    let sums = scan(backwards, (1.0, 0.0), |(a, x), (b, y)| (a * b, b * x + y), mode = 1);
    scatter(sums.1, g, |s, at| ((at.0, N - 1 - at.1), s));
}

#[test]
fn rewards_are_discounted() {
    inputs(returns().def()).near(1e-4, ["gamma = 0.9, B = 6, N = 200"]);
}

/// Inverses of many small matrices by Gauss-Jordan elimination with pivots, a matrix for each block.
#[kernel(threads = 64, allow(bank_conflicts))]
fn inverse<const N: usize = 12>(a: &Tensor<f32, (N, N, B)>, inv: &mut Tensor<f32, (N, N, B)>) {
    let w = shared::<f32>((N, 2 * N));
    map(tile(a, (N, N, 1), (0, 0, block.x))[(_, _, 0)], tile(w, (N, N), (0, 0)), |x| x);
    let right = tile(w, (N, N), (0, 1));
    let eye = full::<f32>((N, N), 0.0);
    copy(map(eye, |_, at| (at.0 == at.1) as f32), right);
    for k in 0..N {
        // the largest of the rest of column k
        let column = map((w[(_, k)], iota(N)), |x, i| (if i >= k { abs(x) } else { -1.0 }, i));
        let (_, p) = reduce(
            column,
            (-2.0, 0),
            |(a, i), (b, j)| if (b > a) | ((b == a) & (j < i)) { (b, j) } else { (a, i) },
        );
        let pivot = map(full::<f32>((1, 2 * N), 0.0), |_, at| w[(p, at.1)]);
        let top = map(full::<f32>((1, 2 * N), 0.0), |_, at| w[(k, at.1)]);
        let scaled = pivot / w[(p, k)];
        scatter(top, w, |x, at| ((p, at.1), x));
        copy(scaled, tile(w, (1, 2 * N), (k, 0)));
        let factor = map(full::<f32>((N, 1), 0.0), |_, at| if at.0 == k { 0.0 } else { w[(at.0, k)] });
        w -= factor * scaled;
    }
    copy(right, tile(inv, (N, N, 1), (0, 0, block.x))[(_, _, 0)]);
}

#[test]
fn inverses_of_small_matrices() {
    inputs(inverse().def()).near(1e-3, ["B = 3"]);
}

/// Signs of 32 numbers in a word.
#[kernel]
fn sign_bits(x: &Tensor<f32, (_32, N)>, words: &mut Tensor<u32, N>) {
    let x = tile(x, (32, 64), (0, block.x));
    let bits = map(x, |x, at| ((x < 0.0) as u32) << at.0);
    copy(reduce(bits, 0, |a, b| a | b, mode = 0)[(0, _)], tile(words, 64, block.x));
}

#[test]
fn signs_in_words() {
    inputs(sign_bits().def()).written(["N = 70"]);
}

/// The step of k-means that moves centres: sums and counts by atomics.
#[kernel]
fn centre_sums<const D: usize = 32>(
    ids: &Tensor<i32, N>,
    x: &Tensor<f32, (N, D), (ldx, _1)>,
    sums: &mut Tensor<f32, (K, D), (lds, _1)>,
    counts: &mut Tensor<i32, K>,
) {
    let id = tile(ids, 64, block.x);
    scatter(
        (tile(x, (64, D), (block.x, 0)), id.along(0)),
        sums,
        |x, id, at| ((id, at.1), x),
        how = "atomic_add",
    );
    scatter(id, counts, |id| (id, 1), how = "atomic_add");
}

#[test]
fn centres_collect() {
    inputs(centre_sums().def()).below("ids", 5).zero("sums").zero("counts").near(1e-4, ["N = 150, K = 5"]);
}

/// The area of a quarter circle by random points.
#[kernel]
fn monte_carlo(seed: u32, hits: &mut Tensor<i32, _1>) {
    let b = walk(20, block.x);
    let random = |n| {
        let a = (n as u32 ^ seed) * 2654435761;
        let b = (a ^ (a >> 15)) * 2246822519;
        (b ^ (b >> 13)) >> 8
    };
    let inside = map(full::<i32>(1024, 0), |_, at| {
        let n = 2 * (b * 1024 + at.0);
        let x = random(n) as f32 / 16777216.0;
        let y = random(n + 1) as f32 / 16777216.0;
        (x * x + y * y < 1.0) as i32
    });
    copy(sum(inside), hits, how = "atomic_add");
}

#[test]
fn points_fall_into_a_circle() {
    inputs(monte_carlo().def()).zero("hits").written(["seed = 7"]);
}

/// The largest of each row of any length, piece by piece, and then over the piece.
#[kernel]
fn greatest(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, M>) {
    let x = tile(x, (4, 256), (block.x, _));
    let mut most = full::<f32>((4, 256), f32::NEG_INFINITY);
    let mut piece = full::<f32>((4, 256), 0.0);
    for k in 0..x.size(2) {
        copy(x[(_, _, k)], piece, fill = f32::NEG_INFINITY);
        most = max(most, piece);
    }
    copy(maximum(most, 1)[(_, 0)], tile(y, 4, block.x));
}

#[test]
fn greatest_of_rows() {
    inputs(greatest().def()).with("x", |x| x - 100.0).written(["M = 6, N = 300"]);
}
