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
#[path = "../../examples/memory/long_rows.rs"]
pub mod long_rows;
#[allow(dead_code)]
#[path = "../../examples/memory/products.rs"]
pub mod products;
#[allow(dead_code)]
#[path = "../../examples/memory/resident_rows.rs"]
pub mod resident_rows;
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

/// The longest row that one block keeps in registers.
const PART: usize = 16384;
/// Bytes of shared memory of a multiprocessor.
const SHARED: usize = 227 * 1024;
/// Of these, what a block needs besides its part of a row.
const BESIDE: usize = 1536;
/// Threads of a multiprocessor with 40 registers each.
const THREADS: usize = 1536;
/// Multiprocessors of an H100.
const PROCESSORS: usize = 132;
/// Most blocks of a cluster.
const BLOCKS: usize = 16;
/// Multiprocessors that clusters of 1, 2, 4, 8 and 16 blocks can fill on an H100: its groups of multiprocessors have 18,
/// 16 or fewer of them.
const FILLED: [usize; 5] = [132, 132, 128, 112, 104];
/// Elements for each thread of rows that are on chip all at once.
const RESIDENT: usize = 128;
/// Blocks that keep the memory busy.
const BUSY: usize = 512;

/// The longest power of two that divides a number, up to a limit.
fn dividing(number: usize, most: usize) -> usize {
    (1 << number.trailing_zeros()).min(most)
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

/// The kernel for a matrix of this size, rows contiguous. Input and output are equally far apart from row to row.
pub fn choose(work: Work, elem: Elem, rows: usize, columns: usize) -> Choice {
    let matrix = Matrix::new(work, elem, rows, columns);
    let Matrix { rows, columns, wide, .. } = matrix;
    let own = |kernel, constants: &[(&'static str, usize)]| matrix.own(kernel, constants);
    // Elements of a row that 128 threads read at once, at least two each.
    let at_once = |most: usize| columns.next_multiple_of(128 * wide).clamp(256 * wide, 128 * wide * most);
    match work {
        Work::Transpose => transpose(elem, rows, columns),
        Work::Softmax | Work::Layernorm | Work::Rmsnorm => matrix.norms(),
        Work::CumulativeSums | Work::SumsBefore | Work::CumulativeSumsFrom => matrix.scans(),
        Work::RowSums if columns <= 32 * SHORT => matrix.in_rows("row_sums", "row_sums_short", 0),
        Work::RowSums => {
            let width = at_once(if wide == 1 { 33 } else { 8 });
            // Few rows take several blocks each.
            let blocks = BUSY.div_ceil(rows).min(columns.div_ceil(width)).next_power_of_two().min(BLOCKS);
            own("row_sums", &[("W", width), ("L", 128), ("V", wide), ("C", blocks)])
        }
        Work::ColumnSums => matrix.column_sums(),
        Work::Gemv => own("gemv", &[("W", at_once(4)), ("L", 128), ("V", wide)]),
        Work::Gravity => own("gravity", &[]),
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
        Work::Stencil5 => own("stencil_5", &[("L", filled(columns, &[512, 256, 128, 64, 32]))]),
        Work::Stencil7 => own("stencil_7", &[]),
    }
}

/// A work on a matrix, whose accesses have so many elements.
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

    /// Rows of a tile of `column_sums`, and how many pieces each column has.
    fn pieces(&self) -> (usize, usize) {
        let Matrix { elem, rows, columns, wide, .. } = *self;
        // Few columns need long tiles, unless that leaves multiprocessors without work.
        let most = if columns >= 4096 || wide == 1 { 64 } else { 512 / elem.bytes() as usize };
        let across = columns.div_ceil(32 * self.columns_of_thread());
        let occupies = |tile: &usize| across * rows.div_ceil(*tile) >= 2 * PROCESSORS;
        let tile = [256, 128, 64].into_iter().filter(|tile| *tile <= most).find(occupies).unwrap_or(32);
        if across >= BUSY || rows <= 256 {
            return (tile, 1);
        }
        (tile, (2048 / across).clamp(4, 256).min(rows.div_ceil(tile)))
    }

    /// Adjacent columns that a thread of `column_sums` adds.
    fn columns_of_thread(&self) -> usize {
        match (self.rows <= 256, self.columns < 4096) {
            // Short rows would leave most multiprocessors without work.
            (true, true) => 1,
            (false, true) => self.wide.min((self.columns / 32).next_power_of_two()).min(4),
            _ => self.wide,
        }
    }

    fn column_sums(&self) -> Choice {
        let (tile, pieces) = self.pieces();
        let (tile, warps) = match self.rows {
            ..=32 => (32, 4),
            // Few rows need many warps.
            33..=256 if self.columns < 4096 => (256, 32),
            _ => (tile, if tile > 128 { 16 } else { 8 }),
        };
        self.own("column_sums", &[("B", tile), ("Y", warps), ("V", self.columns_of_thread()), ("P", pieces)])
    }

    fn own(&self, kernel: &'static str, constants: &[(&'static str, usize)]) -> Choice {
        let elem = (!self.work.has_one_type()).then_some(self.elem);
        Choice { kernel, elem, constants: constants.to_vec() }
    }

    /// A warp for some rows, or a block for each.
    fn in_rows(&self, long: &'static str, short: &'static str, threads: usize) -> Choice {
        let (columns, wide) = (self.columns, self.wide);
        if columns <= 32 * SHORT {
            // A warp reads a row with the widest vectors that it allows.
            let value = wide.min((columns / 32).next_power_of_two()).max(1);
            let width = columns.next_multiple_of(32 * value);
            return self.own(short, &[("W", width), ("R", (OWN * 16 / width).max(1)), ("V", value)]);
        }
        self.own(long, &[("W", columns.next_multiple_of(threads * wide)), ("L", threads), ("V", wide)])
    }

    /// Rows that multiprocessors keep on chip, all at once.
    fn resident(&self, kernel: &'static str) -> Option<Choice> {
        let Matrix { elem, rows, columns, wide, .. } = *self;
        // Threads of a block, and how many such blocks a multiprocessor has room for: seven eighths of a row are in shared
        // memory.
        let shape = |blocks: usize| {
            let threads = columns.div_ceil(blocks * RESIDENT).next_multiple_of(32);
            (threads, SHARED / (threads * RESIDENT / 8 * 7 * elem.bytes() as usize + BESIDE))
        };
        // Four bytes an element keep the memory busy between the exchanges of `…_long`, unless weights are read too.
        if elem.bytes() > 2 && self.work != Work::Layernorm {
            return None;
        }
        // Blocks that occupy three quarters of the device, and are resident at once.
        let fits = |blocks: &usize| {
            let (threads, resident) = shape(*blocks);
            let most = FILLED[blocks.ilog2() as usize] * resident;
            (3 * PROCESSORS / 4..=most).contains(&(rows * blocks)) && threads <= 1024
        };
        let blocks = [1, 2, 4, 8, BLOCKS].into_iter().find(fits)?;
        let (threads, resident) = shape(blocks);
        // Shorter parts gain nothing; asynchronous copies have four bytes or more.
        if threads * RESIDENT <= 2 * PART || wide * (elem.bytes() as usize) < 4 {
            return None;
        }
        // One block of a cluster on each multiprocessor: `…_long` overlaps more, unless it reduces two times.
        if blocks > 1 && resident == 1 && self.work != Work::Layernorm {
            return None;
        }
        let width = threads * RESIDENT;
        Some(self.own(kernel, &[("W", width), ("L", threads), ("V", wide), ("C", blocks), ("Q", resident)]))
    }

    /// Rows that one block does not keep in registers: in the shared memory of clusters, all at once or one after another, or
    /// read twice.
    fn longer(&self) -> Option<Choice> {
        let Matrix { elem, rows, columns, wide, .. } = *self;
        let [resident, long, streamed] = match self.work {
            Work::Softmax => ["softmax_resident", "softmax_long", "softmax_streamed"],
            Work::Layernorm => ["layernorm_resident", "layernorm_long", "layernorm_streamed"],
            _ => ["rmsnorm_resident", "rmsnorm_long", "rmsnorm_streamed"],
        };
        if columns <= PART {
            return None;
        }
        if let Some(choice) = self.resident(resident) {
            return Some(choice);
        }
        // Few rows take as many threads as possible.
        let limit = if rows * BLOCKS > PROCESSORS { 4 } else { 2 };
        // Reductions cost fewer threads less; RMS norm has little to reduce, and more of them load its weights.
        let all = if self.work == Work::Rmsnorm { THREADS } else { THREADS / 2 };
        let shape = |blocks| long_rows(elem, wide, columns.div_ceil(blocks), (limit, all));
        let enough = |blocks: &usize| {
            let resident = if *blocks == 1 && columns <= 20 * 1024 { 2 } else { 3 };
            rows * blocks >= PROCESSORS && shape(*blocks).2 >= resident
        };
        let blocks = [1, 2, 4, 8].into_iter().find(enough).unwrap_or(BLOCKS);
        let (width, threads, resident) = shape(blocks);
        // Asynchronous copies have four bytes or more.
        if resident < 2 || wide * (elem.bytes() as usize) < 4 {
            let blocks = (2 * PROCESSORS).div_ceil(rows).next_power_of_two().min(BLOCKS);
            return Some(self.own(streamed, &[("W", 512 * OWN), ("V", wide), ("C", blocks)]));
        }
        let most = FILLED[blocks.ilog2() as usize] * resident / blocks;
        // Single blocks find room anywhere: as many take equally many rows. Clusters overlap more where there are more.
        let clusters = if blocks == 1 { rows.div_ceil(rows.div_ceil(most)) } else { most };
        let all =
            [("W", width), ("L", threads), ("V", wide), ("C", blocks), ("G", clusters), ("Q", resident)];
        Some(self.own(long, &all))
    }

    /// Rows that begin between vectors, as vectors that begin before them: about so many elements for each thread.
    fn between_vectors(&self, kernel: &'static str, elements: usize) -> Choice {
        let value = WIDEST / self.elem.bytes() as usize;
        // A row and what is before it in its first vector.
        let columns = self.columns + value - 1;
        let threads = columns.div_ceil(elements).next_multiple_of(32).clamp(128, 1024);
        let width = columns.next_multiple_of(threads * value);
        self.own(kernel, &[("W", width), ("L", threads), ("V", value)])
    }

    /// Threads of a block that keeps a row in registers, with about this many elements for each.
    fn keeping(&self, elements: usize) -> usize {
        let warps = if self.wide == 1 { 4 } else { 1 };
        self.columns.div_ceil(elements).next_multiple_of(32 * warps).clamp(128, 1024)
    }

    fn norms(&self) -> Choice {
        let Matrix { work, elem, columns, wide, .. } = *self;
        let own = |kernel, constants: &[(&'static str, usize)]| self.own(kernel, constants);
        let in_rows = |long, short, threads| self.in_rows(long, short, threads);
        let keeping = |elements| self.keeping(elements);
        let kept = keeping(if wide == 1 { 33 } else { OWN });
        // Elements of two bytes, several in an access.
        let narrow = elem.bytes() < 4 && wide > 1;
        match work {
            // Narrow rows spend more of their time at barriers: fewer threads each, so that more rows are resident, or a
            // second reading, which takes few registers.
            Work::Softmax if narrow && (PART / 2 + 1..=PART).contains(&columns) => {
                let threads = keeping(2 * OWN);
                let constants =
                    [("W", threads * OWN), ("L", threads), ("V", wide), ("C", 1), ("Q", THREADS / threads)];
                own("softmax_streamed", &constants)
            }
            Work::Softmax if wide == 1 && (2048..=PART).contains(&columns) => {
                self.between_vectors("softmax_unaligned", if elem.bytes() < 4 { 40 } else { OWN })
            }
            Work::Softmax => self.longer().unwrap_or_else(|| {
                let few = narrow && columns <= 6144;
                let threads = if few { keeping(24) } else { kept };
                let mut choice = in_rows("softmax_row", "softmax_rows", threads);
                if narrow && !few {
                    // All threads of a multiprocessor, with 32 registers each.
                    choice.constants.push(("Q", 2048 / threads));
                }
                choice
            }),
            Work::Layernorm => self.longer().unwrap_or_else(|| {
                // Long rows have fewer threads, with twice as many elements each: narrow ones sooner.
                let least = if narrow { 6144 } else { PART / 2 };
                let few = wide > 1 && (least + 1..=3 * PART / 4).contains(&columns);
                let threads = if few { keeping(2 * OWN) } else { kept };
                let mut choice = in_rows("layernorm_row", "layernorm_rows", threads);
                if choice.kernel == "layernorm_row" && narrow {
                    // Converted 16-bit weights take 32-bit registers: without a register bound fewer blocks would
                    // be resident.
                    let all = if few { 1024 } else { THREADS };
                    choice.constants.push(("Q", (all / threads).max(1)));
                }
                rows_of_warps(&mut choice, elem, wide, 2);
                choice
            }),
            _ => self.longer().unwrap_or_else(|| {
                let mut choice = in_rows("rmsnorm_row", "rmsnorm_rows", kept);
                // Without a register bound two blocks of 512 threads would be resident; accesses of four bytes have
                // too many addresses for it.
                if choice.kernel == "rmsnorm_row" && narrow && wide >= 4 {
                    choice.constants.push(("Q", (THREADS / kept).max(1)));
                }
                rows_of_warps(&mut choice, elem, wide, 4);
                choice
            }),
        }
    }

    fn scans(&self) -> Choice {
        let Matrix { work, elem, rows, columns, wide } = *self;
        let own = |kernel, constants: &[(&'static str, usize)]| self.own(kernel, constants);
        // Rows begin between the widest vectors.
        let between = wide * (elem.bytes() as usize) < WIDEST;
        match work {
            Work::CumulativeSums | Work::SumsBefore if columns <= 32 * SHORT => {
                let exclusive = usize::from(work == Work::SumsBefore);
                if wide == 1 || !columns.is_multiple_of(32) && elem.bytes() < 4 {
                    return own(
                        "cumulative_sums_short",
                        &[("K", columns.div_ceil(32) | 1), ("E", exclusive)],
                    );
                }
                let width = columns.next_multiple_of(32);
                let rows = (256 * OWN / 2 / width).max(1);
                own("cumulative_sums", &[("R", rows), ("W", width), ("L", 256), ("E", exclusive)])
            }
            Work::CumulativeSums | Work::SumsBefore if (32..BUSY).contains(&rows) && columns > PART => {
                // A cluster scans a row, each of its blocks a tile at a time. While a block waits for its cluster, other
                // resident ones load.
                let exclusive = usize::from(work == Work::SumsBefore);
                let blocks = BUSY.div_ceil(rows).next_power_of_two().min(8);
                let constants = [("W", 256 * OWN), ("L", 256), ("E", exclusive), ("C", blocks), ("Q", 5)];
                own("cumulative_sums", &constants)
            }
            Work::CumulativeSums | Work::SumsBefore if rows < 32 && columns > PART => {
                // So few rows leave room for more threads and elements.
                let exclusive = usize::from(work == Work::SumsBefore);
                let (each, resident) = if elem.bytes() < 4 { (2 * OWN, 2) } else { (OWN, 3) };
                let constants =
                    [("W", 512 * each), ("L", 512), ("E", exclusive), ("C", BLOCKS), ("Q", resident)];
                own("cumulative_sums", &constants)
            }
            Work::CumulativeSums if between && elem.bytes() < 4 && columns > 1000 => {
                // As few tiles as possible of up to 288 vectors, as full as possible, but two where one would have more than
                // four warps.
                let value = WIDEST / elem.bytes() as usize;
                let vectors = (columns + value - 1).div_ceil(value);
                let tiles = vectors.div_ceil(288).max(vectors.div_ceil(128).min(2));
                let threads = vectors.div_ceil(tiles).next_multiple_of(32);
                // A multiprocessor's threads with 36 registers each.
                let resident = 1792 / threads;
                own("cumulative_sums_vectors", &[("L", threads), ("V", value), ("Q", resident)])
            }
            Work::CumulativeSums if between => {
                // As few tiles as possible, as full as possible.
                let tiles = columns.div_ceil(17 * 512);
                let threads = columns.div_ceil(17 * tiles).next_multiple_of(32);
                let mut choice = own("cumulative_sums_unaligned", &[("L", threads)]);
                if elem.bytes() < 4 {
                    // Loads of single elements hold fewer bytes in flight: one more block of 256 threads.
                    choice.constants.push(("Q", (1280 / threads).clamp(1, 32)));
                }
                choice
            }
            _ => {
                // A block scans a tile of its row at a time.
                let most = if between { 256 } else { 512 };
                let threads = columns.div_ceil(OWN).next_multiple_of(128).min(most);
                let width = columns.next_multiple_of(threads * wide).min(threads * OWN);
                let mut choice = own("cumulative_sums_from", &[("W", width), ("L", threads)]);
                if !between {
                    // Other blocks load while one waits at its barriers; without a register bound one would be resident.
                    // Narrow accesses need more registers.
                    choice.constants.push(("Q", 1536 / threads));
                }
                if work != Work::CumulativeSumsFrom {
                    choice.kernel = "cumulative_sums";
                    choice.constants.push(("E", usize::from(work == Work::SumsBefore)));
                }
                choice
            }
        }
    }
}

/// Warps load several rows of odd lengths at once, whose elements of two bytes are loaded one by one.
fn rows_of_warps(choice: &mut Choice, elem: Elem, wide: usize, least: usize) {
    if wide == 1 && elem.bytes() < 4 {
        choice
            .constants
            .iter_mut()
            .filter(|(name, _)| *name == "R")
            .for_each(|(_, rows)| *rows = (*rows).max(least));
    }
}

/// Of a block that keeps so many elements of a row in shared memory, in four pieces: its tile, its threads, and how many
/// such blocks are resident on a multiprocessor.
fn long_rows(elem: Elem, wide: usize, part: usize, (limit, all): (usize, usize)) -> (usize, usize, usize) {
    let resident = |width: usize| SHARED / (width * elem.bytes() as usize + BESIDE);
    let most = (all / resident(part).clamp(1, limit) / 32 * 32).min(1024);
    let each = part.div_ceil(4 * wide * most);
    let threads = part.div_ceil(4 * wide * each).next_multiple_of(32).max(128);
    let width = 4 * wide * each * threads;
    (width, threads, resident(width).min(limit).min(all / threads))
}

/// The kernel for a transpose: reads are coalesced along rows of the matrix, writes along its columns.
fn transpose(elem: Elem, rows: usize, columns: usize) -> Choice {
    let most = WIDEST / elem.bytes() as usize;
    let (v, u) = (dividing(columns.max(1), most), dividing(rows.max(1), most));
    let side = if v.min(u) >= 4 { 256 / elem.bytes() as usize } else { 64 };
    // A short side is one tile; the other one is as much longer.
    let fit = |extent: usize| match extent {
        0..=8 => 8,
        9..=32 => extent.next_multiple_of(16),
        _ => side,
    };
    let other = |short: usize| (side * side / short).next_power_of_two().clamp(side, 512);
    let (b, e) = match (fit(rows), fit(columns)) {
        (b, e) if b < side && e < side => (b, e),
        (b, _) if b < side => (b, other(b)),
        (_, e) if e < side => (other(e), e),
        // Single elements: longer pieces of columns, which begin anywhere.
        (b, e) if v * u == 1 => (2 * b, e),
        // One tile instead of two.
        (b, e) if (b + 1..=b + 48).contains(&rows) => (rows.next_multiple_of(16), e),
        both => both,
    };
    let u = if b.is_power_of_two() { u } else { 1 };
    // Threads along contiguous elements, so that both modes of the tile are divided.
    let threads = |along: usize, across: usize, values: usize| {
        let divides = |n: &usize| along.is_multiple_of(n * values) && across.is_multiple_of(256 / n);
        let usual = if values == 1 { 32 } else { 32 / values.min(4) };
        [usual, 2 * usual, usual / 2, 4 * usual, usual / 4, usual / 8, 8 * usual]
            .into_iter()
            .find(|n| *n > 0 && divides(n))
    };
    let narrower = |along, across, values: usize| {
        (0..=values.ilog2()).find_map(|k| Some((values >> k, threads(along, across, values >> k)?)))
    };
    let (Some((v, c)), Some((u, d))) = (narrower(e, b, v), narrower(b, e, u)) else {
        let constants = vec![("V", 1), ("C", 32), ("U", 1), ("D", 32)];
        return Choice { kernel: "transpose", elem: Some(elem), constants };
    };
    let pad = 4 / elem.bytes() as usize;
    let constants = vec![("V", v), ("C", c), ("U", u), ("D", d), ("B", b), ("E", e), ("P", pad)];
    Choice { kernel: "transpose", elem: Some(elem), constants }
}
