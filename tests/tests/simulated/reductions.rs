//! Reductions by arbitrary functions, of tuples, at ragged edges, and functions of coordinates: whole kernels
//! compared with double precision, in every variant, at sizes that tiles do not divide.

use tilewright::prelude::*;
use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_sim::Arg;

use crate::{inputs, run};

fn drawn(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 40) % 2001) as f32 / 250.0 - 4.0
    };
    (0..count).map(|_| next()).collect()
}

/// The argmax of each row, the first of equal elements; one block per row, in pieces.
#[kernel]
fn argmax(x: &Tensor<f32, (M, N), (ldx, _1)>, most: &mut Tensor<f32, M>, index: &mut Tensor<i32, M>) {
    let t = layout!((1, 64));
    let rows = parallelize(tile(x, (1, 256), (block.x, _)), t, thread.x, values = (1, 4));
    let one = parallelize(tile(most, 1, block.x), layout!(64), thread.x, ragged = true);
    let two = parallelize(tile(index, 1, block.x), layout!(64), thread.x, ragged = true);
    let first = |(a, i), (b, j)| if (b > a) | ((b == a) & (j < i)) { (b, j) } else { (a, i) };
    let mut best = registers::<f32>((1, 1), f32::NEG_INFINITY);
    let mut at = registers::<i32>((1, 1), i32::MAX);
    for k in 0..rows.size(2) {
        let piece = map(rows[(_, _, k)], |x| x);
        let places = map(rows[(_, _, k)], |_, at| at.1);
        let here = reduce((piece, places), (f32::NEG_INFINITY, i32::MAX), first);
        (best, at) = map((best, at, here.0, here.1), |a, i, b, j| first((a, i), (b, j)));
    }
    let all = block_reduce((best, at), (f32::NEG_INFINITY, i32::MAX), first);
    copy(all.0[(0, _)], one);
    copy(all.1[(0, _)], two);
}

#[test]
fn the_largest_and_its_index() {
    for (m, n) in [(3, 256), (2, 1), (5, 700), (4, 77)] {
        let x = drawn(m * n, 7);
        let args =
            [Arg::tensor(&x, [m, n]).strides(vec![n, 1]), Arg::output::<f32>([m]), Arg::output::<i32>([m])];
        for outcome in run(argmax().def(), &args) {
            for row in 0..m {
                let row_of = &x[row * n..(row + 1) * n];
                let most = row_of.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let index = row_of.iter().position(|x| *x == most).unwrap();
                assert_eq!(outcome.get::<f32>("most").unwrap()[row], most);
                assert_eq!(outcome.get::<i32>("index").unwrap()[row], index as i32, "{m} {n} {row}");
            }
        }
    }
}

/// Layer normalisation: mean and variance in one pass, by Welford's algorithm.
#[kernel]
fn layer_norm(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>, epsilon: f32) {
    let t = layout!((1, 96));
    let from = parallelize(tile(x, (1, 192), (block.x, _)), t, thread.x);
    let to = parallelize(tile(y, (1, 192), (block.x, _)), t, thread.x);
    let join = |(mean, spread, n), (other, by, m)| {
        let all = n + m;
        let share = if all > 0.0 { m / all } else { 0.0 };
        let apart = other - mean;
        (mean + apart * share, spread + by + apart * apart * n * share, all)
    };
    let mut mean = registers::<f32>((1, 1), 0.0);
    let mut spread = registers::<f32>((1, 1), 0.0);
    let mut count = registers::<f32>((1, 1), 0.0);
    for k in 0..from.size(2) {
        let parts = map(from[(_, _, k)], |x| (x, 0.0 * x, 1.0));
        let here = reduce(parts, (0.0, 0.0, 0.0), join);
        let joined =
            map((mean, spread, count, here.0, here.1, here.2), |a, b, c, d, e, f| join((a, b, c), (d, e, f)));
        (mean, spread, count) = joined;
    }
    let all = block_reduce((mean, spread, count), (0.0, 0.0, 0.0), join);
    for k in 0..from.size(2) {
        let made = map((from[(_, _, k)], all.0, all.1), |x, mean, spread| {
            (x - mean) * rsqrt(spread / N as f32 + epsilon)
        });
        copy(made, to[(_, _, k)]);
    }
}

