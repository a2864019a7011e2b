//! The kernels of `examples/`, as a library: the command runs them, tests review them and benchmarks measure
//! them.
//!
//! ```
//! let softmax = tilewright::kernels::named("softmax").unwrap();
//! assert!(softmax.def.source().contains("__global__"));
//! ```

use crate::{KernelDef, MatmulKernel, matmul_kernel};

/// Shipped kernels: their modules, their functions, whose names they have, and what they do.
macro_rules! shipped {
    ($($module:ident::$kernel:ident: $about:literal,)*) => {
        vec![$($crate::kernels::Shipped {
            name: stringify!($kernel),
            about: $about,
            def: $module::$kernel().def().clone(),
        },)*]
    };
}

#[allow(dead_code)]
#[path = "../examples/attention.rs"]
pub mod attention;
#[allow(dead_code)]
#[path = "../examples/attention_hopper.rs"]
pub mod attention_hopper;
#[allow(dead_code)]
#[path = "../examples/ladder/steps.rs"]
pub mod ladder;
#[allow(dead_code)]
#[path = "../examples/linear.rs"]
pub mod linear;
#[allow(dead_code)]
#[path = "../examples/linear_hopper.rs"]
pub mod linear_hopper;
pub mod memory;
pub mod models;
pub mod pages;
#[allow(dead_code)]
#[path = "../examples/softmax.rs"]
pub mod softmax;
#[allow(dead_code)]
#[path = "../examples/tutorial.rs"]
pub mod tutorial;

/// A product of `matmul_kernel!` with every key at its default.
pub const MATMUL: MatmulKernel<f32> = matmul_kernel!();

/// Keys of `matmul_kernel!` whose generated kernels are tested: each key by itself, and fast combinations.
pub const PRODUCTS: &[&str] = &[
    PLAIN,
    "bk=16 schedule=(vec=4)",
    "bm=64 bn=64 bk=16 tc=(8,8)",
    "bm=128 bn=128 a=k_major b=k_major c=n_major",
    "a=k_major b=n_major c=n_major schedule=(vec=4) bk=16",
    "stages=3 bk=16 schedule=(vec=4)",
    "schedule=(values=(4,4) fragments=2 vec=4) stages=3 bk=16",
    "schedule=(order=serpentine vec=4)",
    WIDE,
    DEEP,
    DOUBLE,
    BATCH,
    SMALL_BATCH,
    TENSOR,
    "name=tensor_small dtype=f16 arch=90 a=k_major b=k_major c=n_major bm=64 bn=128 alpha_beta=true",
    "schedule=(staged=both values=(4,4) vec=4 fragments=2) a=k_major stages=2",
    "schedule=(staged=transposed values=(4,4) vec=4 fragments=2) a=k_major b=k_major stages=2",
    "bm=128 bn=128 alpha_beta=true",
    "batched=true bm=64 bn=64 bk=16 tc=(8,8) schedule=(vec=4) stages=2",
    "dtype=f64 bm=64 bn=64",
    "dtype=i32 bm=64 bn=64",
    "dtype=f16 schedule=(vec=8) bk=16 mma=none",
    "dtype=bf16 bm=64 bn=64",
    "dtype=i8 bm=64 bn=64 mma=none",
];

/// Only a tile of 128×128 and 256 threads: a kernel to read.
pub const PLAIN: &str = "bm=128 bn=128 bk=8 tc=(16,16)";

/// The fastest for large matrices: 8 warps compute a 128×256 tile, 16×8 results for each thread. Neighbouring lanes
/// that read the same words at once stall their multiply-adds; the swizzle of the thread layout avoids that.
pub const WIDE: &str = "name=wide arch=90 bm=128 bn=256 bk=8 tc=swizzled(2,0,-2,((4,2),(8,4)):((1,32),(4,64))) schedule=(values=(4,4) vec=4 pad=4 fragments=2 order=row_serpentine) stages=4 \
    alpha_beta=true overlaps=true";

/// [`WIDE`], with both operands copied through registers, so that K-contiguous operands are transposed on the
/// way.
pub const STAGED: &str = "name=staged arch=90 schedule=(staged=both values=(4,4) vec=4 fragments=2 order=row_serpentine) bm=128 bn=256 bk=8 tc=swizzled(2,0,-2,((4,2),(8,4)):((1,32),(4,64))) \
    stages=2 alpha_beta=true overlaps=true";

/// [`STAGED`] with a 256×128 tile.
pub const TURNED: &str = "name=turned arch=90 schedule=(staged=both values=(4,4) vec=4 fragments=2 order=row_serpentine) bm=256 bn=128 bk=8 tc=swizzled(2,0,-2,((4,4),(8,2)):((1,32),(4,128))) \
    stages=2 alpha_beta=true overlaps=true";

