//! Kernels of a first week: routers, caches, ragged rows, searches, small matrices.

use crate::{below, close, drawn, every, generated, near, right, rows, rows_out, written};
use tilewright::prelude::*;
use tilewright_sim::Arg;

/// Residual addition and root-mean-square norm: two results, the residual in place.
#[kernel]
fn add_norm<const D: usize = 512>(
    eps: f32,
    x: &Tensor<bf16, (M, D), (ldx, _1)>,
    w: &Tensor<bf16, D>,
    residual: &mut Tensor<bf16, (M, D), (ldr, _1)>,
    y: &mut Tensor<bf16, (M, D), (ldy, _1)>,
) {
    let (x, r) = (tile(x, (4, D), (block.x, 0)), tile(residual, (4, D), (block.x, 0)));
    let sum_of = (x as f32) + (r as f32);
    copy(sum_of, r);
    let scale = rsqrt(sum(sum_of * sum_of, 1) / D as f32 + eps);
    copy(sum_of * scale * (tile(w, D, 0).along(1) as f32), tile(y, (4, D), (block.x, 0)));
}

#[test]
fn residuals_are_added_and_normal() {
    let (m, d) = (7, 512);
    let half = |x: Vec<f32>| x.into_iter().map(bf16::from_f32).collect::<Vec<_>>();
    let (x, w, r) = (half(drawn(m * d, 1)), half(drawn(d, 2)), half(drawn(m * d, 3)));

    let args = [
        Arg::number(1e-6f32),
        Arg::tensor(&x, [m, d]).strides([d, 1]),
        Arg::tensor(&w, [d]),
        Arg::in_out(&r, [m, d]).strides([d, 1]),
        Arg::output::<bf16>([m, d]).strides([d, 1]),
    ];
    written(add_norm().def(), &args);
}

/// A router: probabilities of experts, the two best with weights that add up to 1, and how many tokens each expert gets.
#[kernel]
fn route<const E: usize = 64>(
    logits: &Tensor<f32, (T, E), (ldl, _1)>,
    weights: &mut Tensor<f32, (T, _2), (_2, _1)>,
    experts: &mut Tensor<i32, (T, _2), (_2, _1)>,
    counts: &mut Tensor<i32, E>,
) {
    let x = tile(logits, (8, E), (block.x, 0));
    let better = |(a, i), (b, j)| if (b > a) | ((b == a) & (j < i)) { (b, j) } else { (a, i) };
    let identity = (f32::NEG_INFINITY, i32::MAX);
    let own = map(x, |x, at| (x, at.1));
    let (best, first) = reduce(own, identity, better, mode = 1);
    let rest = map((x, first), |x, i, at| (if at.1 == i { f32::NEG_INFINITY } else { x }, at.1));
    let (next, second) = reduce(rest, identity, better, mode = 1);
    let w = 1.0 / (1.0 + exp(next - best));
    copy(w, tile(weights, (8, 1), (block.x, 0)));
    copy(1.0 - w, tile(weights, (8, 1), (block.x, 1)));
    copy(first, tile(experts, (8, 1), (block.x, 0)));
    copy(second, tile(experts, (8, 1), (block.x, 1)));
    scatter(first, counts, |e| (e, 1), how = "atomic_add");
    scatter(second, counts, |e| (e, 1), how = "atomic_add");
}

#[test]
fn tokens_go_to_two_experts() {
    let (t, e) = (21, 64);
    let x = drawn(t * e, 4);
    let (mut weights, mut experts, mut counts) = (Vec::new(), Vec::new(), vec![0i32; e]);
    for row in x.chunks(e) {
        let mut order: Vec<usize> = (0..e).collect();
        order.sort_by(|a, b| row[*b].total_cmp(&row[*a]).then(a.cmp(b)));
        let (a, b) = (f64::from(row[order[0]]), f64::from(row[order[1]]));
        weights.extend([1.0 / (1.0 + (b - a).exp()), 1.0 - 1.0 / (1.0 + (b - a).exp())]);
        experts.extend([order[0] as i32, order[1] as i32]);
        counts[order[0]] += 1;
        counts[order[1]] += 1;
    }
    let args = [
        rows(&x, t, e),
        Arg::output::<f32>([t, 2]).strides([2, 1]),
        Arg::output::<i32>([t, 2]).strides([2, 1]),
        Arg::in_out(&vec![0i32; e], [e]),
    ];
    for outcome in every(generated!(route()), &args) {
        close(&outcome.get::<f32>("weights").unwrap(), &weights, 1e-5);
        assert_eq!(outcome.get::<i32>("experts").unwrap(), experts);
        assert_eq!(outcome.get::<i32>("counts").unwrap(), counts);
    }
}

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
    let (m, n) = (75, 70);
    let x = drawn(m * n, 5);
    written(running_most().def(), &[rows(&x, m, n), rows_out(m, n)]);
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
    let (b, n) = (6, 200);
    let r = drawn(b * n, 6);
    let args = [Arg::number(0.9f32), rows(&r, b, n), rows_out(b, n)];
    near(returns().def(), &args, 1e-4);
}

