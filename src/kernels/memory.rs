//! Memory-bound kernels: transposes, row normalisations, sums, cumulative sums, matrix-vector products, gathered rows,
//! histograms, stencils; and the choice of a kernel and its constants for a size.
//!
//! ```
//! use tilewright::kernels::memory::{Work, choose};
//! use tilewright::Elem;
//! let choice = choose(Work::Softmax, Elem::F32, 65536, 128);
//! assert_eq!(choice.to_string(), "softmax_rows T=f32 W=128 R=4 V=4 G=32");
//! assert!(choice.def()?.source().contains("__shfl_xor_sync"));
//! # Ok::<(), tilewright::KernelErrors>(())
//! ```

use std::fmt;

use crate::{Elem, KernelDef, KernelErrors};

pub use few_rows::{InPieces, in_pieces};

mod columns;
mod cumulative;
mod few_rows;
mod norms;
mod transposes;

#[allow(dead_code)]
#[path = "../../examples/memory/bodies.rs"]
pub mod bodies;
#[allow(dead_code)]
#[path = "../../examples/memory/dense_rows.rs"]
pub mod dense_rows;
#[allow(dead_code)]
#[path = "../../examples/memory/gather.rs"]
pub mod gather;
#[allow(dead_code)]
#[path = "../../examples/memory/long_rows.rs"]
pub mod long_rows;
#[allow(dead_code)]
#[path = "../../examples/memory/long_sums.rs"]
pub mod long_sums;
#[allow(dead_code)]
#[path = "../../examples/memory/pieces.rs"]
pub mod pieces;
#[allow(dead_code)]
#[path = "../../examples/memory/products.rs"]
pub mod products;
#[allow(dead_code)]
#[path = "../../examples/memory/reductions.rs"]
mod reductions;
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
#[path = "../../examples/memory/streamed_rows.rs"]
pub mod streamed_rows;
#[allow(dead_code)]
#[path = "../../examples/memory/sums.rs"]
pub mod sums;
#[allow(dead_code)]
#[path = "../../examples/memory/transpose.rs"]
pub mod transpose;
#[allow(dead_code)]
#[path = "../../examples/memory/unaligned_rows.rs"]
pub mod unaligned_rows;

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
    /// The sum of all elements.
    Sum,
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
    /// Its element type; `None` if it has only one.
    pub elem: Option<Elem>,
    /// Its constants.
    pub constants: Vec<(&'static str, usize)>,
    /// Are its matrices vectors of all their elements, without gaps between rows?
    pub is_dense: bool,
}

impl Choice {
    fn strided(kernel: &'static str, elem: Option<Elem>, constants: Vec<(&'static str, usize)>) -> Choice {
        Choice { kernel, elem, constants, is_dense: false }
    }

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

/// The longest row that one block keeps in registers.
const PART: usize = 16384;
/// The longest part of a row that begins between vectors, of several blocks.
const BETWEEN: usize = 9216;
/// Multiprocessors of an H100.
const PROCESSORS: usize = 132;
/// Most blocks of a cluster.
const BLOCKS: usize = 16;
/// The number of clusters of 1 to 16 blocks that an H100 executes at once, where a multiprocessor has room for 1 to 8 of their blocks: its
/// groups of multiprocessors differ in size. By `cudaOccupancyMaxActiveClusters`.
#[rustfmt::skip]
const CLUSTERS: [[usize; BLOCKS]; 8] = [
    [132, 66, 39, 30, 22, 17, 15, 15, 9, 7, 7, 7, 7, 7, 7, 7],
    [264, 132, 79, 62, 47, 39, 32, 30, 23, 21, 16, 16, 14, 14, 14, 14],
    [396, 198, 124, 92, 69, 62, 47, 45, 37, 30, 28, 28, 23, 21, 21, 21],
    [528, 264, 163, 124, 94, 79, 69, 62, 51, 44, 37, 37, 30, 30, 28, 28],
    [660, 330, 203, 154, 124, 101, 84, 77, 60, 58, 51, 44, 42, 37, 37, 35],
    [792, 396, 248, 186, 146, 124, 101, 92, 74, 65, 58, 58, 51, 44, 44, 42],
    [924, 462, 287, 216, 171, 141, 124, 107, 88, 79, 72, 65, 58, 58, 51, 49],
    [1056, 528, 327, 248, 193, 163, 139, 124, 102, 88, 81, 74, 67, 65, 58, 58],
];
/// The longest row of a matrix without gaps for which lanes read shared memory.
const DENSE: usize = 256;
/// Bytes of shared memory of a multiprocessor.
const SHARED: usize = 227 * 1024;
/// Blocks that keep the memory busy.
const BUSY: usize = 512;