/// Half the threads with half the tile: for sizes that would leave larger tiles partly empty.
pub const SQUARE: &str = "name=square arch=90 schedule=(staged=both values=(4,4) vec=4 fragments=2 order=row_serpentine) bm=128 bn=128 bk=8 tc=swizzled(2,0,-2,((4,2),(8,2)):((1,32),(4,64))) \
    stages=2 alpha_beta=true overlaps=true";

/// For few tiles: split-K within the block, over four groups of threads.
pub const DEEP: &str = "name=deep arch=90 schedule=(staged=both values=(4,4) vec=4 fragments=2 order=row_serpentine) bm=128 bn=64 bk=32 tc=swizzled(2,0,-2,((4,2),8,4):((1,32),4,64)) \
    stages=2 alpha_beta=true overlaps=true";

/// For even fewer tiles: half the tile, and split-K over eight groups of threads, one warp each.
pub const FEW: &str = "name=few arch=90 schedule=(staged=both values=(4,4) vec=4 fragments=2 order=row_serpentine) bm=64 bn=32 bk=64 tc=swizzled(2,0,-2,((4,2),4,8):((1,16),4,32)) \
    stages=2 alpha_beta=true overlaps=true";

/// [`FEW`] with a 32×32 tile, for the fewest tiles.
pub const FEWEST: &str = "name=fewest arch=90 schedule=(staged=both values=(4,4) vec=4 fragments=2 order=row_serpentine) bm=32 bn=32 bk=64 tc=swizzled(2,0,-2,((4,2),4,8):((1,16),4,32)) \
    stages=2 alpha_beta=true overlaps=true";

/// The fastest for f64: lanes are arranged so that each 16-byte operand load is broadcast to two lanes.
pub const DOUBLE: &str = "name=double arch=90 dtype=f64 bm=128 bn=128 bk=16 tc=((2,2,2,2),(2,2,2,2)):((1,4,32,64),(2,8,16,128)) schedule=(values=(2,2) vec=2 fragments=2 order=row_serpentine) \
    stages=3 alpha_beta=true mma=none";

/// For batches of products of about 128: split-K within the block, over two groups of threads.
pub const BATCH: &str = "name=batch batched=true bm=64 bn=64 bk=32 tc=swizzled(2,0,-2,((4,2),8,2):((1,32),4,64)) schedule=(values=(4,4) vec=4 fragments=2 exits=false order=row_serpentine) stages=2";

/// For batches of products of about 64: one warp computes a 64×32 tile.
pub const SMALL_BATCH: &str = "name=small_batch batched=true bm=64 bn=32 bk=8 tc=swizzled(2,0,-3,(8,4):(1,8)) schedule=(values=(4,4) vec=4 fragments=2 exits=false order=row_serpentine) stages=4";

/// On Hopper's tensor cores: a persistent kernel, clusters of two blocks, a producer warp that fills a ring
/// by bulk copies, and two consumer warpgroups that multiply with wgmma.
pub const TENSOR: &str = "name=tensor dtype=bf16 arch=90 a=k_major b=k_major";

/// The f32 products that benchmarks compare with a library's: which one is the fastest depends on sizes and
/// layouts.
pub const FASTEST: &[&str] = &[WIDE, STAGED, TURNED, SQUARE, DEEP, FEW, FEWEST, PLAIN];

/// A shipped kernel.
#[derive(Clone, Debug)]
pub struct Shipped {
    /// Its name in lists and on the command line.
    pub name: &'static str,
    /// Its function, in one line.
    pub about: &'static str,
    /// The kernel, with its constants at their defaults.
    pub def: KernelDef,
}

