//! Ten steps that optimise a matrix product. Each differs from the previous one in its layouts, or in one
//! line.
//!
//! The first five compute C = A·B with row-major matrices, as most tutorials do: A is (M, K), and B, usually
//! written (K, N), is (N, K) with contiguous columns. From the sixth on the product is C = A·Bᵀ column-major,
//! the kernel of the MoYe.jl tutorial and its descendants.

use tilewright::program::report::{Access, Report};
use tilewright::{KernelDef, prelude::*};

/// One thread per element of C. Consecutive threads go down a column, so a warp's accesses to A and C are
/// uncoalesced.
#[kernel(allow(uncoalesced))]
pub fn naive<const B: usize = 16>(
    a: &Tensor<f32, (M, K), (lda, _1)>,
    b: &Tensor<f32, (N, K), (_1, ldb)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let threads = layout!((B, B));
    let rows = parallelize(tile(a, (B, _), (block.x, 0)), threads, thread.x, (1, _)); // (1, K)
    let columns = parallelize(tile(b, (B, _), (block.y, 0)), threads, thread.x, (_, 1)); // (1, K)
    let out = parallelize(tile(c, (B, B), (block.x, block.y)), threads, thread.x);
    let mut sum = registers_like(out, 0.0);
    gemm(rows, columns, &mut sum);
    copy(sum, out);
}

/// The same with the other thread layout: consecutive threads go along a row, and global accesses are
/// coalesced.
#[kernel]
pub fn coalesced<const B: usize = 32>(
    a: &Tensor<f32, (M, K), (lda, _1)>,
    b: &Tensor<f32, (N, K), (_1, ldb)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let threads = layout!((B, B) : (B, 1));
    let rows = parallelize(tile(a, (B, _), (block.y, 0)), threads, thread.x, (1, _));
    let columns = parallelize(tile(b, (B, _), (block.x, 0)), threads, thread.x, (_, 1));
    let out = parallelize(tile(c, (B, B), (block.y, block.x)), threads, thread.x);
    let mut sum = registers_like(out, 0.0);
    gemm(rows, columns, &mut sum);
    copy(sum, out);
}

/// Tiles of A and B in shared memory, one thread per element of C, any M, N and K. With `T = i32, W = 16` it
/// is the integer kernel of one tutorial. With `T = f64` and `W = TILE_WIDTH` it is the double-precision kernel
/// of another tutorial.
#[kernel(T = f32 | f64 | i32)]
pub fn shared_tile<T, const W: usize = 32>(
    a: &Tensor<T, (M, K), (lda, _1)>,
    b: &Tensor<T, (N, K), (_1, ldb)>,
    c: &mut Tensor<T, (M, N), (ldc, _1)>,
) {
    let (sa, sb) = (shared::<T>(row_major((W, W))), shared::<T>(layout!((W, W))));
    let ga = tile(a, (W, W), (block.y, _));
    let gb = tile(b, (W, W), (block.x, _));
    let gc = tile(c, (W, W), (block.y, block.x));

    let (ta, tb) = (layout!((W, W) : (W, 1)), layout!((W, W)));
    let (ta_ga, ta_sa) = (parallelize(ga, ta, thread.x), parallelize(sa, ta, thread.x));
    let (tb_gb, tb_sb) = (parallelize(gb, tb, thread.x), parallelize(sb, tb, thread.x));
    let rows = parallelize(sa, ta, thread.x, (1, _));
    let columns = parallelize(sb, ta, thread.x, (_, 1));
    let out = parallelize(gc, ta, thread.x);

    let mut sum = registers_like(out, 0);
    for k in 0..ta_ga.size(2) {
        copy(ta_ga[(_, _, k)], ta_sa);
        copy(tb_gb[(_, _, k)], tb_sb);
        cp_async_wait_all();
        sync_threads();
        gemm(rows, columns, &mut sum);
        sync_threads();
    }
    copy(sum, out);
}

