//! The puzzles, in order.

use tilewright::KernelDef;

use super::check::Check;
use super::*;

/// A puzzle.
pub(crate) struct Puzzle {
    /// The name of its file.
    pub(crate) file: &'static str,
    /// The text of its file.
    pub(crate) text: &'static str,
    /// The text of its solution.
    pub(crate) solution: &'static str,
    /// The kernel of its file.
    pub(crate) kernel: fn() -> KernelDef,
    /// Runs a kernel and compares its result and its cost with the goal.
    pub(crate) check: fn(&KernelDef) -> Check,
}

macro_rules! course {
    ($($file:ident: $kernel:ident,)*) => {
        [$(Puzzle {
            file: concat!(stringify!($file), ".rs"),
            text: include_str!(concat!(stringify!($file), ".rs")),
            solution: include_str!(concat!("solutions/", stringify!($file), ".rs")),
            kernel: || $file::$kernel().def().clone(),
            check: $file::check,
        },)*]
    };
}

/// All puzzles, in order.
pub(crate) const COURSE: [Puzzle; 20] = course! {
    p01_map: affine,
    p02_strides: rows_of_columns,
    p03_broadcast: biased,
    p04_threads: copied,
    p05_vectors: by_vectors,
    p06_halo: neighbours,
    p07_transpose: transposed,
    p08_swizzle: swizzled_tile,
    p09_row_sums: row_sums,
    p10_block_sum: shares,
    p11_softmax: softmax,
    p12_scan: running_sums,
    p13_race: total,
    p14_deadlock: chained,
    p15_product: product,
    p16_pipeline: pipelined_product,
    p17_tensor_cores: by_tensor_cores,
    p18_fragment: fragments,
    p19_persistent: resident,
    p20_attention: attention,
};

impl Puzzle {
    /// The first line of the file: its number and its title.
    pub(super) fn title(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches("//! ")
    }

    pub(super) fn result(&self) -> Check {
        (self.check)(&(self.kernel)())
    }

    pub(super) fn print(&self) {
        println!("{}\nexamples/puzzles/{}", self.title(), self.file);
        match self.result() {
            Ok(()) => println!("\nsolved"),
            Err(why) => println!("\n{why}"),
        }
    }
}