/// The longest power of two that divides a number, up to a limit.
fn dividing(number: usize, most: usize) -> usize {
    (1 << number.trailing_zeros()).min(most)
}

/// The number of clusters of `blocks` blocks that an H100 executes at once, with `resident` blocks on a multiprocessor.
fn clusters_at_once(blocks: usize, resident: usize) -> usize {
    resident.min(8).checked_sub(1).map_or(0, |more| CLUSTERS[more][blocks - 1])
}

/// The widest of these tiles that a mode fills but for a part in 25; else the narrowest.
fn filled(extent: usize, tiles: &[usize]) -> usize {
    let fills = |tile: &&usize| 25 * extent.next_multiple_of(**tile) <= 26 * extent;
    *tiles.iter().find(fills).unwrap_or(&tiles[tiles.len() - 1])
}

/// How many partial sums each column has before a second launch sums these: one where columns occupy the device, or rows are few.
pub fn pieces(elem: Elem, rows: usize, columns: usize) -> usize {
    Matrix::new(Work::ColumnSums, elem, rows, columns).pieces().1
}

/// How many words [`Work::Sum`] has between its blocks.
pub fn parts(elem: Elem, count: usize) -> usize {
    Matrix::new(Work::Sum, elem, 1, count).sum_blocks().1
}