/// The same with beta·C: the old elements of C are read, scaled and added in the epilogue.
#[kernel(T = f32 | f64 | i32)]
pub fn scaled_tile<T, const W: usize = 32>(
    a: &Tensor<T, (M, K), (lda, _1)>,
    b: &Tensor<T, (N, K), (_1, ldb)>,
    c: &mut Tensor<T, (M, N), (ldc, _1)>,
    alpha: T,
    beta: T,
) {
    let (sa, sb) = (shared::<T>(row_major((W, W))), shared::<T>(layout!((W, W))));
    let ga = tile(a, (W, W), (block.y, _));
    let gb = tile(b, (W, W), (block.x, _));
    let gc = tile(c, (W, W), (block.y, block.x));

    let (ta, tb) = (layout!((W, W) : (W, 1)), layout!((W, W)));
    let (ta_ga, ta_sa) = (parallelize(ga, ta, thread.x), parallelize(sa, ta, thread.x));
    let (tb_gb, tb_sb) = (parallelize(gb, tb, thread.x), parallelize(sb, tb, thread.x));
    let rows = parallelize(sa, ta, thread.x, (1, _));
    let columns = parallelize(sb, ta, thread.x, (_, 1));
    let out = parallelize(gc, ta, thread.x);

    let mut sum = registers_like(out, 0);
    for k in 0..ta_ga.size(2) {
        copy(ta_ga[(_, _, k)], ta_sa);
        copy(tb_gb[(_, _, k)], tb_sb);
        cp_async_wait_all();
        sync_threads();
        gemm(rows, columns, &mut sum);
        sync_threads();
    }
    let old = registers_like(out, 0);
    copy(out, old);
    copy(map((sum, old), |s, o| alpha * s + beta * o), out);
}

/// Eight elements of C per thread, down a column: one load of B's tile serves all eight.
#[kernel]
pub fn block_tile_1d<const BM: usize = 64, const BN: usize = 64, const BK: usize = 8>(
    a: &Tensor<f32, (M, K), (lda, _1)>,
    b: &Tensor<f32, (N, K), (_1, ldb)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
    alpha: f32,
    beta: f32,
) {
    let (sa, sb) = (shared::<f32>(layout!((BM, BK) : (1, BM + 4))), shared::<f32>(layout!((BN, BK))));
    let ga = tile(a, (BM, BK), (block.y, _));
    let gb = tile(b, (BN, BK), (block.x, _));
    let gc = tile(c, (BM, BN), (block.y, block.x));

    let (ta, tb) = (layout!((BM, BK) : (BK, 1)), layout!((BN, BK)));
    let tc = layout!((BM / 8, BN) : (BN, 1));
    let (ta_ga, ta_sa) = (parallelize(ga, ta, thread.x), parallelize(sa, ta, thread.x));
    let (tb_gb, tb_sb) = (parallelize(gb, tb, thread.x), parallelize(sb, tb, thread.x));
    let rows = parallelize(sa, tc, thread.x, (1, _), values = (8, 1));
    let columns = parallelize(sb, tc, thread.x, (_, 1));
    let out = parallelize(gc, tc, thread.x, values = (8, 1));

    let mut sum = registers_like(out, 0.0);
    for k in 0..ta_ga.size(2) {
        copy(ta_ga[(_, _, k)], ta_sa);
        copy(tb_gb[(_, _, k)], tb_sb);
        cp_async_wait_all();
        sync_threads();
        gemm(rows, columns, &mut sum);
        sync_threads();
    }
    let old = registers_like(out, 0.0);
    copy(out, old);
    copy(map((sum, old), |s, o| alpha * s + beta * o), out);
}

/// 16x16 threads, each with 8x8 elements of C: the kernel of `tutorial.rs`, written with keys.
pub const BLOCK_TILE_2D: MatmulKernel<f32> = matmul_kernel!(
    bm = 128,
    bn = 128,
    bk = 8,
    tc = (16, 16),
    schedule = (ta = (32, 8), tb = (32, 8), pad = 1)
);

/// Vectorised copies of 16 bytes: one key, and a padding that keeps columns aligned.
pub const VECTORS: MatmulKernel<f32> = matmul_kernel!(
    bm = 128,
    bn = 128,
    bk = 8,
    tc = (16, 16),
    schedule = (ta = (32, 8), tb = (32, 8), pad = 4, vec = 4)
);

/// Double buffering: the next tile of each operand is copied while the current one is multiplied.
pub const DOUBLE_BUFFERED: MatmulKernel<f32> = matmul_kernel!(
    bm = 128,
    bn = 128,
    bk = 8,
    tc = (16, 16),
    schedule = (ta = (32, 8), tb = (32, 8), pad = 4, vec = 4),
    stages = 2
);

/// Warp tiles: each warp is 8x4 threads, each thread has 4x4 neighbouring elements.
pub const WARP_TILES: MatmulKernel<f32> = matmul_kernel!(
    bm = 128,
    bn = 128,
    bk = 8,
    tc = layout!(((8, 2), (4, 4)) : ((1, 32), (8, 64))),
    schedule = (values = (4, 4), ta = (32, 8), tb = (32, 8), pad = 4, vec = 4),
    stages = 2
);

