//! Loops with a producer warp: products by warpgroups, by warps, and without instructions.

use crate::{drawn, generated};
use tilewright::prelude::*;
use tilewright_codegen::Generated;
use tilewright_sim::{Arg, Options, Outcome, run_every};
use tilewright_tests::inputs::inputs;

/// Sizes that tiles divide and others; K of 1 to 11 tiles of 64.
const SIZES: [[usize; 3]; 5] = [[128, 64, 128], [70, 72, 72], [130, 40, 200], [66, 40, 688], [1, 8, 8]];

/// Products with a producer, of tiles of these rows, columns and steps of K.
macro_rules! products {
    ($($(#[$doc:meta])* $name:ident: ($bm:tt, $bn:tt, $bk:tt), $mma:ident = $count:tt, $stages:tt, $c:ty, $at:tt, { $($mode:stmt;)* };)+) => {$(
        $(#[$doc])*
        #[kernel(arch = 90)]
        fn $name(
            a: &Tensor<bf16, (M, K), (lda, _1)>,
            b: &Tensor<bf16, (N, K), (ldb, _1)>,
            c: &mut Tensor<$c, (M, N), (ldc, _1)>,
        ) {
            $($mode;)*
            let (row, column) = $at;
            let (ga, gb) = (tile(a, ($bm, $bk), (row, _)), tile(b, ($bn, $bk), (column, _)));
            let (sa, sb) = (shared::<bf16>(($bm, $bk)), shared::<bf16>(($bn, $bk)));
            let mut acc = tiled_mma::<bf16, f32>($mma = $count).accumulators(($bm, $bn), 0.0);
            for k in pipelined(0..ga.size(2), stages = $stages, producer = warp) {
                copy(ga[(_, _, k)], sa);
                copy(gb[(_, _, k)], sb);
                gemm(sa, sb, &mut acc);
            }
            copy(acc, tile(c, ($bm, $bn), (row, column)));
        }
    )+};
}

products! {
    one_warpgroup: (64, 64, 64), warpgroups = 1, 4, f32, (block.x, block.y), {};
    /// The same ring in front of mma.sync.
    by_warps: (64, 64, 64), warps = 4, 3, f32, (block.x, block.y), {};
    /// Four slots leave no room for all of c in shared memory: bulk stores write it in four parts, or threads in eight.
    leaves_in_parts: (128, 256, 64), warpgroups = 2, 4, bf16, (block.x, block.y), { persistent(); };
    /// Two blocks of a cluster have their columns in common.
    in_clusters: (64, 32, 64), warpgroups = 1, 3, f32, (block.x, block.y), { persistent(); cluster(2); };
    /// Four blocks have their rows in common, and multiply by warps, which read shared memory themselves.
    rows_in_clusters: (64, 32, 32), warps = 4, 2, f32, (block.y, block.x), { persistent(); cluster(4); };
}

/// The results of every variant in several schedules.
#[track_caller]
fn every(kernel: Generated, args: &[Arg]) -> Vec<Outcome> {
    let options = Options { schedules: 5, ..Options::default() };
    run_every(&kernel, args, &options).unwrap_or_else(|fault| panic!("{fault}"))
}

fn halves(count: usize, seed: u64) -> Vec<bf16> {
    drawn(count, seed).into_iter().map(bf16::from_f32).collect()
}

/// a·bᵀ, of K-major operands, with C by rows.
fn product(a: &[bf16], b: &[bf16], [m, n, k]: [usize; 3]) -> Vec<f64> {
    let dot = |i: usize, j: usize| {
        (0..k).map(|p| f64::from(a[i * k + p].to_f32()) * f64::from(b[j * k + p].to_f32())).sum()
    };
    (0..m * n).map(|at| dot(at / n, at % n)).collect()
}

#[track_caller]
fn close(name: &str, outcome: &Outcome, wanted: &[f64], within: f64) {
    let got = outcome.get::<f32>("c").unwrap();
    assert_eq!(got.len(), wanted.len(), "{name}");
    for (at, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        let error = (f64::from(*got) - wanted).abs();
        assert!(
            error <= within * wanted.abs().max(1.0),
            "{name}, element {at}: {got}, and {wanted} is right"
        );
    }
}

type Kernels = [(&'static str, Generated)];

/// Each kernel, of (a, b, c), at [`SIZES`].
#[track_caller]
fn products(kernels: &Kernels) {
    for (name, kernel) in kernels {
        for [m, n, k] in SIZES {
            let (a, b) = (halves(m * k, 1), halves(n * k, 2));
            let by_rows = |x: &[bf16], rows: usize| Arg::tensor(x, [rows, k]).strides([k, 1]);
            let args = [by_rows(&a, m), by_rows(&b, n), Arg::output::<f32>([m, n]).strides([n, 1])];
            let wanted = product(&a, &b, [m, n, k]);
            for outcome in every(kernel.clone(), &args) {
                close(&format!("{name} {m}x{n}x{k}"), &outcome, &wanted, 1e-3);
            }
        }
    }
}

/// Two warpgroups, persistent, and two products of one operand.
#[kernel(arch = 90)]
fn two_products(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    persistent();
    let (ga, gb) = (tile(a, (128, 64), (block.x, _)), tile(b, (32, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((128, 64)), shared::<bf16>((32, 64)));
    let mma = tiled_mma::<bf16, f32>(warpgroups = 2);
    let mut even = mma.accumulators((128, 32), 0.0);
    let mut odd = mma.accumulators((128, 32), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut even);
        gemm(sa, sb, &mut odd);
    }
    copy(map((even, odd), |x, y| 0.5 * (x + y)), tile(c, (128, 32), (block.x, block.y)));
}

#[test]
fn tiles_leave_in_parts() {
    let kernel = leaves_in_parts();
    let source = kernel.source();
    assert!(source.contains("for (int part = 0; part < 4; ++part)"), "{source}");
    inputs(kernel.def()).schedules(5).written([
        "M = 128, N = 256, K = 64",
        "M = 200, N = 300, K = 72",
        "M = 130, N = 264, K = 136",
    ]);
}

/// Blocks of a cluster sum over different parts of K, so none copies for another.
#[kernel(arch = 90)]
fn triangles_in_clusters(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    persistent();
    cluster(2);
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (32, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((32, 64)));
    let mma = tiled_mma::<bf16, f32>(warpgroups = 1);
    let mut acc = mma.accumulators((64, 32), 0.0);
    for k in pipelined(0..min(ga.size(2), block.x + 1), stages = 3, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (64, 32), (block.x, block.y)));
}

#[test]
fn blocks_of_a_cluster_copy_for_one_another() {
    let multicasts = |kernel: &Generated| kernel.source().contains("bulk_load_2d_multicast");
    let kernels =
        [("in_clusters", generated!(in_clusters())), ("rows_in_clusters", generated!(rows_in_clusters()))];
    assert!(kernels.iter().all(|(_, kernel)| multicasts(kernel)));
    products(&kernels);
    let kernel = generated!(triangles_in_clusters());
    assert!(!multicasts(&kernel));
    let [m, n, k] = [200, 40, 200];
    let (a, b) = (halves(m * k, 1), halves(n * k, 2));
    let by_rows = |x: &[bf16], rows: usize| Arg::tensor(x, [rows, k]).strides([k, 1]);
    let args = [by_rows(&a, m), by_rows(&b, n), Arg::output::<f32>([m, n]).strides([n, 1])];
    // Elements that no block visits are 0.
    let visited = |at: usize| if at % k < (at / k / 64 + 1) * 64 { a[at] } else { bf16::from_f32(0.0) };
    let a: Vec<bf16> = (0..m * k).map(visited).collect();
    for outcome in every(kernel, &args) {
        close("triangles_in_clusters", &outcome, &product(&a, &b, [m, n, k]), 1e-3);
    }
}

/// Rows divided by their sums: the blocks of a cluster take one row after another.
#[kernel(arch = 90)]
fn rows_of_clusters<const C: usize = 2>(
    x: &Tensor<f32, (M, N), (ldx, _1)>,
    c: &mut Tensor<f32, (M, N), (ldy, _1)>,
) {
    at_most(N, 512 * C);
    persistent();
    cluster(C);
    let t = layout!((1, 128));
    let own = map(parallelize(tile(x, (1, 512), (block.y, block.x)), t, thread.x), |x| x);
    let total = cluster_sum(sum(own));
    map((own, total), parallelize(tile(c, (1, 512), (block.y, block.x)), t, thread.x), |x, total| x / total);
}

#[test]
fn persistent_clusters_combine_over_their_blocks() {
    for [m, n] in [[1, 1024], [5, 1000], [9, 513], [300, 100]] {
        let x: Vec<f32> = drawn(m * n, 7).iter().map(|x| x + 3.0).collect();
        let args = [Arg::tensor(&x, [m, n]).strides([n, 1]), Arg::output::<f32>([m, n]).strides([n, 1])];
        let total = |row: usize| x[row * n..][..n].iter().map(|x| f64::from(*x)).sum::<f64>();
        let wanted: Vec<f64> = x.iter().enumerate().map(|(at, x)| f64::from(*x) / total(at / n)).collect();
        for outcome in every(generated!(rows_of_clusters()), &args) {
            close("rows_of_clusters", &outcome, &wanted, 1e-6);
        }
    }
}

/// Sums of each step are added while the next product runs.
#[kernel(arch = 90)]
fn promoted(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    persistent();
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (32, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((32, 64)));
    let mma = tiled_mma::<bf16, f32>(warpgroups = 1);
    let mut total = full::<f32>((64, 32), 0.0);
    for k in pipelined(0..ga.size(2), stages = 3, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        let mut acc = mma.accumulators((64, 32), 0.0);
        gemm(sa, sb, &mut acc);
        total += acc;
    }
    copy(total, tile(c, (64, 32), (block.x, block.y)));
}

#[test]
fn products_with_a_producer() {
    for def in [one_warpgroup().def(), two_products().def(), promoted().def(), by_warps().def()] {
        for [m, n, k] in SIZES {
            inputs(def).schedules(5).written([&*format!("M = {m}, N = {n}, K = {k}")]);
        }
    }
}

/// A sum of tiles that a producer copies, by threads, up to a limit that depends on the block.
#[kernel(arch = 90)]
fn triangular(x: &Tensor<f32, (M, N)>, c: &mut Tensor<f32, M>) {
    persistent();
    let gx = tile(x, (64, 16), (block.x, _));
    let sx = shared::<f32>((64, 16));
    let mut total = full::<f32>((64, 1), 0.0);
    for k in pipelined(0..min(gx.size(2), block.x + 1), stages = 3, producer = warp) {
        copy(gx[(_, _, k)], sx);
        total += sum(sx, 1);
    }
    copy(total, tile(c, 64, block.x).along(0));
}

#[test]
fn loops_as_long_as_their_block_says() {
    inputs(triangular().def()).schedules(5).written(["M = 300, N = 52"]);
}

/// The greatest product of each row of `a` with the rows of `b` up to its own: coordinates and edges of elements are
/// followed through the ring and through wgmma.
#[kernel(arch = 90, allow(unbounded))]
fn greatest(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, M>,
) {
    let ga = tile(a, (64, 32), (block.x, 0));
    let gb = tile(b, (32, 32), (_, 0));
    let (sa, sb) = (shared::<bf16>((64, 32)), shared::<bf16>((32, 32)));
    let mma = tiled_mma::<bf16, f32>(warpgroups = 1);
    let mut best = full::<f32>((64, 1), f32::NEG_INFINITY);
    for n in pipelined(0..gb.size(2), stages = 2, producer = warp) {
        copy(ga, sa);
        copy(gb[(_, _, n)], sb);
        let mut products = mma.accumulators((64, 32), 0.0);
        gemm(sa, sb, &mut products);
        let lower = map(products, |x, at| select(at.1 > at.0, f32::NEG_INFINITY, x));
        best = map((best, maximum(lower, 1)), |x, y| max(x, y));
    }
    copy(best, tile(c, 64, block.x).along(0));
}

#[test]
fn coordinates_follow_through_rings() {
    for [m, n, k] in [[100, 70, 24], [64, 64, 32], [1, 1, 8]] {
        // All products are negative, unlike the zeros out of bounds.
        let a: Vec<bf16> = drawn(m * k, 5).iter().map(|x| bf16::from_f32(x.abs() + 0.5)).collect();
        let b: Vec<bf16> = drawn(n * k, 6).iter().map(|x| bf16::from_f32(-x.abs() - 0.5)).collect();
        let all = product(&a, &b, [m, n, k]);
        let wanted: Vec<f64> = (0..m)
            .map(|row| all[row * n..][..n.min(row + 1)].iter().copied().fold(f64::NEG_INFINITY, f64::max))
            .collect();
        let by_rows = |x: &[bf16], rows: usize| Arg::tensor(x, [rows, k]).strides([k, 1]);
        let args = [by_rows(&a, m), by_rows(&b, n), Arg::output::<f32>([m])];
        for outcome in every(generated!(greatest()), &args) {
            close(&format!("greatest {m}x{n}x{k}"), &outcome, &wanted, 1e-3);
        }
    }
}

/// Two tensors; the longer one extends past the tiles of the grid.
#[kernel(arch = 90)]
fn counted_in_clusters<const C: usize = 2>(
    x: &Tensor<f32, N>,
    c: &mut Tensor<f32, M>,
    blocks: &mut Tensor<i32, _1>,
) {
    persistent();
    cluster(C);
    map(tile(x, 32, block.x), tile(c, 32, block.x * 2), |x| x + 1.0);
    copy(1, blocks, how = "atomic_add");
}

#[test]
fn surplus_blocks_of_a_cluster_write_nothing() {
    inputs(counted_in_clusters().def()).schedules(5).with("c", |_| -1.0).zero("blocks").written([
        "N = 1, M = 264",
        "N = 32, M = 264",
        "N = 33, M = 328",
        "N = 65, M = 392",
        "N = 128, M = 456",
        "N = 140, M = 520",
    ]);
}
