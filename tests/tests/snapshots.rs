//! Snapshots of generated CUDA C, one for each mechanism. `cargo xtask machine-code` compares all shipped kernels
//! before and after a change.

use tilewright::kernels;
use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_tests::gallery;

/// Each mechanism of generated code, and the kernel whose fastest variant shows it.
const MECHANISMS: &[(&str, &str)] = &[
    ("one thread for each element", "naive"),
    ("tiles in shared memory, partitioned over threads", "tutorial"),
    ("alpha and beta from arguments", "scaled_tile"),
    ("transposition through a swizzled tile", "transpose"),
    ("alpha and beta in an epilogue", "matmul-bm_128-bn_128-alpha_beta_true"),
    ("batches", "matmul-batched_true-bm_64-bn_64-bk_16-tc__8_8_-schedule__vec_4_-stages_2"),
    ("a pipeline of cp.async", "matmul-stages_3-bk_16-schedule__vec_4_"),
    (
        "copies through registers that transpose",
        "matmul-schedule__staged_transposed-values__4_4_-vec_4-fragments_2_-a_k_major-b_k_major-stages_2",
    ),
    ("double-buffered fragments, a swizzled thread layout", "matmul-wide"),
    ("K split over the threads of a block", "matmul-deep"),
    ("vectors of 8 halves", "matmul-dtype_f16-schedule__vec_8_-bk_16-mma_none"),
    ("mma.sync with f64", "matmul-dtype_f64-bm_64-bn_64"),
    ("mma.sync through ldmatrix", "matmul-dtype_bf16-bm_64-bn_64"),
    ("mma.sync by hand", "mma_sync"),
    ("mma.sync of whole tiles, and an epilogue", "linear"),
    ("mma.sync in a chain", "attention"),
    ("wgmma by hand, with a ring", "wgmma_ring"),
    ("wgmma with clusters, multicast and a persistent loop", "matmul-tensor"),
    ("wgmma with a fused epilogue", "linear_hopper"),
    ("wgmma in a chain, and further tiles from a producer's", "attention_hopper"),
    ("a reduction over a block", "softmax"),
    ("a reduction over a cluster", "softmax_row-C_4-W_1024-L_128"),
    ("a reduction over the rows of a tile", "column_sums"),
    ("an online reduction of bulk copies", "softmax_streamed"),
    ("rows of a length that no vector divides", "layernorm_unaligned"),
    ("rows that stay in the memory of a cluster", "rmsnorm_long"),
    ("tuples of tiles", "piece_moments"),
    ("a scan over a block", "cumulative_sums"),
    ("a scan over a cluster", "cumulative_sums-C_4-W_512-L_128"),
    ("blocks that wait for the results of others", "sum_of_all"),
    ("a gather", "gather_rows"),
    ("atomic additions in shared memory", "histogram"),
    ("vectors whose rows do not begin at a multiple of 16 bytes", "gemv_unaligned"),
    ("out-of-bounds neighbours", "stencil_7"),
    ("a loop over all tiles of a tensor", "gravity"),
];

/// The kernels whose most general variant is shown as well: guarded accesses and offsets of 64 bits.
const GENERAL: &[&str] = &["tutorial", "softmax", "matmul-stages_3-bk_16-schedule__vec_4_"];

/// Mechanisms of `examples/pages` and `examples/models`, with one choice of their constants.
const PAGES: &[(&str, &str, &str)] = &[
    ("a transform in registers and shared memory", "fft_columns", "N=256 P=16 W=16"),
    ("the largest elements by merges", "top_k_of_short", "W=128"),
    ("steps in shared memory", "heat_2d", ""),
    ("comparisons of neighbours as bytes", "life_step", ""),
    ("boxes of images by TMA", "convolution", "BW=8 BH=8 BB=2 BN=128 STAGES=6"),
    ("patches of few channels", "convolution_of_few", "T=f16"),
    ("weights of four bits with scales and offsets", "linear_q4", "BN=64 BM=16 SPLIT=1"),
    ("keys in pages, in parts that the last block combines", "paged_attention", "G=4"),
];

#[test]
fn generated_cuda() {
    for (mechanism, name) in MECHANISMS {
        let variants = &gallery::named(name).variants;
        insta::assert_snapshot!(*name, variants[0].source, mechanism);
        if GENERAL.contains(name) {
            insta::assert_snapshot!(
                format!("{name}.any_size"),
                variants[variants.len() - 1].source,
                mechanism
            );
        }
    }
}

#[test]
fn generated_cuda_of_pages() {
    for (mechanism, name, constants) in PAGES {
        let page = kernels::named(name).unwrap_or_else(|| panic!("{name} is shipped"));
        let def = Words::specialize(&page.def, constants).unwrap_or_else(|why| panic!("{why}"));
        insta::assert_snapshot!(*name, def.source(), mechanism);
    }
}

/// The resources of every kernel's fastest variant, and its accesses that take more than the least.
#[test]
fn reports() {
    let mut table =
        vec!["kernel: threads, bytes of shared memory, alternatives, operations per byte".to_owned()];
    for (name, kernel) in gallery::all() {
        let report = &kernel.report;
        let intensity = report.intensity.map_or_else(|| "none".to_owned(), |value| format!("{value:.1}"));
        table.push(format!(
            "{name}: {}, {}, {}, {intensity}",
            report.threads,
            report.shared_bytes,
            report.alternatives.len()
        ));
        for access in &report.accesses {
            if let Some((cost, least)) =
                access.wavefronts.or(access.sectors).filter(|(cost, least)| cost > least)
            {
                let (statement, tensor, memory) = (&access.what, &access.tensor, &access.space);
                table.push(format!("    {statement} {tensor}, {memory}: {cost} where {least} would do"));
            }
        }
    }
    insta::assert_snapshot!("reports", table.join("\n"));
}

/// The hand-written kernel and the macro's kernel of the same tiles generate the same code except for names.
#[test]
fn tutorial_and_macro_have_the_same_loops() {
    let loops =
        |name: &str| gallery::named(name).source().split_once("#pragma unroll 1").map(|(_, loops)| loops);
    assert!(loops("tutorial").is_some());
    assert_eq!(loops("tutorial"), loops("matmul-bm_128-bn_128-bk_8-tc__16_16_"));
}

/// Generation is deterministic to the byte.
#[test]
fn generated_twice_alike() {
    for ((name, one), (_, two)) in gallery::all().iter().zip(gallery::generated()) {
        for (one, two) in one.variants.iter().zip(&two.variants) {
            assert_eq!(one.source, two.source, "{name}");
        }
    }
}