/// The upper triangle, from diagonal `d` on.
#[kernel]
fn triu(d: i32, x: &Tensor<f32, (M, N, B)>, y: &mut Tensor<f32, (M, N, B)>) {
    let (x, y) = (
        tile(x, (64, 16, 1), (block.x, block.y, block.z)),
        tile(y, (64, 16, 1), (block.x, block.y, block.z)),
    );
    map(x, y, |x, at| if at.1 - at.0 >= d { x } else { 0.0 });
}

#[test]
fn upper_triangles() {
    let (m, n, b) = (70, 33, 2);
    let x = drawn(m * n * b, 7);
    for d in [-2i32, 0, 3] {
        let args = [Arg::number(d), Arg::tensor(&x, [m, n, b]), Arg::output::<f32>([m, n, b])];
        written(triu().def(), &args);
    }
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
    let (n, b) = (12, 3);
    let a = drawn(n * n * b, 8);
    let outcome =
        &every(generated!(inverse()), &[Arg::tensor(&a, [n, n, b]), Arg::output::<f32>([n, n, b])])[0];
    let inv = outcome.get::<f32>("inv").unwrap();
    for m in 0..b {
        for i in 0..n {
            for j in 0..n {
                let sum: f64 = (0..n)
                    .map(|k| f64::from(a[m * n * n + k * n + i]) * f64::from(inv[m * n * n + j * n + k]))
                    .sum();
                assert!((sum - f64::from(u8::from(i == j))).abs() < 1e-3, "{i} {j} {sum}");
            }
        }
    }
}

/// Rows of different lengths, one after another, become a padded matrix; -1 pads.
#[kernel]
fn padded_rows(starts: &Tensor<i32, { B + 1 }>, x: &Tensor<f32, N>, y: &mut Tensor<f32, (B, L), (ldy, _1)>) {
    let y = tile(y, (1, 256), (block.x, block.y));
    let (from, to) = (starts[(block.x)], starts[(block.x + 1)]);
    map(y, y, |_, at| if from + at.1 < to { x[(from + at.1)] } else { -1.0 });
}

#[test]
fn ragged_rows_are_padded() {
    let starts = [0, 3, 3, 10, 310];
    let x = drawn(310, 9);
    let l = 300;

    let args = [Arg::tensor(&starts, [5]), Arg::tensor(&x, [310]), rows_out(4, l)];
    written(padded_rows().def(), &args);
}

/// New keys of a batch go to their slots of a cache.
#[kernel]
fn cache_append(slots: &Tensor<i32, T>, k: &Tensor<bf16, (D, H, T)>, cache: &mut Tensor<bf16, (D, H, S)>) {
    let slot = slots[(block.z)];
    copy(
        tile(k, (128, 2, 1), (block.x, block.y, block.z)),
        tile(cache, (128, 2, 1), (block.x, block.y, slot)),
    );
}

#[test]
fn keys_go_to_their_slots() {
    let (d, h, t, s) = (72, 3, 4, 9);
    let k: Vec<bf16> = drawn(d * h * t, 10).into_iter().map(bf16::from_f32).collect();
    let slots = [7, -1, 0, 3];

    let cache = vec![bf16::from_f32(0.5); d * h * s];
    let args = [Arg::tensor(&slots, [t]), Arg::tensor(&k, [d, h, t]), Arg::in_out(&cache, [d, h, s])];
    written(cache_append().def(), &args);
}

