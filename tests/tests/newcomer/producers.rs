//! Loops with a producer warp: products by warpgroups, by warps, and without instructions.

use tilewright::KernelDef;
use tilewright::prelude::*;
use tilewright_sim::{Arg, Options, run_every};
use tilewright_tests::inputs::inputs;

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

/// Sizes that tiles divide and others; K of 1 to 11 tiles of 64.
#[track_caller]
fn products<'d>(defs: impl IntoIterator<Item = &'d KernelDef>) {
    for def in defs {
        inputs(def).schedules(5).written([
            "M = 128, N = 64, K = 128",
            "M = 70, N = 72, K = 72",
            "M = 130, N = 40, K = 200",
            "M = 66, N = 40, K = 688",
            "M = 1, N = 8, K = 8",
        ]);
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
    let [columns, rows, triangles] =
        [in_clusters().def(), rows_in_clusters().def(), triangles_in_clusters().def()].map(KernelDef::clone);
    let multicasts = |def: &KernelDef| def.generate().unwrap().source().contains("bulk_load_2d_multicast");
    assert!(multicasts(&columns) && multicasts(&rows) && !multicasts(&triangles));
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
    let options = Options { schedules: 5, ..Options::default() };
    for [m, n] in [[1, 1024], [5, 1000], [9, 513], [300, 100]] {
        let x: Vec<f32> = (0..m * n).map(|at| (at * 37 % 101) as f32 / 50.0 + 1.0).collect();
        let args = [Arg::tensor(&x, [m, n]).strides([n, 1]), Arg::output::<f32>([m, n]).strides([n, 1])];
        for outcome in run_every(&rows_of_clusters().def().generate().unwrap(), &args, &options).unwrap() {
            for (at, y) in outcome.get::<f32>("c").unwrap().into_iter().enumerate() {
                let wanted = x[at] / x[at / n * n..][..n].iter().sum::<f32>();
                assert!((y - wanted).abs() < 1e-6, "{m}x{n}, {at}: {y}, and {wanted} is right");
            }
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
    products([one_warpgroup().def(), two_products().def(), promoted().def(), by_warps().def()]);
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
    // All products are negative, unlike the zeros out of bounds.
    inputs(greatest().def())
        .schedules(5)
        .with("a", |x| x.abs() + 0.5)
        .with("b", |x| -x.abs() - 0.5)
        .near(1e-3, ["M = 100, N = 70, K = 24", "M = 64, N = 64, K = 32", "M = 1, N = 1, K = 8"]);
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
