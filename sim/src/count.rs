//! The cost of a run: wavefronts and bank conflicts in shared memory, sectors and lines in global memory,
//! operations. An instruction of a warp is counted as the hardware's counters count it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

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

/// Memory accesses of one instruction of the program.
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

/// Counters of a whole run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) rows: Vec<Row>,
    pub(crate) operations: [u64; 12],
}

/// Alignment of allocations, which the memory model assumes for buffers.
const BASE_ALIGNMENT: i64 = 256;

/// Bytes of a line, and of a row of all banks: the cost of an access is periodic in its address.
const PERIOD: i64 = 128;

/// An access, reduced to the facts that determine its cost.
#[derive(Clone, PartialEq, Eq)]
struct Key {
    addresses: [i64; 32],
    lanes: u32,
    bytes: u32,
    transfer: Transfer,
    shared: bool,
}

impl Key {
    fn new(shared: bool, addresses: &[i64; 32], lanes: u32, bytes: u32, transfer: Transfer) -> Key {
        let base = addresses[lanes.trailing_zeros() as usize & 31] & !(PERIOD - 1);
        let mut relative = [0; 32];
        for (lane, (to, from)) in relative.iter_mut().zip(addresses).enumerate() {
            if lanes >> lane & 1 == 1 {
                *to = from - base;
            }
        }
        Key { addresses: relative, lanes, bytes, transfer, shared }
    }

    /// Computed by the model of the layout algebra.
    fn cost(&self) -> [u32; 3] {
        let access = WarpAccess::of_lanes(self.addresses, self.lanes, i64::from(self.bytes), self.transfer);
        let Ok(access) = access else { return [0; 3] };
        if self.shared {
            access.banks().map_or([0; 3], |report| [report.wavefronts, report.ideal, 0])
        } else {
            let report = access.sectors(BASE_ALIGNMENT);
            report.map_or([0; 3], |report| [report.sectors, report.ideal_sectors, report.lines])
        }
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut mixed = u64::from(self.lanes) << 32 | u64::from(self.bytes);
        for &address in &self.addresses {
            mixed = (mixed.rotate_left(5) ^ address as u64).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
        state.write_u64(mixed);
    }
}

/// A cache of access costs: a kernel has few distinct ones.
#[derive(Default)]
pub(crate) struct Memo(HashMap<Key, [u32; 3], BuildHasherDefault<Mixed>>);

impl Memo {
    /// The cache is emptied when it exceeds this size.
    const MOST: usize = 1 << 12;

    fn cost(&mut self, key: Key) -> [u32; 3] {
        if let Some(&known) = self.0.get(&key) {
            return known;
        }
        if self.0.len() >= Memo::MOST {
            self.0.clear();
        }
        let cost = key.cost();
        self.0.insert(key, cost);
        cost
    }
}

/// Keys are already hashed.
#[derive(Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, mixed: u64) {
        self.0 = mixed ^ mixed >> 32;
    }
}

impl Counts {
    pub(crate) fn new(rows: u32) -> Counts {
        Counts { rows: vec![Row::default(); rows as usize], operations: [0; 12] }
    }

    pub(crate) fn operation(&mut self, class: Class, lanes: u32) {
        self.operations[class as usize] += u64::from(lanes.count_ones());
    }

    fn row(&mut self, row: u32, lanes: u32, bytes: u32) -> &mut Row {
        let row = &mut self.rows[row as usize];
        row.executed += 1;
        row.lanes += u64::from(lanes.count_ones());
        row.bytes += u64::from(lanes.count_ones() * bytes);
        row
    }

    /// One warp's access to shared memory.
    pub(crate) fn shared(
        &mut self,
        memo: &mut Memo,
        row: u32,
        addresses: &[i64; 32],
        lanes: u32,
        bytes: u32,
        transfer: Transfer,
    ) {
        let row = self.row(row, lanes, bytes);
        let [wavefronts, least, _] = memo.cost(Key::new(true, addresses, lanes, bytes, transfer));
        row.wavefronts += u64::from(wavefronts);
        row.least += u64::from(least);
    }

    /// One warp's access to global memory.
    pub(crate) fn global(
        &mut self,
        memo: &mut Memo,
        row: u32,
        addresses: &[i64; 32],
        lanes: u32,
        bytes: u32,
        transfer: Transfer,
    ) {
        let row = self.row(row, lanes, bytes);
        let [sectors, least, lines] = memo.cost(Key::new(false, addresses, lanes, bytes, transfer));
        row.sectors += u64::from(sectors);
        row.least_sectors += u64::from(least);
        row.lines += u64::from(lines);
    }

    /// Traffic of the copy engine or tensor cores: bytes alone.
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