#[test]
fn mean_and_variance_come_together() {
    inputs(layer_norm().def())
        .set("epsilon = 0.00001")
        .with("x", |x| 100.0 + x)
        .near(2e-4, ["M = 2, N = 192", "M = 3, N = 500", "M = 2, N = 7", "M = 1, N = 97"]);
}

/// Causal attention scores: the masked softmax of the rows of QKᵀ, through shared memory.
#[kernel(allow(unbounded, bank_conflicts))]
fn causal(q: &Tensor<f32, (M, D)>, k: &Tensor<f32, (N, D)>, y: &mut Tensor<f32, (M, N)>) {
    let (sq, sk) = (shared::<f32>(layout!((16, 8))), shared::<f32>(layout!((64, 8))));
    let (gq, gk) = (tile(q, (16, 8), (block.x, _)), tile(k, (64, 8), (0, _)));
    let t = layout!((8, 8));
    let rows = layout!((16, 4));
    let (from_q, to_q) = (parallelize(gq, t, thread.x), parallelize(sq, t, thread.x));
    let (from_k, to_k) = (parallelize(gk, t, thread.x), parallelize(sk, t, thread.x));
    let (left, right) = (parallelize(sq, rows, thread.x, (1, _)), parallelize(sk, rows, thread.x, (_, 1)));
    let out = parallelize(tile(y, (16, 64), (block.x, 0)), rows, thread.x);
    let mut scores = registers_like(out, 0.0);
    for d in 0..from_q.size(2) {
        copy(from_q[(_, _, d)], to_q);
        copy(from_k[(_, _, d)], to_k);
        cp_async_wait_all();
        sync_threads();
        gemm(left, right, &mut scores);
        sync_threads();
    }
    let masked = map(scores, |x, at| if at.1 > at.0 { f32::NEG_INFINITY } else { x });
    copy(masked, out);
}

#[test]
fn coordinates_follow_products() {
    for (m, n, d) in [(16, 64, 8), (37, 41, 11), (5, 9, 3)] {
        let (q, k) = (drawn(m * d, 1), drawn(n * d, 2));
        let args = [Arg::tensor(&q, [m, d]), Arg::tensor(&k, [n, d]), Arg::output::<f32>([m, n])];
        for outcome in run(causal().def(), &args) {
            let y = outcome.get::<f32>("y").unwrap();
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let dot: f32 = (0..d).map(|l| q[i + l * m] * k[j + l * n]).sum();
                let got = y[i + j * m];
                match j > i {
                    true => assert_eq!(got, f32::NEG_INFINITY, "{i} {j}"),
                    false => assert!((got - dot).abs() < 1e-3, "{i} {j}: {got} {dot}"),
                }
            }
        }
    }
}

/// A dropout-like mask of coordinates, and a fill.
#[kernel]
fn dropped(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>, z: &mut Tensor<i32, (M, N)>, seed: u32) {
    let t = layout!((16, 4));
    let from = parallelize(tile(x, (32, 8), (block.x, block.y)), t, thread.x);
    let to = parallelize(tile(y, (32, 8), (block.x, block.y)), t, thread.x);
    let places = parallelize(tile(z, (32, 8), (block.x, block.y)), t, thread.x);
    let hash = |n| {
        let a = (n ^ (n >> 16)) * 2146121005;
        let b = (a ^ (a >> 15)) * 2221713035;
        b ^ (b >> 16)
    };
    let own = map(from, |x| x);
    let kept = map(own, |x, at| {
        let n = hash((at.0 + at.1 * M) as u32 ^ seed);
        if n % 2 == 0 { 2.0 * x } else { 0.0 }
    });
    copy(kept, to);
    copy(map(own, |_, at| at.0 - at.1 * 1000), places);
}

