//! Bank conflicts of one warp's access to shared memory.
//!
//! # The model
//! 32 banks, each 4 bytes wide; in one *wavefront* every bank serves one word, as a broadcast to all lanes
//! that read it. An access is split into groups of lanes, and a group takes as many wavefronts as the busiest
//! bank has distinct words to serve.
//!
//! | bytes per lane | lanes in a group |
//! |---|---|
//! | 1, 2, 4 | 32 |
//! | 8 | 16; a load whose lanes pair up: 32 |
//! | 16 | 8; a load whose lanes pair up: 16 |
//!
//! Lanes pair up when every active lane `i` reads the same address as lane `i^1` (or that lane is inactive),
//! or every active lane the same as lane `i^2`; all lanes of the warp pair up, or none. Stores, `ldmatrix`
//! and `stmatrix` are never merged. Several writes to one word, or to different bytes of it, take one wavefront.
//!
//! An H100 counts the same wavefronts for each of the 1,664 random and structured accesses of
//! `tests/vectors/wavefronts.txt`, partial masks included; `tests/vectors/wavefronts.cu` beside it counts
//! them again. If another chip differs, change `lanes_in_group` and `pairs_up` below.

use std::fmt;

use crate::access::{LANES, Transfer, WarpAccess, first_lanes};
use crate::error::{Condition, LayoutError, Result};

/// Bytes in one row of all banks.
pub(crate) const BANK_ROW: i64 = 128;
/// Bytes of a bank in one row.
pub(crate) const BANK: i64 = 4;

/// The cost of a warp's access to shared memory; see [`WarpAccess::banks`].
///
/// `Display` prints a sentence for a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BankReport {
    /// Wavefronts of the access.
    pub wavefronts: u32,
    /// Wavefronts without bank conflicts.
    pub ideal: u32,
    /// The conflict degree: the most distinct words that one bank must serve to one group of lanes. 1 without
    /// conflicts, 0 without lanes.
    pub degree: u32,
    /// The worst conflict, if there is one.
    pub worst: Option<BankConflict>,
}

/// The bank with the worst conflict.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BankConflict {
    /// The bank, 0 to 31; for accesses of several banks, the first of the banks with equal conflicts.
    pub bank: u32,
    /// The lanes whose words conflict in this bank, as a mask.
    pub lanes: u32,
}

impl BankReport {
    /// Is there no bank conflict?
    pub fn is_conflict_free(&self) -> bool {
        self.wavefronts == self.ideal
    }

    /// Wavefronts lost to conflicts.
    pub fn excess(&self) -> u32 {
        self.wavefronts - self.ideal
    }
}

impl BankConflict {
    /// The lanes of the conflict.
    pub fn lanes(&self) -> impl Iterator<Item = u32> + use<> {
        let lanes = self.lanes;
        (0..LANES as u32).filter(move |lane| lanes >> lane & 1 == 1)
    }
}

impl fmt::Display for BankReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.wavefronts == 1 { "" } else { "s" };
        write!(f, "{} wavefront{s}", self.wavefronts)?;
        let Some(worst) = &self.worst else {
            return f.write_str(", no bank conflict");
        };
        write!(f, " instead of {}: {}-way conflict on bank {}, lanes", self.ideal, self.degree, worst.bank)?;
        const SHOWN: usize = 8;
        for (i, lane) in worst.lanes().take(SHOWN).enumerate() {
            write!(f, "{} {lane}", if i > 0 { "," } else { "" })?;
        }
        if worst.lanes().count() > SHOWN {
            f.write_str(", …")?;
        }
        Ok(())
    }
}

/// The rule of the hardware: how many consecutive lanes form a group. `paired` tells whether the lanes pair
/// up.
const fn lanes_in_group(transfer: Transfer, bytes: i64, paired: bool) -> usize {
    let plain = match bytes {
        16 => 8,
        8 => 16,
        _ => 32,
    };
    match transfer {
        Transfer::Load if paired && plain < LANES => 2 * plain,
        _ => plain,
    }
}