/// The kernel for a matrix of this size, rows contiguous. Input and output are equally far apart from row to row.
pub fn choose(work: Work, elem: Elem, rows: usize, columns: usize) -> Choice {
    let matrix = Matrix::new(work, elem, rows, columns);
    let Matrix { rows, columns, wide, .. } = matrix;
    let own = |kernel, constants: &[(&'static str, usize)]| matrix.own(kernel, constants);
    match work {
        Work::Transpose => transposes::choose(elem, rows, columns),
        Work::Softmax | Work::Layernorm | Work::Rmsnorm => matrix.norms(),
        Work::CumulativeSums | Work::SumsBefore => matrix.scans(),
        Work::Sum => matrix.sum(),
        Work::RowSums if columns <= matrix.longest_by_lanes() => matrix.by_lanes("row_sums_short"),
        // Vectors begin before the row where it begins between them.
        Work::RowSums => {
            matrix.by_blocks("row_sums", WIDEST / elem.bytes() as usize, if rows < BUSY { 4 } else { 8 })
        }
        Work::ColumnSums => matrix.column_sums(),
        Work::Gemv if matrix.is_dense() && columns <= DENSE => matrix.dense("gemv_dense"),
        Work::Gemv if columns <= matrix.longest_by_lanes() => matrix.by_lanes("gemv_short"),
        Work::Gemv if columns > PART && wide < WIDEST / elem.bytes() as usize => matrix.gemv(),
        // Equal tiles of up to 2688 single elements of two bytes.
        Work::Gemv if wide == 1 && elem.bytes() < 4 && rows * BLOCKS >= 2 * PROCESSORS => {
            let vectors = columns.div_ceil(columns.div_ceil(128 * 21) * 128);
            matrix.by_blocks("gemv", 1, vectors)
        }
        Work::Gemv => matrix.by_blocks("gemv", wide, if wide == 1 { 17 } else { 4 }),
        Work::Gravity => own("gravity", &[]),
        Work::Gather if wide < WIDEST / elem.bytes() as usize && columns > 256 => {
            // Up to two vectors for each thread.
            let value = WIDEST / elem.bytes() as usize;
            let vectors = (columns + value - 1).div_ceil(value);
            let threads = vectors.div_ceil(vectors.div_ceil(768)).div_ceil(2).next_multiple_of(32);
            let constants = [("W", 2 * threads * value), ("L", threads), ("V", value)];
            own("gather_unaligned", &constants)
        }
        Work::Gather => {
            // Threads have up to eight accesses of a row each; short rows take fewer threads, and more rows.
            let accesses = columns.div_ceil(wide);
            let (least, most, all) = if wide == 1 { (3, 4, 2048) } else { (1, 8, 512) };
            let each = accesses.div_ceil(256).clamp(least, 8);
            let threads = accesses.div_ceil(each).next_multiple_of(32).min(256);
            let rows = (all / threads / each).clamp(1, most);
            own("gather_rows", &[("R", rows), ("W", each * threads * wide), ("L", threads), ("V", wide)])
        }
        Work::Histogram => own("histogram", &[("P", (rows * columns).div_ceil(4096).clamp(1, 1056))]),
        Work::Stencil5 => {
            let lanes = filled(columns, &[256, 128, 64, 32]);
            own("stencil_5", &[("S", 256 / lanes), ("L", lanes)])
        }
        Work::Stencil7 => own("stencil_7", &[]),
    }
}

/// A work on a matrix, with the number of elements of its accesses.
struct Matrix {
    work: Work,
    elem: Elem,
    rows: usize,
    columns: usize,
    wide: usize,
}

impl Matrix {
    fn new(work: Work, elem: Elem, rows: usize, columns: usize) -> Matrix {
        let (rows, columns) = (rows.max(1), columns.max(1));
        // Vectors need rows that are aligned to them.
        let wide = dividing(columns, WIDEST / elem.bytes() as usize);
        Matrix { work, elem, rows, columns, wide }
    }

    fn own(&self, kernel: &'static str, constants: &[(&'static str, usize)]) -> Choice {
        let elem = (!self.work.has_one_type()).then_some(self.elem);
        Choice::strided(kernel, elem, constants.to_vec())
    }

    /// The longest row that the lanes of a warp sum: of two bytes an element, a block has too few vectors of more. Products load as
    /// many elements again.
    fn longest_by_lanes(&self) -> usize {
        match (self.elem.bytes() < 4 && self.rows >= 4096, self.work == Work::Gemv && self.wide == 1) {
            (true, false) => 80 * SHORT,
            (true, true) => 48 * SHORT,
            _ => 32 * SHORT,
        }
    }

    /// Neighbouring lanes for some rows.
    fn by_lanes(&self, kernel: &'static str) -> Choice {
        let (columns, wide) = (self.columns, self.wide);
        // At least the lanes that leave each of them three vectors, six narrow ones, or twelve pairs of a product, whose rows share the
        // vector; more where a row nearly fills them.
        let pairs = self.work == Work::Gemv && self.elem.bytes() < 4 && wide == 2;
        let each = match wide {
            _ if pairs => 12,
            ..4 => 6,
            _ => 3,
        };
        let least = columns.div_ceil(each * wide).next_power_of_two().min(32);
        // Single lanes read rows that are apart.
        let (bytes, most) = if least == 1 { (8, 14) } else { (4 * self.elem.bytes() as usize, 13) };
        let fills = |lanes: &usize| {
            wide * self.elem.bytes() as usize >= bytes
                && 10 * columns.next_multiple_of(lanes * wide) <= most * columns
        };
        let more = [32, 16, 8, 4, 2].into_iter().take_while(|lanes| *lanes > least).find(fills);
        let lanes = more.unwrap_or(least);
        let width = columns.next_multiple_of(lanes * wide);
        // The rows of a lane are apart: one at a time leaves their sectors in the cache, and writes them at once.
        let own = match (wide * self.elem.bytes() as usize, self.work) {
            _ if pairs => 40,
            // The nearest number of rows to 30 elements.
            (2, Work::Gemv) if lanes == 32 => 30 + width / 64,
            // Two rows share two weights, if a lane has few elements of each.
            (2, Work::Layernorm) if matches!((lanes, width), (16, ..=80) | (32, ..=224)) => 2 * width / lanes,
            (2, work) if lanes == 32 || matches!(work, Work::Gemv | Work::RowSums) => 10,
            _ => OWN.min(6 * wide),
        };
        let rows = if lanes == 1 { 1 } else { (own * lanes / width).clamp(1, 4) };
        self.own(kernel, &[("W", width), ("R", rows), ("V", wide), ("G", lanes)])
    }

    /// Are there many elements of two bytes in rows that begin between vectors of four of them?
    fn is_dense(&self) -> bool {
        self.elem.bytes() < 4 && self.wide < 4 && self.rows * self.columns > 7_000_000
    }

    /// Lanes for some rows of a matrix without gaps, whose tiles are copied to shared memory.
    fn dense(&self, kernel: &'static str) -> Choice {
        let Matrix { work, elem, rows, columns, .. } = *self;
        const THREADS: usize = 128;
        const TILE: usize = 30 << 10;
        // The fewest that leave each lane up to 20 elements.
        let lanes = columns.div_ceil(20).next_power_of_two().min(32);
        let each = columns.div_ceil(lanes);
        // A tile begins at a vector. It has about 30 kB, and each multiprocessor has some tiles.
        let at_once = THREADS / lanes;
        let step = (WIDEST / elem.bytes() as usize).div_ceil(at_once);
        let bytes = at_once * columns * elem.bytes() as usize;
        let most = (TILE / bytes).min(rows / (at_once * 4 * PROCESSORS)).clamp(1, 8);
        // An odd number: threads do not divide the tile, whose last vectors may then be divided by the end of the matrix.
        let steps = (most / step).max(1);
        let iterations = step * (steps - (steps + 1) % 2);
        // Registers for a row, for the rows that it shares with others, and for addresses.
        let shared = match work {
            Work::Layernorm => 2,
            Work::Rmsnorm | Work::Gemv => 1,
            _ => 0,
        };
        let registers = (each * (1 + shared) + 56).next_multiple_of(8);
        let resident = (SHARED / (iterations * bytes + 1024)).min(65536 / (THREADS * registers)).clamp(1, 16);
        let value = WIDEST / elem.bytes() as usize;
        let constants =
            [("N", columns), ("J", iterations), ("G", lanes), ("L", THREADS), ("V", value), ("Q", resident)];
        Choice { is_dense: true, ..self.own(kernel, &constants) }
    }

    /// Lanes for some rows, or a block for each.
    fn in_rows(&self, long: &'static str, short: &'static str, threads: usize) -> Choice {
        if self.columns <= 32 * SHORT {
            return self.by_lanes(short);
        }
        let width = self.columns.next_multiple_of(threads * self.wide);
        self.own(long, &[("W", width), ("L", threads), ("V", self.wide)])
    }

    /// Blocks that read rows in tiles, with `vectors` vectors of `value` elements for each thread.
    fn by_blocks(&self, kernel: &'static str, value: usize, vectors: usize) -> Choice {
        let Matrix { rows, columns, .. } = *self;
        // Few rows take several blocks each, the fewest as many threads as hide the time of a load.
        let threads = if rows * BLOCKS < 2 * PROCESSORS { 512 } else { 128 };
        let least = 2 * threads * value;
        let width = columns.next_multiple_of(threads * value).clamp(least, threads * value * vectors);
        let blocks = BUSY.div_ceil(rows).min(columns.div_ceil(width)).next_power_of_two().min(BLOCKS);
        self.own(kernel, &[("W", width), ("L", threads), ("V", value), ("C", blocks)])
    }

    /// A product with a vector where rows begin between vectors: some rows for each cluster, V rows apart.
    fn gemv(&self) -> Choice {
        let (rows, value) = (self.rows, WIDEST / self.elem.bytes() as usize);
        let own = self.columns + value - 1;
        // Rows for each cluster, the numbers of threads of a block, elements of a row for each, and threads of a multiprocessor that
        // have registers for the next tile, too.
        let (each, threads, elements, most) = match rows {
            ..=64 if value == 4 || own < 64 * 4096 => (1, [1024, 512, 256].as_slice(), 2 * value, 1024),
            ..1024 if value > 4 => (2, [128, 256].as_slice(), 8, 1024),
            _ => (4, [128].as_slice(), 8, 512),
        };
        // A cluster for each row, or for each remainder of rows.
        let groups = (value * rows.div_ceil(value * each)).min(rows);
        // A block of several rows takes two full steps or more: with one it takes up to 1.4 times as long.
        let widest = |threads: usize| (own / (each.min(2) * threads * elements)).clamp(1, BLOCKS);
        // The largest clusters that are resident all at once.
        let at_once = |threads: usize| {
            let fits = |blocks: &usize| groups <= clusters_at_once(*blocks, most / threads);
            (1..=widest(threads)).rev().find(fits)
        };
        // As many threads as possible; of equal numbers the last.
        let all = |threads: &usize| at_once(*threads).unwrap_or(0) * threads;
        let threads = threads.iter().copied().max_by_key(all).unwrap_or(256);
        let (ahead, blocks) = match at_once(threads) {
            Some(blocks) if rows < 1024 => (1, blocks),
            // Many rows have more resident blocks without the next tile: six on each multiprocessor.
            _ => (0, 1 << (6 * PROCESSORS / groups).clamp(1, widest(threads)).ilog2()),
        };
        let steps = own.div_ceil(blocks * threads * elements);
        let threads =
            if each > 1 { own.div_ceil(blocks * steps * elements).next_multiple_of(32) } else { threads };
        let constants = [
            ("R", each),
            ("W", elements * threads),
            ("L", threads),
            ("V", value),
            ("C", blocks),
            ("A", ahead),
        ];
        self.own("gemv_unaligned", &constants)
    }

    /// A cluster for each row. A block keeps up to `most` elements in registers, and a thread about `elements` of them.
    fn in_registers(&self, kernel: &'static str, most: usize, elements: usize) -> Choice {
        let blocks = self.columns.div_ceil(most);
        let part = self.columns.div_ceil(blocks);
        let threads = part.div_ceil(elements).next_multiple_of(32).clamp(128, 1024);
        let width = part.next_multiple_of(threads * self.wide);
        self.own(kernel, &[("W", width), ("L", threads), ("V", self.wide), ("C", blocks)])
    }

    /// Elements of a tile of `sum_of_all`, and its blocks.
    fn sum_blocks(&self) -> (usize, usize) {
        let (count, value) = (self.rows * self.columns, WIDEST / self.elem.bytes() as usize);
        // One tile for each multiprocessor, of up to sixteen vectors for each thread: few words for the last block. Else two blocks.
        let each = count.div_ceil(512 * value * PROCESSORS).max(1);
        let (each, blocks) = if each <= 16 { (each, PROCESSORS) } else { (4, 2 * PROCESSORS) };
        let width = 512 * value * each;
        (width, count.div_ceil(width).clamp(1, blocks))
    }

    fn sum(&self) -> Choice {
        let ((width, blocks), value) = (self.sum_blocks(), WIDEST / self.elem.bytes() as usize);
        self.own("sum_of_all", &[("W", width), ("L", 512), ("V", value), ("P", blocks)])
    }
}