/// Values in the bins of sorted edges: a binary search for each.
#[kernel]
fn search_sorted(edges: &Tensor<f32, E>, x: &Tensor<f32, N>, at: &mut Tensor<i32, N>) {
    at_most(E, 65535);
    let x = tile(x, 512, block.x);
    let mut low = full::<i32>(512, 0);
    let mut high = map(low, |_| E);
    for _ in 0..16 {
        let middle = (low + high) / 2;
        (low, high) = map((low, high, middle, x), |low, high, m, x| {
            if (edges[(m)] < x) & (low < high) {
                (m + 1, high)
            } else {
                (low, if low < high { m } else { high })
            }
        });
    }
    copy(low, tile(at, 512, block.x));
}

#[test]
fn values_find_their_bins() {
    let (e, n) = (37, 700);
    let mut edges = drawn(e, 11);
    edges.sort_by(f32::total_cmp);
    let x = drawn(n, 12);
    let args = [Arg::tensor(&edges, [e]), Arg::tensor(&x, [n]), Arg::output::<i32>([n])];
    written(search_sorted().def(), &args);
}

/// A polynomial by Horner's rule, its coefficients a tensor.
#[kernel]
fn polynomial(c: &Tensor<f32, D>, x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let x = tile(x, 1024, block.x);
    let mut p = full::<f32>(1024, 0.0);
    for k in 0..D {
        p = p * x + c[(D - 1 - k)];
    }
    copy(p, tile(y, 1024, block.x));
}

#[test]
fn polynomials() {
    let (d, n) = (6, 1500);
    let (c, x) = (drawn(d, 13), drawn(n, 14));

    let args = [Arg::tensor(&c, [d]), Arg::tensor(&x, [n]), Arg::output::<f32>([n])];
    written(polynomial().def(), &args);
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
    let n = 70;
    let x = drawn(32 * n, 15);
    written(sign_bits().def(), &[Arg::tensor(&x, [32, n]), Arg::output::<u32>([n])]);
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
    let (n, d, k) = (150, 32, 5);
    let (ids, x) = (below(5, n, 16), drawn(n * d, 17));
    let args = [
        Arg::tensor(&ids, [n]),
        rows(&x, n, d),
        Arg::in_out(&vec![0.0f32; k * d], [k, d]).strides([d, 1]),
        Arg::in_out(&vec![0i32; k], [k]),
    ];
    near(centre_sums().def(), &args, 1e-4);
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
    written(monte_carlo().def(), &[Arg::number(7u32), Arg::in_out(&[0i32], [1])]);
}

/// Newton-Schulz: x becomes 1.5 x - 0.5 (x xᵀ) x, a small matrix for each block.
#[kernel(allow(bank_conflicts))]
fn orthogonal<const N: usize = 32>(x: &mut Tensor<f32, (N, N, B)>) {
    let x = tile(x, (N, N, 1), (0, 0, block.x))[(_, _, 0)];
    let (s, t, p) = (shared::<f32>((N, N)), shared::<f32>((N, N)), shared::<f32>((N, N)));
    copy(x, s);
    for _ in 0..3 {
        let mut acc = full::<f32>((N, N), 0.0);
        gemm(s, s, &mut acc);
        copy(acc, p);
        copy(s, permute(t, (1, 0)));
        let mut cube = full::<f32>((N, N), 0.0);
        gemm(p, t, &mut cube);
        s = 1.5 * s - 0.5 * cube;
    }
    copy(s, x);
}

#[test]
fn matrices_become_orthogonal() {
    let (n, b) = (32, 2);
    let x: Vec<f32> = drawn(n * n * b, 18).iter().map(|x| x / 30.0).collect();
    written(orthogonal().def(), &[Arg::in_out(&x, [n, n, b])]);
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
    let (m, n) = (6, 300);
    let x: Vec<f32> = drawn(m * n, 19).iter().map(|x| x - 100.0).collect();
    let wanted: Vec<f64> =
        x.chunks(n).map(|row| row.iter().map(|x| f64::from(*x)).fold(f64::NEG_INFINITY, f64::max)).collect();
    right(generated!(greatest()), &[rows(&x, m, n), Arg::output::<f32>([m])], "y", &wanted, 0.0);
}
