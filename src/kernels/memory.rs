//! Memory-bound kernels: transposes, row normalisations, sums, cumulative sums, matrix-vector products, gathered rows,
//! histograms, stencils; and which of them, with which constants, suits a size.
//!
//! ```
//! use tilewright::kernels::memory::{Work, choose};
//! use tilewright::Elem;
//! let choice = choose(Work::Softmax, Elem::F32, 65536, 128);
//! assert_eq!(choice.to_string(), "softmax_rows T=f32 W=128 R=2 V=4");
//! assert!(choice.def()?.source().contains("__shfl_xor_sync"));
//! # Ok::<(), tilewright::KernelErrors>(())
//! ```

use std::fmt;

use crate::{Elem, KernelDef, KernelErrors};

#[allow(dead_code)]
#[path = "../../examples/memory/bodies.rs"]
pub mod bodies;
#[allow(dead_code)]
#[path = "../../examples/memory/gather.rs"]
pub mod gather;
#[allow(dead_code)]
#[path = "../../examples/memory/products.rs"]
pub mod products;
#[allow(dead_code)]
#[path = "../../examples/memory/rows.rs"]
pub mod rows;
#[allow(dead_code)]
#[path = "../../examples/memory/scans.rs"]
pub mod scans;
#[allow(dead_code)]
#[path = "../../examples/memory/stencils.rs"]
pub mod stencils;
#[allow(dead_code)]
#[path = "../../examples/memory/sums.rs"]
pub mod sums;
#[allow(dead_code)]
#[path = "../../examples/memory/transpose.rs"]
pub mod transpose;

/// The operation on a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Its transpose.
    Transpose,
    /// The softmax of each row.
    Softmax,
    /// Rows less their mean, divided by their standard deviation, scaled and shifted.
    Layernorm,
    /// Rows divided by the root of their mean square, scaled.
    Rmsnorm,
    /// The sum of each row.
    RowSums,
    /// Partial sums of each column.
    ColumnSums,
    /// Cumulative sums along rows.
    CumulativeSums,
    /// The same, each without its own element.
    SumsBefore,
    /// Cumulative sums along rows, each row from a start.
    CumulativeSumsFrom,
    /// Its product with a vector.
    Gemv,
    /// Gravity between as many bodies as it has columns.
    Gravity,
    /// As many rows of a table, each by its index.
    Gather,
    /// Counts of its numbers.
    Histogram,
    /// Each element from its four neighbours.
    Stencil5,
    /// The same of six neighbours, in three dimensions.
    Stencil7,
}

impl Work {
    /// Has its kernel only one element type?
    pub fn has_one_type(self) -> bool {
        matches!(self, Work::Gravity | Work::Histogram | Work::Stencil5 | Work::Stencil7)
    }
}

/// A shipped kernel and its constants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The kernel's name.
    pub kernel: &'static str,
    /// Its element type; `None` where it has only one.
    pub elem: Option<Elem>,
    /// Its constants.
    pub constants: Vec<(&'static str, usize)>,
}

