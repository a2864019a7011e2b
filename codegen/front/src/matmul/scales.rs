//! Scales of narrow weights in groups along K, with their zero points. A step along K has one or more groups, or is part of one
//! group. Otherwise it has a column of scales for each of its parts that lies in one group.

use super::Config;
use crate::thread::index::gcd;

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

impl Config {
    /// The scales in a step of length `bk` that `parts` warps share, if there are any in groups.
    pub(super) fn grouped(&self, bk: i64, parts: i64) -> Option<Grouped> {
        let size = self.group?;
        let divides = |x: i64, y: i64| x % y == 0 || y % x == 0;
        let (one, part) = (size.min(bk), bk / parts);
        let each = if divides(bk, size) && divides(part, one) { one } else { gcd(part, size) };
        Some(Grouped { size, bk, each })
    }

    /// How many such arguments there are.
    pub(super) fn of_groups(&self) -> usize {
        usize::from(self.group.is_some()) + usize::from(self.zeros)
    }

    /// Bytes of a slot of the scales and zero points of `rows` rows.
    pub(super) fn bytes_of_scales(&self, rows: i64, bk: i64, parts: i64) -> i64 {
        let bytes = self.grouped(bk, parts).map_or(0, |of| rows * of.count() * i64::from(self.dtype.bytes()));
        (bytes + BULK - 1) / BULK * BULK * self.of_groups() as i64
    }
}

impl Grouped {
    /// Columns of scales in a step.
    pub(super) fn count(self) -> i64 {
        self.bk / self.each
    }

    /// Columns of scales that are copied at once: all, if a step consists of groups or is part of one.
    pub(super) fn wide(self) -> i64 {
        if self.each == self.size.min(self.bk) { self.count() } else { 1 }
    }
}