/// All of the above with larger tiles, plus settings found by measurement: `kernels::WIDE`.
pub const BEST: MatmulKernel<f32> = matmul_kernel!(
    name = wide,
    arch = 90,
    bm = 128,
    bn = 256,
    bk = 8,
    tc = swizzled(2, 0, -2, layout!(((4, 2), (8, 4)) : ((1, 32), (4, 64)))),
    schedule = (values = (4, 4), pad = 4, vec = 4, fragments = 2, order = row_serpentine),
    stages = 4,
    alpha_beta = true,
    overlaps = true
);

/// A step of the ladder.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its name.
    pub name: &'static str,
    /// Its kernel, with arguments A, B and C; from the fourth step on some have alpha and beta as well.
    pub kernel: KernelDef,
    /// Whether its matrices are row-major.
    pub row_major: bool,
    /// The difference from the previous step.
    pub change: &'static str,
    /// The effect of that change.
    pub why: &'static str,
}

/// All ten steps.
pub fn steps() -> Vec<Step> {
    let step = |name, kernel: &KernelDef, row_major, change, why| Step {
        name,
        kernel: kernel.clone(),
        row_major,
        change,
        why,
    };
    vec![
        step(
            "naive",
            naive().def(),
            true,
            "one thread per element of C, consecutive threads down a column",
            "a warp reads 16 rows of A at once: 16 sectors for 16 words",
        ),
        step(
            "coalesced",
            coalesced().def(),
            true,
            "the thread layout: consecutive threads along a row",
            "global accesses are coalesced: the minimum of sectors",
        ),
        step(
            "shared tile",
            shared_tile().def(),
            true,
            "tiles in shared memory, and barriers around them",
            "an element is loaded once per block, not once per thread: more operations per byte",
        ),
        step(
            "alpha and beta",
            scaled_tile().def(),
            true,
            "the epilogue: C = alpha·A·B + beta·C",
            "no gain and little cost: C is read once, after the main loop",
        ),
        step(
            "1-D block tile",
            block_tile_1d().def(),
            true,
            "the layouts: eight elements of C per thread, down a column",
            "an element of B in a register serves eight multiply-adds: fewer loads for each",
        ),
        step(
            "2-D block tile",
            BLOCK_TILE_2D.def(),
            false,
            "the layouts: 8x8 elements of C per thread, 128x128 per block; column-major",
            "sixteen elements in registers serve 64 multiply-adds",
        ),
        step(
            "vectors",
            VECTORS.def(),
            false,
            "vec = 4, and columns padded by four",
            "copies of 16 bytes: a quarter of the copy instructions",
        ),
        step(
            "double buffered",
            DOUBLE_BUFFERED.def(),
            false,
            "stages = 2",
            "the next tile is copied while the current one is multiplied: the same traffic, latency is hidden; only timing shows it",
        ),
        step(
            "warp tiles",
            WARP_TILES.def(),
            false,
            "the thread layout: each warp has a compact tile, each thread 4x4 neighbouring elements",
            "shared memory is read in vectors, and a warp reads fewer rows and columns",
        ),
        step(
            "the best",
            BEST.def(),
            false,
            "128x256 per block, four stages, fragments double-buffered by k-step, swizzled threads, serpentine order",
            "more multiply-adds per load, and accumulators in registers without bank conflicts",
        ),
    ]
}

/// The performance figures of a report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Arithmetic intensity: operations per byte of global memory.
    pub intensity: f64,
    /// Sectors of a warp's accesses to global memory, summed over one access of each kind, and the minimum.
    pub sectors: (u32, u32),
    /// Wavefronts of its accesses to shared memory, and the minimum.
    pub wavefronts: (u32, u32),
}

impl Figures {
    /// The figures of a report.
    pub fn of(report: &Report) -> Figures {
        let sum = |cost: fn(&Access) -> Option<(u32, u32)>| {
            let costs = report.accesses.iter().filter_map(cost);
            costs.fold((0, 0), |(all, least), (n, fewest)| (all + n, least + fewest))
        };
        Figures {
            intensity: report.intensity.unwrap_or(0.0),
            sectors: sum(|access| access.sectors),
            wavefronts: sum(|access| access.wavefronts),
        }
    }
}