impl WarpAccess {
    /// The wavefronts of this access in shared memory, and the worst bank conflict. The buffer must be
    /// aligned to the bytes per lane and to 4, and every address to the bytes per lane.
    ///
    /// ```
    /// use tilewright_layout::{Transfer, WarpAccess, layout};
    /// // a warp reads a row of a column-major 32x32 tile of floats, then of one padded by a row
    /// let banks = |stride: i64| WarpAccess::new(layout!(32 : stride), 4, Transfer::Load)?.banks();
    /// assert_eq!(banks(32)?.wavefronts, 32);
    /// assert!(banks(33)?.is_conflict_free());
    /// assert_eq!(
    ///     banks(4)?.to_string(),
    ///     "4 wavefronts instead of 1: 4-way conflict on bank 0, lanes 0, 8, 16, 24",
    /// );
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn banks(&self) -> Result<BankReport> {
        for lane in 0..LANES {
            if self.active >> lane & 1 == 1 && self.addresses[lane] & (self.bytes - 1) != 0 {
                return Err(misaligned(lane, self.addresses[lane], self.bytes));
            }
        }
        // Aligned vectors of one width are equal or disjoint: it suffices to count vectors, each in its slot
        // of banks.
        let unit = self.bytes.max(BANK);
        let slots = (BANK_ROW / unit) as usize;
        let bits = unit.trailing_zeros();
        let group = self.lanes_together();
        let mut report = BankReport { wavefronts: 0, ideal: 0, degree: 0, worst: None };
        let mut first = 0;
        while first < LANES {
            if self.active & (first_lanes(group) << first) != 0 {
                let (degree, slot) = self.busiest(first, group, bits, slots);
                report.wavefronts += degree;
                report.ideal += 1;
                if degree > report.degree {
                    report.degree = degree;
                    report.worst = (degree > 1).then(|| BankConflict {
                        bank: (slot as i64 * unit / BANK) as u32,
                        lanes: self.lanes_of_slot(first, group, bits, slots, slot),
                    });
                }
            }
            first += group;
        }
        Ok(report)
    }

    /// The number of consecutive lanes that shared memory serves together. Only words of lanes in one such group conflict.
    ///
    /// ```
    /// use tilewright_layout::{Transfer, WarpAccess, layout};
    /// let vectors = WarpAccess::new(layout!((32, 4) : (4, 1)), 4, Transfer::Store)?;
    /// assert_eq!(vectors.lanes_together(), 8); // 16 bytes each
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn lanes_together(&self) -> usize {
        lanes_in_group(self.transfer, self.bytes, self.pairs_up())
    }

    /// Does every active lane share its address with its partner, for one of the two pairings?
    fn pairs_up(&self) -> bool {
        self.paired_by(1) || self.paired_by(2)
    }

    fn paired_by(&self, flip: usize) -> bool {
        let mut lane = 0;
        while lane < LANES {
            let both = self.active >> lane & self.active >> (lane ^ flip) & 1 == 1;
            if both && self.addresses[lane] != self.addresses[lane ^ flip] {
                return false;
            }
            lane += 1;
        }
        true
    }

    /// The slot with the most distinct vectors among these lanes, and their number. Plain loops over small
    /// arrays: this runs unoptimised inside macros.
    fn busiest(&self, first: usize, group: usize, bits: u32, slots: usize) -> (u32, usize) {
        const NONE: usize = usize::MAX;
        let mut newest = [NONE; LANES]; // per slot: the last lane that brought a new vector
        let mut before = [NONE; LANES]; // per lane: the lane before it in the same slot
        let mut count = [0u32; LANES];
        let (mut most, mut worst) = (0, 0);
        let mut lane = first;
        while lane < first + group {
            if self.active >> lane & 1 == 1 {
                let vector = self.addresses[lane] >> bits;
                let slot = vector as usize & (slots - 1);
                let mut other = newest[slot];
                while other != NONE && self.addresses[other] >> bits != vector {
                    other = before[other];
                }
                if other == NONE {
                    before[lane] = newest[slot];
                    newest[slot] = lane;
                    count[slot] += 1;
                    if count[slot] > most {
                        (most, worst) = (count[slot], slot);
                    }
                }
            }
            lane += 1;
        }
        (most, worst)
    }

    fn lanes_of_slot(&self, first: usize, group: usize, bits: u32, slots: usize, slot: usize) -> u32 {
        let wanted = |lane: &usize| (self.addresses[*lane] >> bits) as usize & (slots - 1) == slot;
        let lanes = (first..first + group).filter(wanted).fold(0, |all, lane| all | 1 << lane);
        lanes & self.active
    }
}

fn misaligned(lane: usize, address: i64, bytes: i64) -> LayoutError {
    LayoutError::new("banks", Condition::Misaligned { lane, address, bytes })
}

/// The wavefronts of a whole warp's access whose byte addresses are XORs of a column for each bit of the lane, and the wavefronts
/// without conflicts. Addresses must be multiples of `bytes`.
///
/// Within a group of lanes, which is a subspace of the lane bits, there are `2^rank` distinct vectors. They are in `2^r` slots of banks,
/// where `r` is the rank of the projection on the bank bits. Every slot has the same number of vectors.
pub(crate) fn wavefronts(columns: [u64; 5], bytes: i64, transfer: Transfer) -> (u32, u32) {
    let unit = bytes.max(BANK) as u64;
    let paired = columns[0] == 0 || columns[1] == 0;
    let group = lanes_in_group(transfer, bytes, paired);
    let (mut words, mut banks) = ([0; 5], [0; 5]);
    let bits = group.trailing_zeros() as usize;
    for bit in 0..bits {
        words[bit] = columns[bit] & !(unit - 1);
        banks[bit] = words[bit] & (BANK_ROW as u64 - 1);
    }
    let serial = rank(&mut words[..bits]) - rank(&mut banks[..bits]);
    let groups = (LANES / group) as u32;
    (groups << serial, groups)
}

