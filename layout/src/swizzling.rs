//! [`Swizzling`]: the XOR swizzle of a shared tile that leaves the fewest bank conflicts.

use crate::access::LANES;
use crate::banks::{BANK, BANK_ROW, wavefronts};
use crate::swizzle::{Composed, Swizzle};
use crate::synthesis::{SharedTile, TileAccess};

/// The swizzled layout with the fewest conflicts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Swizzling {
    /// The layout; the plain one if no swizzle helps.
    pub layout: Composed,
    /// The growth of the tile in elements: 0 if its size is a power of two; negative if the layout removes
    /// padding of the plain layout.
    pub extra: i64,
    /// Wavefronts lost to conflicts, all accesses taken together; `None` if some vector is misaligned.
    pub excess: Option<u32>,
}

impl SharedTile {
    /// The best swizzle of the tile without its padding, or, if that leaves conflicts, of the tile with it.
    pub(crate) fn swizzle(&self, plain: Option<u32>, tried: &mut u32) -> Swizzling {
        let mut best = Swizzling { layout: self.plain.clone().into(), extra: 0, excess: plain };
        if let Some(packed) = self.packed() {
            packed.swizzle_of(&mut best, self.cosize, tried);
        }
        self.swizzle_of(&mut best, self.cosize, tried);
        best
    }

    /// Replaces the best swizzle by a better one, if the vectors are aligned: no swizzle aligns a vector.
    ///
    /// A swizzle consists of pairs of bits: one bit of the offset is XORed onto another. A pair affects
    /// conflicts only if it XORs a bit inside a word onto a bit that selects the word, or a bit above the
    /// banks onto a bit that selects the bank. Any other pair only permutes words within each bank, or
    /// banks, or bytes within words, after all other pairs. So the pairs at both ends must affect conflicts;
    /// otherwise a smaller swizzle has the same effect.
    fn swizzle_of(&self, best: &mut Swizzling, room: i64, tried: &mut u32) {
        let Some(before) = self.excess(&|at| at, u32::MAX).filter(|_| best.excess != Some(0)) else {
            return;
        };
        if best.excess.is_none_or(|excess| before < excess) {
            let layout = Composed::from(&self.plain);
            *best = Swizzling { layout, extra: self.cosize - room, excess: Some(before) };
        }
        if before == 0 {
            return;
        }
        let log = |n: i64| 63 - n.leading_zeros() as i32;
        // offset bits in elements: [word, row) select the bank, [0, reach) exist
        let word = log((BANK / self.element_bytes).max(1));
        let row = log(BANK_ROW / self.element_bytes);
        let reach = log((self.cosize - 1).max(1)) + 1;
        for bits in 1..=row.min(reach) {
            for base in 0..row {
                let down = bits.max(row - base)..=reach - base - bits;
                let down = down.filter(|_| base >= word && base + bits <= row);
                let up = bits.max(word - base)..=reach - base - bits;
                let up = up.filter(|_| base + bits <= word);
                for shift in down.chain(up.map(|shift| -shift)) {
                    let Ok(swizzle) = Swizzle::new(bits as u32, base as u32, shift) else {
                        continue;
                    };
                    *tried += 1;
                    let limit = best.excess.unwrap_or(u32::MAX);
                    if let Some(excess) = self.swizzled_excess(swizzle, limit) {
                        let layout = Composed::new(swizzle, 0, self.plain.clone());
                        let extra = layout.cosize().map_or(0, |cosize| cosize - room);
                        *best = Swizzling { layout, extra, excess: Some(excess) };
                        if excess == 0 {
                            return;
                        }
                    }
                }
            }
        }
    }

    /// As [`SharedTile::excess`], by ranks where the lanes are linear: a swizzle acts on columns as on
    /// offsets.
    fn swizzled_excess(&self, swizzle: Swizzle, limit: u32) -> Option<u32> {
        let mut excess = 0;
        for access in &self.accesses {
            if !access.is_intact(swizzle) {
                return None;
            }
            let bytes = access.vector * self.element_bytes;
            for (columns, count) in &access.linear {
                let mut moved = *columns;
                for column in &mut moved {
                    *column = (swizzle.apply(*column as i64) * self.element_bytes) as u64;
                }
                let (passes, ideal) = wavefronts(moved, bytes, access.transfer);
                excess += count * (passes - ideal);
                if excess >= limit {
                    return None;
                }
            }
            for warp in &access.curved {
                let (active, starts) = &access.warps[*warp];
                let to = |at| swizzle.apply(at);
                excess += self.warp(access, *active, starts, &to).banks().ok()?.excess();
                if excess >= limit {
                    return None;
                }
            }
        }
        Some(excess)
    }
}

impl TileAccess {
    /// Do the elements of every vector stay contiguous? They do if the swizzle does not change the bits
    /// inside a vector; otherwise they still may, if the access covers only a part of the tile.
    fn is_intact(&self, swizzle: Swizzle) -> bool {
        if 1 << swizzle.base() >= self.vector {
            return true;
        }
        self.warps.iter().all(|(active, starts)| {
            let mut lanes = (0..LANES).filter(|lane| active >> lane & 1 == 1);
            lanes.all(|lane| {
                let (start, first) = (starts[lane], swizzle.apply(starts[lane]));
                (1..self.vector).all(|v| swizzle.apply(start + v) == first + v)
            })
        })
    }
}
