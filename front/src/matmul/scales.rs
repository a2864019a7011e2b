//! Scales of narrow weights in groups along K, with their zero points. A step along K has one or more groups, or is part of one
//! group. Otherwise it has a column of scales for each of its parts that lies in one group.

use super::Config;
use crate::thread::index::gcd;
use crate::values::elem::Elem;

/// Alignment in bytes of the shared memory to which a bulk copy writes.
const BULK: i64 = 128;

/// Elements along K, and rows of B, that have one scale where operands are quantised in blocks.
pub(super) const BLOCK: i64 = 128;

/// The sizes that a group may have: at least the K of an instruction.
pub(super) const GROUPS: [i64; 5] = [16, 32, 64, 128, 256];

/// Sizes of the scales in a step along K.
#[derive(Clone, Copy)]
pub(super) struct Grouped {
    /// Elements along K that have one scale.
    pub(super) size: i64,
    /// K of a step.
    bk: i64,
    /// Elements along K for which a step has one column of scales.
    pub(super) each: i64,
}

/// The next multiple of an aligned slot.
fn aligned(bytes: i64) -> i64 {
    (bytes + BULK - 1) / BULK * BULK
}

impl Config {
    /// The scales in a step of length `bk` that `parts` warps share, if there are any in groups.
    pub(super) fn grouped(&self, bk: i64, parts: i64) -> Option<Grouped> {
        self.group.map(|size| Grouped::new(size, bk, parts))
    }

    /// How many such arguments there are.
    pub(super) fn of_groups(&self) -> usize {
        usize::from(self.group.is_some()) + usize::from(self.zeros)
    }

    /// Bytes of a slot of the scales and zero points of `rows` rows.
    pub(super) fn bytes_of_scales(&self, rows: i64, bk: i64, parts: i64) -> i64 {
        let bytes = self.grouped(bk, parts).map_or(0, |of| of.bytes(rows, self.dtype));
        bytes * self.of_groups() as i64
    }
}

impl Grouped {
    /// Groups of `size` elements in steps of length `bk` that `parts` warps share.
    fn new(size: i64, bk: i64, parts: i64) -> Grouped {
        let divides = |x: i64, y: i64| x % y == 0 || y % x == 0;
        let (one, part) = (size.min(bk), bk / parts);
        let each = if divides(bk, size) && divides(part, one) { one } else { gcd(part, size) };
        Grouped { size, bk, each }
    }

    /// Bytes of a slot of the scales of `rows` rows.
    pub(super) fn bytes(self, rows: i64, elem: Elem) -> i64 {
        aligned(self.elements(rows) * i64::from(elem.bytes()))
    }

    /// Columns of scales in a step.
    pub(super) fn count(self) -> i64 {
        self.bk / self.each
    }

    /// Scales of `rows` rows in a step.
    pub(super) fn elements(self, rows: i64) -> i64 {
        rows * self.count()
    }

    /// Does a step consist of groups, or is it part of one?
    pub(super) fn is_whole(self) -> bool {
        self.each == self.size.min(self.bk)
    }

    /// Columns of scales that are copied at once.
    pub(super) fn wide(self) -> i64 {
        if self.is_whole() { self.count() } else { 1 }
    }
}