/// The rank of these columns over the field of two elements. They are overwritten.
fn rank(columns: &mut [u64]) -> u32 {
    let mut rank = 0;
    for at in 0..columns.len() {
        let pivot = columns[at];
        if pivot != 0 {
            rank += 1;
            let low = pivot & pivot.wrapping_neg();
            columns[at + 1..]
                .iter_mut()
                .filter(|column| **column & low != 0)
                .for_each(|column| *column ^= pivot);
        }
    }
    rank
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swizzle::Composed;

    /// wavefronts, ideal, degree
    #[track_caller]
    fn check(what: &str, layout: &str, element: i64, transfer: Transfer, expected: (u32, u32, u32)) {
        let layout: Composed = layout.parse().unwrap();
        let report = WarpAccess::new(layout, element, transfer).unwrap().banks().unwrap();
        assert_eq!((report.wavefronts, report.ideal, report.degree), expected, "{what}");
        assert_eq!(report.worst.is_none(), report.is_conflict_free(), "{what}");
    }

    #[test]
    fn known_accesses() {
        use Transfer::*;
        check("floats side by side", "32:1", 4, Load, (1, 1, 1));
        check("all the same word", "32:0", 4, Load, (1, 1, 1));
        check("a row of 32x32", "32:32", 4, Load, (32, 1, 32));
        check("a row of 32x32, padded", "32:33", 4, Store, (1, 1, 1));
        check("a row of 32x32, swizzled", "Sw<5,0,5> o 7 o 32:32", 4, Load, (1, 1, 1));
        check("every second float", "32:2", 4, Load, (2, 1, 2));
        check("bytes of one word", "32:1", 1, Store, (1, 1, 1));
        check("bytes, one per word row", "32:128", 1, Load, (32, 1, 32));
        check("halves side by side", "32:1", 2, Load, (1, 1, 1));
        check("backwards", "Sw<0,0,0> o 31 o 32:-1", 4, Load, (1, 1, 1));
        check("doubles side by side", "32:1", 8, Load, (2, 2, 1));
        check("doubles, pairs of lanes alike", "((2,16),1):((0,1),0)", 8, Load, (1, 1, 1));
        check("doubles, next pairs alike", "((2,2,8),1):((1,0,2),0)", 8, Load, (1, 1, 1));
        check("doubles, halves of the warp alike", "((16,2),1):((1,0),0)", 8, Load, (2, 2, 1));
        check("doubles, pairs of lanes alike, stored", "((2,16),1):((0,1),0)", 8, Store, (2, 2, 1));
        check("16 bytes side by side", "(32,4):(4,1)", 4, Load, (4, 4, 1));
        check("16 bytes, all alike", "(32,4):(0,1)", 4, Load, (2, 2, 1));
        check("16 bytes, all alike, stored", "(32,4):(0,1)", 4, Store, (4, 4, 1));
        check("16 bytes down a column of 32 words", "(32,4):(32,1)", 4, Load, (32, 4, 8));
        check("ldmatrix, rows of 64 halves", "(32,8):(64,1)", 2, Matrix, (32, 4, 8));
        check("ldmatrix, swizzled", "Sw<3,3,3> o 0 o (32,8):(64,1)", 2, Matrix, (4, 4, 1));
        check("ldmatrix, all alike", "(32,8):(0,1)", 2, Matrix, (4, 4, 1));
        check("eight lanes only", "(8,8):(64,1)", 2, Matrix, (8, 1, 8));
    }

    #[test]
    fn messages_and_masks() {
        let column = WarpAccess::new("32:32".parse::<Composed>().unwrap(), 4, Transfer::Load).unwrap();
        assert_eq!(
            column.banks().unwrap().to_string(),
            "32 wavefronts instead of 1: 32-way conflict on bank 0, lanes 0, 1, 2, 3, 4, 5, 6, 7, …"
        );
        let few = column.masked(0x8000_0010).banks().unwrap();
        assert_eq!(few.to_string(), "2 wavefronts instead of 1: 2-way conflict on bank 0, lanes 4, 31");
        assert_eq!(column.masked(1).banks().unwrap().to_string(), "1 wavefront, no bank conflict");
        assert_eq!(column.masked(0).banks().unwrap().wavefronts, 0);
        let odd = WarpAccess::new("(32,4):(5,1)".parse::<Composed>().unwrap(), 4, Transfer::Load).unwrap();
        assert_eq!(
            odd.banks().unwrap_err().line(),
            "banks: lane 1 is at byte 20, which is not a multiple of the 16 bytes that it moves"
        );
    }
}