/// All shipped kernels except for the [`pages`] and the [`models`].
pub fn all() -> Vec<Shipped> {
    use memory::{
        bodies, dense_rows, gather, long_rows, long_sums, pieces, products, rows, scans, stencils,
        streamed_rows, sums, transpose, unaligned_rows,
    };
    let shipped = |name, about, def: &KernelDef| Shipped { name, about, def: def.clone() };
    let mut kernels =
        vec![shipped("tutorial", "C = A·Bᵀ, as the MoYe.jl tutorial has it", tutorial::matmul_nt().def())];
    kernels.extend(shipped! {
        ladder::naive: "C = A·B, one thread for each element, uncoalesced accesses",
        ladder::coalesced: "C = A·B, coalesced accesses",
        ladder::shared_tile: "C = A·B, tiles in shared memory",
        ladder::scaled_tile: "C = αA·B + βC, tiles in shared memory",
        ladder::block_tile_1d: "C = αA·B + βC, eight results for each thread",
        softmax::softmax: "softmax of each row",
        linear::linear: "C = gelu(A·Wᵀ + bias) on tensor cores, from whole tiles",
        linear_hopper::linear_hopper: "C = gelu(A·Wᵀ + bias) by wgmma, from whole tiles",
        attention::attention: "softmax(Q·Kᵀ)·V, causal, from whole tiles",
        attention_hopper::attention_hopper: "softmax(Q·Kᵀ)·V, causal, by wgmma",
        transpose::transpose: "a matrix transposed",
        rows::softmax_row: "softmax of each row, a block per row",
        rows::softmax_rows: "softmax of each row, a warp per row",
        rows::layernorm_row: "layer norm of each row, a block per row",
        rows::layernorm_rows: "layer norm of each row, a warp per row",
        rows::rmsnorm_row: "RMS norm of each row, a block per row",
        rows::rmsnorm_rows: "RMS norm of each row, a warp per row",
        dense_rows::softmax_dense: "softmax of each short row of a matrix without gaps",
        dense_rows::layernorm_dense: "layer norm of each short row of a matrix without gaps",
        dense_rows::rmsnorm_dense: "RMS norm of each short row of a matrix without gaps",
        dense_rows::gemv_dense: "y = A·x for short rows of a matrix without gaps",
        long_rows::softmax_long: "softmax of each row, a cluster for several rows, one after another",
        long_rows::layernorm_long: "layer norm of each row, a cluster for several rows, one after another",
        long_rows::rmsnorm_long: "RMS norm of each row, a cluster for several rows, one after another",
        streamed_rows::softmax_streamed: "softmax of each row, read twice by a cluster",
        streamed_rows::layernorm_streamed: "layer norm of each row, read twice by a cluster",
        streamed_rows::rmsnorm_streamed: "RMS norm of each row, read twice by a cluster",
        unaligned_rows::softmax_unaligned: "softmax of each row, rows that are not aligned to vectors",
        unaligned_rows::layernorm_unaligned: "layer norm of each row, rows that are not aligned to vectors",
        unaligned_rows::rmsnorm_unaligned: "RMS norm of each row, rows that are not aligned to vectors",
        unaligned_rows::cumulative_sums_vectors:
            "cumulative sums along rows that are not aligned to vectors, by vectors",
        sums::row_sums: "sums of rows, by blocks",
        sums::row_sums_short: "sums of rows, by warps",
        long_sums::piece_products: "products of pieces of rows with a vector",
        long_sums::sums_of_pieces: "sums of rows, from the sums of their pieces",
        sums::sum_of_all: "the sum of all elements, in one launch",
        sums::column_sums: "sums of pieces of columns",
        scans::cumulative_sums: "cumulative sums along rows",
        scans::piece_sums: "sums of pieces of rows",
        scans::cumulative_sums_of_pieces: "cumulative sums along rows, from the sums of their pieces",
        pieces::piece_moments: "sums of pieces of rows, and of squares",
        pieces::layernorm_of_pieces: "layer norm of each row, from the sums of its pieces",
        pieces::rmsnorm_of_pieces: "RMS norm of each row, from the sums of its pieces",
        pieces::piece_maxima: "maxima of pieces of rows, and sums of powers",
        pieces::softmax_of_pieces: "softmax of each row, from the maxima and sums of its pieces",
        dense_rows::cumulative_sums_dense: "cumulative sums along short rows of a matrix without gaps",
        scans::cumulative_sums_unaligned: "cumulative sums along rows that are not aligned to vectors",
        gather::gather_rows: "rows of a table by their indices",
        gather::gather_unaligned: "rows of a table by their indices, rows that are not aligned to vectors",
        gather::histogram: "counts of values",
        stencils::stencil_5: "five-point stencil of a matrix",
        stencils::stencil_7: "seven-point stencil in three dimensions",
        products::gemv: "y = A·x",
        products::gemv_short: "y = A·x for short rows, several to a warp",
        products::gemv_unaligned: "matrix times vector, rows that are not aligned to vectors",
        bodies::gravity: "attraction among bodies, all pairs",
    });
    let matmul = "C = A·Bᵀ, the product family; takes the keys of `matmul_kernel!`";
    kernels.push(shipped("matmul", matmul, MATMUL.def()));
    kernels
}

/// The shipped kernel of this name.
pub fn named(name: &str) -> Option<Shipped> {
    all().into_iter().chain(pages::all()).chain(models::all()).find(|kernel| kernel.name == name)
}