#[test]
fn masks_are_made_of_coordinates() {
    for (m, n) in [(32, 8), (45, 13)] {
        let x = drawn(m * n, 3);
        let args = [
            Arg::tensor(&x, [m, n]),
            Arg::output::<f32>([m, n]),
            Arg::output::<i32>([m, n]),
            Arg::number(12345u32),
        ];
        let hash = |n: u32| {
            let a = (n ^ (n >> 16)).wrapping_mul(2146121005);
            let b = (a ^ (a >> 15)).wrapping_mul(2221713035);
            b ^ (b >> 16)
        };
        for outcome in run(dropped().def(), &args) {
            let (y, z) = (outcome.get::<f32>("y").unwrap(), outcome.get::<i32>("z").unwrap());
            for at in 0..m * n {
                let kept = hash(at as u32 ^ 12345) % 2 == 0;
                assert_eq!(y[at], if kept { 2.0 * x[at] } else { 0.0 });
                assert_eq!(z[at], (at % m) as i32 - (at / m) as i32 * 1000);
            }
        }
    }
}

/// Sums of columns, of elements accumulated over a loop, and of elements that go through shared memory.
#[kernel]
fn columns(x: &Tensor<f32, (M, N)>, sums: &mut Tensor<f32, { (1, N) }>, mosts: &mut Tensor<f32, { (1, N) }>) {
    let t = layout!((32, 2));
    let from = parallelize(tile(x, (64, 2), (_, block.x)), t, thread.x);
    let tile_of = shared::<f32>(layout!((64, 2)));
    let through = parallelize(tile_of, t, thread.x);
    let mut total = registers::<f32>((2, 1), 0.0);
    let mut most = registers::<f32>((1, 1), f32::NEG_INFINITY);
    for k in 0..from.size(2) {
        copy(from[(_, _, k)], through);
        cp_async_wait_all();
        sync_threads();
        let piece = map(through, |x| x - 10.0);
        most = map((most, maximum(piece)), |a, b| max(a, b));
        total += from[(_, _, k)];
        sync_threads();
    }
    // One lane of each warp has the only element.
    let out = parallelize(tile(sums, (1, 2), (0, block.x)), t, thread.x, ragged = true);
    let far = parallelize(tile(mosts, (1, 2), (0, block.x)), t, thread.x, ragged = true);
    copy(warp_sum(sum(total)), out);
    copy(warp_maximum(most), far);
}

#[test]
fn accumulators_and_shared_memory_at_ragged_edges() {
    inputs(columns().def()).written([
        "M = 64, N = 2",
        "M = 65, N = 3",
        "M = 130, N = 4",
        "M = 1, N = 1",
        "M = 200, N = 5",
    ]);
}

/// The maximum of some tiles of a tensor of fixed size; an argument gives their number.
#[kernel]
fn largest_of_tiles(x: &Tensor<f32, _100>, y: &mut Tensor<f32, _1>, from: i32, to: i32) {
    threads(32);
    let mut most = registers::<f32>((1,), f32::NEG_INFINITY);
    for i in from..to {
        let mine = parallelize(tile(x, 64, i), layout!(32), thread.x);
        let part = registers_like(mine);
        copy(mine, part);
        most = max(most, warp_maximum(maximum(part)));
    }
    copy(most, parallelize(y, layout!(32), thread.x, ragged = true));
}

#[test]
fn tiles_of_a_fixed_size_at_places_that_arguments_give() {
    let x: Vec<f32> = (0..100).map(|at| -1.0 - at as f32).collect();
    for (from, to, wanted) in [(0, 1, -1.0), (0, 2, -1.0), (1, 2, -65.0), (1, 5, -65.0)] {
        let args = [Arg::tensor(&x, [100]), Arg::output::<f32>([1]), Arg::number(from), Arg::number(to)];
        for outcome in run(largest_of_tiles().def(), &args) {
            assert_eq!(outcome.get::<f32>("y").unwrap(), [wanted]);
        }
    }
}

/// A tile in shared memory that is filled again after ragged data.
#[kernel]
fn refilled(x: &Tensor<f32, N>, y: &mut Tensor<f32, { (ceil_div(N, 64), 2) }, (ldy, _1)>) {
    threads(32);
    let s = shared::<f32>(64);
    copy(tile(x, 64, block.x), s);
    copy(maximum(s), tile(y, (1, 1), (block.x, 0)));
    fill(s, -2.0);
    copy(maximum(s), tile(y, (1, 1), (block.x, 1)));
}

