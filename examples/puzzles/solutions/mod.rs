//! The solutions, in the order of the puzzles. Tests run them; `cargo run --example puzzles -- solution 7` prints one.

mod p01_map;
mod p02_strides;
mod p03_broadcast;
mod p04_threads;
mod p05_vectors;
mod p06_halo;
mod p07_transpose;
mod p08_swizzle;
mod p09_row_sums;
mod p10_block_sum;
mod p11_softmax;
mod p12_scan;
mod p13_race;
mod p14_deadlock;
mod p15_product;
mod p16_pipeline;
mod p17_tensor_cores;
mod p18_fragment;
mod p19_persistent;
mod p20_attention;

use tilewright::KernelDef;

/// The kernels of all solutions.
pub(crate) fn solutions() -> [KernelDef; 20] {
    [
        p01_map::affine().def().clone(),
        p02_strides::rows_of_columns().def().clone(),
        p03_broadcast::biased().def().clone(),
        p04_threads::copied().def().clone(),
        p05_vectors::by_vectors().def().clone(),
        p06_halo::neighbours().def().clone(),
        p07_transpose::transposed().def().clone(),
        p08_swizzle::swizzled_tile().def().clone(),
        p09_row_sums::row_sums().def().clone(),
        p10_block_sum::shares().def().clone(),
        p11_softmax::softmax().def().clone(),
        p12_scan::running_sums().def().clone(),
        p13_race::total().def().clone(),
        p14_deadlock::chained().def().clone(),
        p15_product::product().def().clone(),
        p16_pipeline::pipelined_product().def().clone(),
        p17_tensor_cores::by_tensor_cores().def().clone(),
        p18_fragment::fragments().def().clone(),
        p19_persistent::resident().def().clone(),
        p20_attention::attention().def().clone(),
    ]
}