impl Choice {
    /// The kernel with these constants.
    pub fn def(&self) -> Result<KernelDef, KernelErrors> {
        let shipped =
            super::named(self.kernel).unwrap_or_else(|| unreachable!("`choose` names shipped kernels"));
        let types: Vec<(&str, Elem)> = self.elem.iter().map(|elem| ("T", *elem)).collect();
        shipped.def.specialize(&self.constants, &types)
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kernel)?;
        self.elem.iter().try_for_each(|elem| write!(f, " T={elem}"))?;
        self.constants.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

/// Bytes of the widest access.
const WIDEST: usize = 16;
/// Elements of a row for each thread, where the row is long enough.
const OWN: usize = 16;
/// The longest row that one warp reads, in elements for each lane.
const SHORT: usize = 16;

/// The longest part of a row that one block keeps in registers; clusters share longer rows.
const PART: usize = 16384;
/// Most blocks of a cluster.
const BLOCKS: usize = 16;
/// Rows that are too few for a block each to occupy the device.
const FEW: usize = 1024;

/// The kernel for a matrix of this size, rows contiguous.
pub fn choose(work: Work, elem: Elem, rows: usize, columns: usize) -> Choice {
    let own = |kernel, constants: &[(&'static str, usize)]| Choice {
        kernel,
        elem: (!work.has_one_type()).then_some(elem),
        constants: constants.to_vec(),
    };
    // Elements of one access: vectors need rows that are aligned to them.
    let most = WIDEST / elem.bytes() as usize;
    let wide = if columns.is_multiple_of(most) { most } else { 1 };
    let in_rows = |long, short, threads: usize| {
        if columns <= 32 * SHORT {
            // A warp reads a row with the widest vectors that it allows.
            let value = wide.min((columns / 32).next_power_of_two()).max(1);
            let width = columns.next_multiple_of(32 * value);
            return own(short, &[("W", width), ("R", (OWN * 16 / width).max(1)), ("V", value)]);
        }
        let blocks = columns.div_ceil(PART).next_power_of_two().min(BLOCKS);
        if blocks > 1 {
            // Two resident blocks of 512 threads: one loads while the other waits for its cluster.
            let width = columns.div_ceil(blocks).next_multiple_of(512 * wide);
            return own(long, &[("W", width), ("L", 512), ("V", wide), ("C", blocks), ("Q", 2)]);
        }
        own(long, &[("W", columns.next_multiple_of(threads * wide)), ("L", threads), ("V", wide)])
    };
    // Threads of a block that keeps a row in registers, with about this many elements for each.
    let keeping = |elements: usize| columns.div_ceil(elements).next_multiple_of(128).clamp(128, 1024);
    let kept = keeping(if wide == 1 { 33 } else { OWN });
    // Elements of a row that 128 threads read at once, at least two each.
    let at_once = |most: usize| columns.next_multiple_of(128 * wide).clamp(256 * wide, 128 * wide * most);
    match work {
        Work::Transpose => {
            // Reads are coalesced along rows of the matrix, writes along its columns.
            let side = |extent: usize| if extent.is_multiple_of(most) { (most, 8) } else { (1, 32) };
            let ((v, c), (u, d)) = (side(columns), side(rows));
            let pad = 4 / elem.bytes() as usize;
            let tile = if v * u > 1 && v == u { 256 / elem.bytes() as usize } else { 64 };
            own("transpose", &[("V", v), ("C", c), ("U", u), ("D", d), ("B", tile), ("P", pad)])
        }
        Work::Softmax => in_rows("softmax_row", "softmax_rows", kept),
        Work::Layernorm if wide == 1 => in_rows("layernorm_row", "layernorm_rows", keeping(17)),
        Work::Layernorm => {
            let mut choice = in_rows("layernorm_row", "layernorm_rows", kept);
            if choice.kernel == "layernorm_row" && elem.bytes() < 4 && columns <= PART {
                // Converted 16-bit weights take 32-bit registers: without a register bound fewer blocks would
                // be resident.
                choice.constants.push(("Q", (1536 / kept).max(1)));
            }
            choice
        }
        Work::Rmsnorm => in_rows("rmsnorm_row", "rmsnorm_rows", kept),
        Work::RowSums if columns <= 32 * SHORT => in_rows("row_sums", "row_sums_short", 0),
        Work::RowSums => {
            own("row_sums", &[("W", at_once(if wide == 1 { 33 } else { 8 })), ("L", 128), ("V", wide)])
        }
        Work::CumulativeSums | Work::SumsBefore if columns <= 32 * SHORT => {
            let exclusive = usize::from(work == Work::SumsBefore);
            let width = columns.next_multiple_of(32);
            let rows = (256 * OWN / 2 / width).max(1);
            own("cumulative_sums", &[("R", rows), ("W", width), ("L", 256), ("E", exclusive)])
        }
        Work::CumulativeSums | Work::SumsBefore if rows < FEW && columns > PART => {
            // A cluster scans a row: each of its blocks a tile at a time.
            let exclusive = usize::from(work == Work::SumsBefore);
            // Three resident blocks of 16 elements for each thread; of narrow elements two of 32.
            let (each, resident) = if elem.bytes() < 4 { (2 * OWN, 2) } else { (OWN, 3) };
            let width = columns.div_ceil(BLOCKS).next_multiple_of(512 * wide).min(512 * each);
            let constants = [("W", width), ("L", 512), ("E", exclusive), ("C", BLOCKS), ("Q", resident)];
            own("cumulative_sums", &constants)
        }
        Work::CumulativeSums if wide == 1 && columns > 32 * SHORT => own("cumulative_sums_unaligned", &[]),
        Work::CumulativeSums | Work::SumsBefore | Work::CumulativeSumsFrom => {
            // A block scans a tile of its row at a time.
            let threads = columns.div_ceil(OWN).next_multiple_of(128).min(512);
            let width = columns.next_multiple_of(threads * wide).min(threads * OWN);
            // Other blocks load while one waits at its barriers; without a register bound one would be resident.
            let constants = [("W", width), ("L", threads), ("Q", 1536 / threads)];
            let mut choice = own("cumulative_sums_from", &constants);
            if work != Work::CumulativeSumsFrom {
                choice.kernel = "cumulative_sums";
                choice.constants.push(("E", usize::from(work == Work::SumsBefore)));
            }
            choice
        }
        Work::ColumnSums => {
            // Few rows need many warps; few columns need long tiles.
            let (tile, warps) = match (rows < FEW, columns < 4096) {
                (true, true) => (256, 32),
                (false, true) => (128, 8),
                _ => (64, 8),
            };
            let value = match (rows < FEW, columns < 4096) {
                // Partial sums: short rows would leave most multiprocessors without work.
                (true, true) => 1,
                (false, true) => wide.min(4),
                _ => wide,
            };
            own("column_sums", &[("B", tile), ("Y", warps), ("V", value)])
        }
        Work::Gemv => own("gemv", &[("W", at_once(4)), ("L", 128), ("V", wide)]),
        Work::Gravity => own("gravity", &[]),
        Work::Gather => {
            // Two rows for each block, one access of each by a thread; short rows take fewer threads.
            let threads = if columns > 128 * wide { 256 } else { 128 };
            own("gather_rows", &[("R", 512 / threads), ("W", threads * wide), ("L", threads), ("V", wide)])
        }
        Work::Histogram => own("histogram", &[]),
        Work::Stencil5 => own("stencil_5", &[]),
        Work::Stencil7 => own("stencil_7", &[]),
    }
}
