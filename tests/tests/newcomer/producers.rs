//! Loops with a producer warp: products by warpgroups, by warps, and without instructions.

use crate::{drawn, generated};
use tilewright::prelude::*;
use tilewright_codegen::Generated;
use tilewright_sim::{Arg, Options, Outcome, run_every};

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

/// Each kernel, of (a, b, c), with sizes that tiles divide and others; K of 1 to 11 tiles of 64.
#[track_caller]
fn products(kernels: &Kernels) {
    for (name, kernel) in kernels {
        for [m, n, k] in [[128, 64, 128], [70, 72, 72], [130, 40, 200], [66, 40, 688], [1, 8, 8]] {
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

/// One warpgroup, a block for each tile.
#[kernel(arch = 90)]
fn one_warpgroup(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((64, 64)));
    let mma = tiled_mma::<bf16, f32>(warpgroups = 1);
    let mut acc = mma.accumulators((64, 64), 0.0);
    for k in pipelined(0..ga.size(2), stages = 4, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (64, 64), (block.x, block.y)));
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

/// Four slots leave no room for all of c in shared memory: bulk stores write it in four parts, or threads in eight.
#[kernel(arch = 90)]
fn leaves_in_parts(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<bf16, (M, N), (ldc, _1)>,
) {
    persistent();
    let (ga, gb) = (tile(a, (128, 64), (block.x, _)), tile(b, (256, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((128, 64)), shared::<bf16>((256, 64)));
    let mma = tiled_mma::<bf16, f32>(warpgroups = 2);
    let mut acc = mma.accumulators((128, 256), 0.0);
    for k in pipelined(0..ga.size(2), stages = 4, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(map(acc, |x| 2.0 * x), tile(c, (128, 256), (block.x, block.y)));
}

#[test]
fn tiles_leave_in_parts() {
    let kernel = generated!(leaves_in_parts());
    let parts = |variant: usize, count: u32| {
        let source = &kernel.variants[variant].source;
        assert!(source.contains(&format!("for (int part = 0; part < {count}; ++part)")), "{source}");
    };
    parts(0, 4);
    parts(kernel.variants.len() - 1, 4);
    for [m, n, k] in [[128, 256, 64], [200, 300, 72], [130, 264, 136]] {
        let (a, b) = (halves(m * k, 1), halves(n * k, 2));
        let by_rows = |x: &[bf16], rows: usize| Arg::tensor(x, [rows, k]).strides([k, 1]);
        let args = [by_rows(&a, m), by_rows(&b, n), Arg::output::<bf16>([m, n]).strides([n, 1])];
        let wanted = product(&a, &b, [m, n, k]);
        for outcome in every(kernel.clone(), &args) {
            for (got, wanted) in outcome.get::<bf16>("c").unwrap().iter().zip(&wanted) {
                let error = (f64::from(got.to_f32()) - 2.0 * wanted).abs();
                assert!(
                    error <= 0.01 * wanted.abs().max(1.0),
                    "{m}x{n}x{k}: {got:?}, and {} is right",
                    2.0 * wanted
                );
            }
        }
    }
}

/// Two blocks of a cluster have their columns in common.
#[kernel(arch = 90)]
fn in_clusters(
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
    for k in pipelined(0..ga.size(2), stages = 3, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (64, 32), (block.x, block.y)));
}

/// Four blocks have their rows in common, and multiply by warps, which read shared memory themselves.
#[kernel(arch = 90)]
fn rows_in_clusters(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    persistent();
    cluster(4);
    let (ga, gb) = (tile(a, (64, 32), (block.y, _)), tile(b, (32, 32), (block.x, _)));
    let (sa, sb) = (shared::<bf16>((64, 32)), shared::<bf16>((32, 32)));
    let mma = tiled_mma::<bf16, f32>(warps = 4);
    let mut acc = mma.accumulators((64, 32), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (64, 32), (block.y, block.x)));
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

/// The same ring in front of mma.sync.
#[kernel(arch = 90)]
fn by_warps(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((64, 64)));
    let mma = tiled_mma::<bf16, f32>(warps = 4);
    let mut acc = mma.accumulators((64, 64), 0.0);
    for k in pipelined(0..ga.size(2), stages = 3, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (64, 64), (block.x, block.y)));
}

#[test]
fn products_with_a_producer() {
    products(&[
        ("one_warpgroup", generated!(one_warpgroup())),
        ("two_products", generated!(two_products())),
        ("promoted", generated!(promoted())),
        ("by_warps", generated!(by_warps())),
    ]);
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
    let (m, n) = (300, 52);
    let x = drawn(m * n, 3);
    let columns = |row: usize| n.min((row / 64 + 1) * 16);
    let wanted: Vec<f64> =
        (0..m).map(|row| (0..columns(row)).map(|column| f64::from(x[row + column * m])).sum()).collect();
    let args = [Arg::tensor(&x, [m, n]), Arg::output::<f32>([m])];
    for outcome in every(generated!(triangular()), &args) {
        close("triangular", &outcome, &wanted, 1e-5);
    }
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
    for n in [1, 32, 33, 65, 128, 140] {
        let x = drawn(n, 3);
        let m = 64 * n.div_ceil(32) + 200;
        let args = [Arg::tensor(&x, [n]), Arg::in_out(&vec![-1.0f32; m], [m]), Arg::in_out(&[0], [1])];
        let index = |at: usize| (at % 64 < 32 && at / 64 < n.div_ceil(32)).then_some(at / 64 * 32 + at % 32);
        let out_of_bounds = |at: usize| x.get(at).map_or(1.0, |x| f64::from(x + 1.0));
        let wanted: Vec<f64> = (0..m).map(|at| index(at).map_or(-1.0, out_of_bounds)).collect();
        for outcome in every(generated!(counted_in_clusters()), &args) {
            close("counted_in_clusters", &outcome, &wanted, 0.0);
            assert_eq!(outcome.get::<i32>("blocks").unwrap(), [n.div_ceil(32) as i32]);
        }
    }
}