#[test]
fn a_tile_that_is_filled_again_has_no_edge() {
    inputs(refilled().def()).with("x", |x| -5.0 - x).written(["N = 100"]);
}

/// A row to which another is added, which may end first: after its end it adds 0.
#[kernel(allow(unbounded))]
fn of_two_rows(a: &Tensor<f32, M>, b: &Tensor<f32, N>, y: &mut Tensor<f32, _1>) {
    threads(32);
    let mut both = map(tile(a, 64, block.x), |x| x);
    both += tile(b, 64, 0);
    copy(minimum(both), y);
}

#[test]
fn an_accumulator_keeps_its_own_edges() {
    for (m, n, least) in [(50, 64, 2.0), (64, 40, 1.0), (30, 40, 2.0), (50, 40, 1.0)] {
        let ones = |count: usize| vec![1.0f32; count];
        let (a, b) = (ones(m), ones(n));
        let args = [Arg::tensor(&a, [m]), Arg::tensor(&b, [n]), Arg::output::<f32>([1])];
        for outcome in run(of_two_rows().def(), &args) {
            assert_eq!(outcome.get::<f32>("y").unwrap(), [least], "{m}, {n}");
        }
    }
}

/// Column sums of rows and a bias: some rows in each thread, or one.
#[kernel(allow(unbounded))]
fn with_bias<const T: usize = 32>(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    b: &Tensor<f32, N>,
    y: &mut Tensor<f32, N>,
) {
    threads(T);
    let t = tile(x, (8, 64), (0, block.x)) + tile(b, 64, block.x).along(1);
    copy(sum(t, 0), tile(y, 64, block.x).along(1));
}

#[test]
fn a_bias_counts_in_rows_that_there_are() {
    let (m, n) = (5, 70);
    let args = [
        Arg::tensor(&vec![1.0f32; m * n], [m, n]).strides([n, 1]),
        Arg::tensor(&vec![10.0f32; n], [n]),
        Arg::output::<f32>([n]),
    ];
    for threads in ["T=32", "T=512"] {
        let def = Words::specialize(with_bias().def(), threads).unwrap_or_else(|wrong| panic!("{wrong}"));
        for outcome in run(&def, &args) {
            assert_eq!(outcome.get::<f32>("y").unwrap(), vec![11.0 * m as f32; n]);
        }
    }
}

/// Coordinates beside the sum of the first tile of each row; every thread has one element of this tile and of the others.
#[kernel]
fn places_beside_a_sum(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    y: &mut Tensor<f32, (M, N), (ldy, _1)>,
    z: &mut Tensor<f32, (M, N), (ldz, _1)>,
) {
    let t = layout!((1, 64));
    let from = parallelize(tile(x, (1, 64), (block.x, _)), t, thread.x);
    let places = parallelize(tile(y, (1, 64), (block.x, _)), t, thread.x);
    let chosen = parallelize(tile(z, (1, 64), (block.x, _)), t, thread.x);
    let first = block_sum(map(from[(_, _, 0)], |x| x), out_of_bounds = 0.0);
    let most = block_maximum(map(from[(_, _, 0)], |x| x));
    for k in 0..from.size(2) {
        copy(map((first, from[(_, _, k)]), |s, _, at| s + at.1 as f32), places[(_, _, k)]);
        copy(map((most, from[(_, _, k)]), |m, x, at| if at.1 > 64 { m } else { x }), chosen[(_, _, k)]);
    }
}

#[test]
fn sums_over_threads_stand_for_no_coordinate() {
    for (m, n) in [(2, 64), (3, 200), (2, 70)] {
        let x: Vec<f32> = (0..m * n).map(|at| (at % 7) as f32).collect();
        let out = || Arg::output::<f32>([m, n]).strides([n, 1]);
        let args = [Arg::tensor(&x, [m, n]).strides([n, 1]), out(), out()];
        for outcome in run(places_beside_a_sum().def(), &args) {
            let (y, z) = (outcome.get::<f32>("y").unwrap(), outcome.get::<f32>("z").unwrap());
            for (at, (i, j)) in (0..m * n).map(|at| (at, (at / n, at % n))) {
                let first = &x[i * n..i * n + n.min(64)];
                let most = first.iter().copied().fold(f32::MIN, f32::max);
                assert_eq!(y[at], first.iter().sum::<f32>() + j as f32, "{m} {n}: {i} {j}");
                assert_eq!(z[at], if j > 64 { most } else { x[at] }, "{m} {n}: {i} {j}");
            }
        }
    }
}

