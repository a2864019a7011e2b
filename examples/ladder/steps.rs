//! Ten steps by which a matrix product becomes fast. Each differs from the last by layouts, or by one line.
//!
//! The first five are C = A·B with everything row-major, as most tutorials have it: A is (M, K), and B, which they write
//! (K, N), is (N, K) with its columns contiguous. From the sixth on it is C = A·Bᵀ column-major, the kernel of the MoYe.jl
//! tutorial and its descendants.

use tilewright::codegen::report::{Access, Report};
use tilewright::{KernelDef, prelude::*};

/// One thread for each element of C, with neighbouring threads going down a column: a warp's accesses to A and C are
/// scattered.
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

/// The same with the other thread layout: neighbours go along a row, and a warp's accesses are whole lines.
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

/// Tiles of A and B in shared memory, one element of C for each thread, any M, N and K. With `T = i32, W = 16` it is the
/// integer kernel of one tutorial, with `T = f64` and `W = TILE_WIDTH` the double-precision kernel of another.
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

/// The same for a C that is there already: its old elements are read, scaled and added.
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

/// Eight results for each thread, down a column: an element of B's tile is read once for all of them.
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

/// Sixteen by sixteen threads, each with eight rows and eight columns: the kernel of `tutorial.rs`, by its keys.
pub const BLOCK_TILE_2D: MatmulKernel<f32> =
    matmul_kernel!(bm = 128, bn = 128, bk = 8, tc = (16, 16), ta = (32, 8), tb = (32, 8), pad = 1);

/// Copies of 16 bytes: one key, and a padding that keeps columns aligned.
pub const VECTORS: MatmulKernel<f32> =
    matmul_kernel!(bm = 128, bn = 128, bk = 8, tc = (16, 16), ta = (32, 8), tb = (32, 8), pad = 4, vec = 4);

/// Two tiles of each operand: one is fetched while the other is multiplied.
pub const DOUBLE_BUFFERED: MatmulKernel<f32> = matmul_kernel!(
    bm = 128,
    bn = 128,
    bk = 8,
    tc = (16, 16),
    ta = (32, 8),
    tb = (32, 8),
    pad = 4,
    vec = 4,
    stages = 2
);

/// Another layout of the threads: each warp 8 by 4 of them, each thread 4 by 4 neighbours.
pub const WARP_TILES: MatmulKernel<f32> = matmul_kernel!(
    bm = 128,
    bn = 128,
    bk = 8,
    tc = layout!(((8, 2), (4, 4)) : ((1, 32), (8, 64))),
    values = (4, 4),
    ta = (32, 8),
    tb = (32, 8),
    pad = 4,
    vec = 4,
    stages = 2
);

/// All of it, wider, and with what only measurements tell: `kernels::WIDE`.
pub const BEST: MatmulKernel<f32> = matmul_kernel!(
    name = wide,
    arch = 90,
    bm = 128,
    bn = 256,
    bk = 8,
    tc = swizzled(2, 0, -2, layout!(((4, 2), (8, 4)) : ((1, 32), (4, 64)))),
    values = (4, 4),
    pad = 4,
    vec = 4,
    stages = 4,
    fragments = 2,
    order = row_serpentine,
    alpha_beta = true,
    overlaps = true
);

/// A step of the ladder.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its name.
    pub name: &'static str,
    /// Its kernel. It takes A, B and C; from the fourth on some take alpha and beta, too.
    pub kernel: KernelDef,
    /// Are its matrices row-major?
    pub row_major: bool,
    /// In which it differs from the last.
    pub change: &'static str,
    /// What that is good for.
    pub why: &'static str,
}

/// All ten.
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
            "one thread for each element of C, neighbours down a column",
            "a warp reads 32 rows of A at once: 32 sectors for 32 words",
        ),
        step(
            "coalesced",
            coalesced().def(),
            true,
            "the layout of the threads: neighbours along a row",
            "a warp's accesses are whole lines: as few sectors as can be",
        ),
        step(
            "shared tile",
            shared_tile().def(),
            true,
            "tiles in shared memory, and barriers around them",
            "an element is fetched once for a block, not once for a thread: operations per byte",
        ),
        step(
            "alpha and beta",
            scaled_tile().def(),
            true,
            "the last line: C = alpha·A·B + beta·C",
            "nothing is gained, and little lost: C is read once, after the loop",
        ),
        step(
            "1-D block tile",
            block_tile_1d().def(),
            true,
            "the layouts: eight results for each thread, down a column",
            "an element of B in a register serves eight products: fewer loads for each",
        ),
        step(
            "2-D block tile",
            BLOCK_TILE_2D.def(),
            false,
            "the layouts: eight rows by eight columns for each thread, 128 by 128 for a block; column-major",
            "sixteen elements in registers serve 64 products",
        ),
        step(
            "vectors",
            VECTORS.def(),
            false,
            "vec = 4, and columns padded by four",
            "copies of 16 bytes: a quarter of their instructions",
        ),
        step(
            "double buffered",
            DOUBLE_BUFFERED.def(),
            false,
            "stages = 2",
            "the next tile is on its way while one is multiplied: as much is moved, and less is waited for, which only a clock shows",
        ),
        step(
            "warp tiles",
            WARP_TILES.def(),
            false,
            "the layout of the threads: a warp has a compact tile, a thread four by four neighbours",
            "shared memory is read in vectors, and a warp needs fewer rows and columns of it",
        ),
        step(
            "the best",
            BEST.def(),
            false,
            "128 by 256 for a block, four stages, fragments a column ahead, a swizzle of the threads, a serpentine order",
            "more products for each load, and sums in registers where multiply-adds read them without a stall",
        ),
    ]
}

/// What a report says of speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Operations for each byte of global memory.
    pub intensity: f64,
    /// Sectors of one warp's accesses to global memory, one of each kind, and the fewest that they could take.
    pub sectors: (u32, u32),
    /// Wavefronts of its accesses to shared memory, and the fewest.
    pub wavefronts: (u32, u32),
}

impl Figures {
    /// Those of a report.
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
