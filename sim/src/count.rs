//! What a run costs: wavefronts and bank conflicts in shared memory, sectors and lines in global memory, operations. One
//! warp's instruction counts as the hardware's counters count it.

use tilewright_layout::{Transfer, WarpAccess};

/// Kinds of operations, counted for each thread that performs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub(crate) enum Class {
    Fma,
    Arithmetic,
    Function,
    Conversion,
    Choice,
    Shuffle,
    Load,
    Store,
    Atomic,
    Copy,
    Product,
    Barrier,
}

impl Class {
    pub(crate) const NAMES: [&str; 12] = [
        "multiply-adds",
        "arithmetic",
        "functions",
        "conversions",
        "comparisons and choices",
        "shuffles",
        "loads",
        "stores",
        "atomic updates",
        "copies by instruction",
        "matrix products",
        "barriers",
    ];
}

/// What one place in the program did to memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) executed: u64,
    pub(crate) lanes: u64,
    pub(crate) bytes: u64,
    pub(crate) wavefronts: u64,
    pub(crate) least: u64,
    pub(crate) sectors: u64,
    pub(crate) least_sectors: u64,
    pub(crate) lines: u64,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) rows: Vec<Row>,
    pub(crate) operations: [u64; 12],
}

/// The memory model knows buffers that begin where allocations do.
const BASE_ALIGNMENT: i64 = 256;

impl Counts {
    pub(crate) fn new(rows: u32) -> Counts {
        Counts { rows: vec![Row::default(); rows as usize], operations: [0; 12] }
    }

    pub(crate) fn operation(&mut self, class: Class, lanes: u32) {
        self.operations[class as usize] += u64::from(lanes.count_ones());
    }

    /// One warp's access to shared memory.
    pub(crate) fn shared(
        &mut self,
        row: u32,
        addresses: &[i64; 32],
        lanes: u32,
        bytes: u32,
        transfer: Transfer,
    ) {
        let row = &mut self.rows[row as usize];
        row.executed += 1;
        row.lanes += u64::from(lanes.count_ones());
        row.bytes += u64::from(lanes.count_ones() * bytes);
        if let Ok(report) = WarpAccess::of_lanes(*addresses, lanes, i64::from(bytes), transfer)
            .and_then(|access| access.banks())
        {
            row.wavefronts += u64::from(report.wavefronts);
            row.least += u64::from(report.ideal);
        }
    }

    /// One warp's access to global memory.
    pub(crate) fn global(
        &mut self,
        row: u32,
        addresses: &[i64; 32],
        lanes: u32,
        bytes: u32,
        transfer: Transfer,
    ) {
        let row = &mut self.rows[row as usize];
        row.executed += 1;
        row.lanes += u64::from(lanes.count_ones());
        row.bytes += u64::from(lanes.count_ones() * bytes);
        if let Ok(report) = WarpAccess::of_lanes(*addresses, lanes, i64::from(bytes), transfer)
            .and_then(|access| access.sectors(BASE_ALIGNMENT))
        {
            row.sectors += u64::from(report.sectors);
            row.least_sectors += u64::from(report.ideal_sectors);
            row.lines += u64::from(report.lines);
        }
    }

    /// What the copy engine or tensor cores move: bytes alone.
    pub(crate) fn bulk(&mut self, row: u32, bytes: u64) {
        let row = &mut self.rows[row as usize];
        row.executed += 1;
        row.lanes += 1;
        row.bytes += bytes;
    }

    pub(crate) fn add(&mut self, other: &Counts) {
        for (mine, theirs) in self.rows.iter_mut().zip(&other.rows) {
            mine.executed += theirs.executed;
            mine.lanes += theirs.lanes;
            mine.bytes += theirs.bytes;
            mine.wavefronts += theirs.wavefronts;
            mine.least += theirs.least;
            mine.sectors += theirs.sectors;
            mine.least_sectors += theirs.least_sectors;
            mine.lines += theirs.lines;
        }
        for (mine, theirs) in self.operations.iter_mut().zip(&other.operations) {
            *mine += theirs;
        }
    }
}