/// A sum of the block decides for all its threads.
#[kernel]
fn reversed_where_many_are_positive(x: &Tensor<f32, _64>, y: &mut Tensor<f32, _64>) {
    let (t, s) = (layout!(64), shared::<f32>(layout!(64)));
    let own = map(parallelize(tile(x, 64, 0), t, thread.x), |x| x);
    let above = block_sum(map(own, |x| (x > 0.0) as i32));
    if above[(0)] > 32 {
        copy(own, parallelize(s, t, thread.x));
        sync_threads();
        own = map(own, |_| s[(63 - thread.x)]);
    }
    copy(own, parallelize(tile(y, 64, 0), t, thread.x));
}

#[test]
fn sums_of_a_block_decide_for_its_threads() {
    for above in [0, 32, 33, 64] {
        let x: Vec<f32> = (0..64).map(|at| if at < above { at as f32 + 1.0 } else { -(at as f32) }).collect();
        let args = [Arg::tensor(&x, [64]), Arg::output::<f32>([64])];
        let y = reversed_where_many_are_positive().simulate(&args).unwrap().get::<f32>("y").unwrap();
        let mut wanted = x.clone();
        if above > 32 {
            wanted.reverse();
        }
        assert_eq!(y, wanted);
    }
}

/// Integers of all warps of a block: sum, minimum and maximum.
#[kernel(T = i32 | u32)]
fn integers_of_a_block<T, const L: usize = 256>(
    x: &Tensor<T, N>,
    y: &mut Tensor<T, { (3, ceil_div(N, L)) }>,
) {
    let own = map(parallelize(tile(x, L, block.x), layout!(L), thread.x), |x| x);
    let all = block_sum(own);
    let least = block_reduce(own, T::MAX, |a, b| min(a, b));
    let most = block_reduce(own, T::MIN, |a, b| max(a, b));
    let to = |at| parallelize(tile(y[(at, _)], 1, block.x), layout!(L), thread.x, ragged = true);
    copy(all, to(0));
    copy(least, to(1));
    copy(most, to(2));
}

#[test]
fn integers_of_all_warps_of_a_block() {
    for def in [
        integers_of_a_block!(T = i32, L = 128).def(),
        integers_of_a_block!(T = i32, L = 256).def(),
        integers_of_a_block!(T = i32, L = 320).def(),
        integers_of_a_block!(T = i32, L = 1024).def(),
        integers_of_a_block!(T = u32, L = 320).def(),
    ] {
        inputs(def).written(["N = 700"]);
    }
}

/// Sums of rows by blocks that take one tile of few rows after another: threads share the columns of a row.
macro_rules! few_rows {
    ($name:ident, $elem:ident, $sum:ident, $zero:literal, $rows:literal) => {
        #[kernel(threads = 32)]
        fn $name(x: &Tensor<$elem, (M, N), (ldx, _1)>, y: &mut Tensor<$sum, M>) {
            persistent();
            let t = tile(x, ($rows, 64), (block.x, _));
            let mut rows = full::<$sum>(($rows, 1), $zero);
            for k in 0..t.size(2) {
                rows += sum(t[(_, _, k)], 1);
            }
            copy(rows, regroup(tile(y, $rows, block.x), ($rows, 1)));
        }
    };
}

few_rows!(two_rows_of_bytes, i8, i32, 0, 2);
few_rows!(two_rows, f32, f32, 0.0, 2);
few_rows!(three_rows, f32, f32, 0.0, 3);

#[test]
fn tiles_of_few_rows() {
    let sizes =
        ["3, N = 114", "4, N = 128", "5, N = 127", "64, N = 256", "3, N = 64", "1, N = 1", "7, N = 0"];
    for def in [two_rows_of_bytes().def(), two_rows().def(), three_rows().def()] {
        let sizes = sizes.map(|sizes| format!("M = {sizes}"));
        inputs(def).written(sizes.iter().map(|sizes| &**sizes));
    }
}
