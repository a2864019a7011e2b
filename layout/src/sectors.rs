//! Coalescing of one warp's access to global memory: which 32-byte sectors and 128-byte lines it touches.
//!
//! Global memory is transferred in sectors of 32 bytes, four to a cache line of 128. Unused bytes of a sector
//! are transferred all the same; the order of the lanes does not matter.

use std::fmt;

use crate::access::{LANES, WarpAccess};
use crate::error::{Condition, LayoutError, Result};

const SECTOR: i64 = 32;
const LINE: i64 = 128;

/// The traffic of one access of a warp to global memory; see [`WarpAccess::sectors`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SectorReport {
    /// Distinct sectors of 32 bytes.
    pub sectors: u32,
    /// Distinct lines of 128 bytes.
    pub lines: u32,
    /// The fewest sectors that could contain the used bytes.
    pub ideal_sectors: u32,
    /// Distinct bytes that the lanes use.
    pub bytes_used: u32,
    /// The largest power of two that divides the address of every lane, as far as the alignment of the base
    /// is known. An access of `n` bytes per lane is legal only if this is at least `n`.
    pub alignment: i64,
}

impl SectorReport {
    /// Transferred bytes: whole sectors.
    pub fn bytes_moved(&self) -> u32 {
        self.sectors * SECTOR as u32
    }

    /// Used bytes for each transferred byte, at most 1; 1 for an access of no lanes.
    pub fn efficiency(&self) -> f64 {
        if self.sectors == 0 {
            return 1.0;
        }
        f64::from(self.bytes_used) / f64::from(self.bytes_moved())
    }

    /// Does it touch the fewest sectors possible?
    pub fn is_coalesced(&self) -> bool {
        self.sectors == self.ideal_sectors
    }
}

impl fmt::Display for SectorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = |n: u32| if n == 1 { "" } else { "s" };
        write!(f, "{} sector{}", self.sectors, s(self.sectors))?;
        if !self.is_coalesced() {
            write!(f, " instead of {}", self.ideal_sectors)?;
        }
        write!(
            f,
            " in {} line{}, {:.0}% of the bytes moved are used",
            self.lines,
            s(self.lines),
            100.0 * self.efficiency()
        )
    }
}

impl WarpAccess {
    /// The sectors and lines of this access in global memory, if the buffer is aligned to
    /// `base_alignment` bytes, a power of two. If several positions relative to a line are possible, the
    /// numbers are for the worst.
    ///
    /// ```
    /// use tilewright_layout::{Transfer, WarpAccess, layout};
    /// let row = WarpAccess::new(layout!((32, 4) : (4, 1)), 4, Transfer::Load)?; // 512 bytes side by side
    /// assert_eq!(row.sectors(256)?.to_string(), "16 sectors in 4 lines, 100% of the bytes moved are used");
    /// assert_eq!(row.sectors(16)?.sectors, 17); // may begin in the middle of a sector
    /// let column = WarpAccess::new(layout!(32 : 1024), 4, Transfer::Load)?;
    /// assert_eq!(
    ///     column.sectors(256)?.to_string(),
    ///     "32 sectors instead of 4 in 32 lines, 12% of the bytes moved are used",
    /// );
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn sectors(&self, base_alignment: i64) -> Result<SectorReport> {
        if base_alignment < 1 || base_alignment.count_ones() != 1 {
            let what = "the alignment of the base must be a power of two";
            let value = base_alignment;
            return Err(LayoutError::new("sectors", Condition::BadArgument { what, value }));
        }
        let mut sorted = [0i64; LANES];
        let mut count = 0;
        let mut alignment = base_alignment;
        for lane in 0..LANES {
            if self.active >> lane & 1 == 0 {
                continue;
            }
            let address = self.addresses[lane];
            if address > i64::MAX - 2 * LINE {
                return Err(LayoutError::new("sectors", Condition::Overflow { leaf: None }));
            }
            while address & (alignment - 1) != 0 {
                alignment >>= 1;
            }
            // lanes mostly come in order
            let mut at = count;
            while at > 0 && sorted[at - 1] > address {
                sorted[at] = sorted[at - 1];
                at -= 1;
            }
            sorted[at] = address;
            count += 1;
        }
        let sorted = &sorted[..count];
        let bytes_used = blocks(sorted, self.bytes, 0, 1);
        let (mut sectors, mut lines, mut base) = (0, 0, 0);
        while base < LINE {
            if base < SECTOR {
                sectors = sectors.max(blocks(sorted, self.bytes, base, SECTOR));
            }
            lines = lines.max(blocks(sorted, self.bytes, base, LINE));
            base += base_alignment.min(LINE);
        }
        Ok(SectorReport {
            sectors,
            lines,
            ideal_sectors: bytes_used.div_ceil(SECTOR as u32),
            bytes_used,
            alignment,
        })
    }
}

/// How many distinct blocks of `size` bytes these vectors touch, when the buffer begins at `base`.
fn blocks(sorted: &[i64], bytes: i64, base: i64, size: i64) -> u32 {
    let bits = size.trailing_zeros();
    let (mut count, mut next) = (0, i64::MIN); // `next`: the first block not counted yet
    for address in sorted {
        let first = (address + base) >> bits;
        let end = ((address + base + bytes - 1) >> bits) + 1;
        if end > next {
            count += (end - first.max(next)) as u32;
            next = end;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Transfer;
    use crate::swizzle::Composed;

    /// sectors, lines, ideal sectors, bytes used, alignment
    #[track_caller]
    fn check(what: &str, layout: &str, element: i64, base: i64, expected: (u32, u32, u32, u32, i64)) {
        let layout: Composed = layout.parse().unwrap();
        let access = WarpAccess::new(layout, element, Transfer::Load).unwrap();
        let r = access.sectors(base).unwrap();
        assert_eq!((r.sectors, r.lines, r.ideal_sectors, r.bytes_used, r.alignment), expected, "{what}");
    }

    #[test]
    fn known_accesses() {
        check("floats side by side", "32:1", 4, 256, (4, 1, 4, 128, 4));
        check("floats side by side, base of 4", "32:1", 4, 4, (5, 2, 4, 128, 4));
        check("floats side by side, base of 32", "32:1", 4, 32, (4, 2, 4, 128, 4));
        check("16 bytes side by side", "(32,4):(4,1)", 4, 256, (16, 4, 16, 512, 16));
        check("one row further", "Sw<0,0,0> o 1 o 32:1", 4, 256, (5, 2, 4, 128, 4));
        check("a column of floats, 1000 a row", "32:1000", 4, 256, (32, 32, 4, 128, 32));
        check("a column of whole lines", "32:32", 4, 256, (32, 32, 4, 128, 128));
        check("every second float", "32:2", 4, 256, (8, 2, 4, 128, 8));
        check("broadcast", "32:0", 4, 256, (1, 1, 1, 4, 256));
        check("(8,4) threads, rows of 4", "((8,4),4):((4,256),1)", 4, 256, (16, 4, 16, 512, 16));
        check("backwards from the beginning", "32:-1", 4, 256, (5, 2, 4, 128, 4));
    }

    #[test]
    fn masks_and_bad_bases() {
        let access = WarpAccess::new("32:1".parse::<Composed>().unwrap(), 4, Transfer::Load).unwrap();
        assert_eq!(access.masked(0xff).sectors(128).unwrap().sectors, 1);
        let none = access.masked(0).sectors(128).unwrap();
        assert_eq!((none.sectors, none.efficiency()), (0, 1.0));
        for bad in [0, -4, 48] {
            assert!(access.sectors(bad).unwrap_err().line().contains("power of two"));
        }
    }
}
