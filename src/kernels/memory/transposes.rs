//! The choice of tile and threads for a transpose.

use super::{Choice, PROCESSORS, WIDEST, dividing};
use crate::Elem;

/// Bytes of a sector.
const SECTOR: usize = 32;
/// Bytes that the L2 cache still has when neighbours of a tile need them.
const CACHED: usize = 16 << 20;

/// The kernel for a transpose: reads are coalesced along rows of the matrix, writes along its columns.
pub(super) fn choose(elem: Elem, rows: usize, columns: usize) -> Choice {
    let most = WIDEST / elem.bytes() as usize;
    let (v, u) = (dividing(columns.max(1), most), dividing(rows.max(1), most));
    // Columns of single 16-bit elements cost less than the bank conflicts of vectors of rows.
    let v = if u == 1 && elem.bytes() < 4 && rows > 64 { 1 } else { v };
    let side = if v.min(u) >= 4 { 256 / elem.bytes() as usize } else { 64 };
    // A short side is covered by one tile; the other side of the tile is longer by the same factor.
    let fit = |extent: usize| match extent {
        0..=1 => 1,
        2..=8 => 8,
        9..=32 => extent.next_multiple_of(16),
        _ => side,
    };
    let other = |short: usize| {
        (side * side / short).next_power_of_two().clamp(side, if short == 1 { 1024 } else { 512 })
    };
    // Columns of the result begin in the middle of sectors.
    let cut = !(rows * elem.bytes() as usize).is_multiple_of(SECTOR);
    let long = if elem.bytes() > 2 { 128 } else { 256 };
    let (b, e) = match (fit(rows), fit(columns)) {
        (b, e) if b < side && e < side => (b, e),
        (b, _) if b < side => (b, other(b)),
        (_, e) if e < side => (other(e), e),
        // Tiles of 128 rows would be half empty; more rows at once have bank conflicts.
        _ if (33..=64).contains(&rows) && side > 64 => {
            let sizes = [("V", v), ("C", 16), ("U", u), ("D", 64 / u), ("B", 64), ("E", side), ("P", 2)];
            return Choice::strided("transpose", Some(elem), sizes.to_vec());
        }
        // One tile instead of two.
        (b, e) if (b + 1..=b + 48).contains(&rows) && v * u > 1 => (rows.next_multiple_of(16), e),
        // One tile for all columns, where there are enough of them for all multiprocessors.
        _ if cut && v * u > 1 && (97..=128).contains(&columns) && rows >= 4 * PROCESSORS * long => {
            (long, 128)
        }
        _ if cut
            && elem.bytes() < 4
            && (65..=if v * u == 1 { 96 } else { 112 }).contains(&columns)
            && rows > 1024 =>
        {
            (128, columns.next_multiple_of(16))
        }
        // Longer pieces of columns cut fewer sectors; fewer registers leave room for more threads.
        (_, e) if cut && rows > 64 => {
            let narrow = e.min(128 / elem.bytes() as usize);
            let occupies = |b: usize, e: usize| rows.div_ceil(b) * columns.div_ceil(e) >= 4 * PROCESSORS;
            match rows {
                // One tile for all rows: the pieces of its columns are adjacent.
                ..=320 => {
                    (rows.next_multiple_of(if elem.bytes() > 2 { 32 } else { 32 * u.min(2) }), e.min(32))
                }
                // The longest that columns fill but for a part in six, if there are enough tiles for all multiprocessors.
                321..2048 => {
                    let fills = |b: &usize| 5 * rows.next_multiple_of(*b) <= 6 * rows && occupies(*b, 32);
                    ([256, 192, 128].into_iter().find(fills).unwrap_or(64), e.min(32))
                }
                _ if v * u == 1 && !occupies(256, narrow) => (128, narrow),
                _ => (256, narrow),
            }
        }
        both => both,
    };
    let u = if b.is_power_of_two() || cut && elem.bytes() < 4 { u } else { 1 };
    // Lanes of a whole warp along columns of the result read more rows at once than there are banks.
    let (v, u) = match cut && elem.bytes() < 4 && rows > 64 {
        true => (if e > 64 { v.min(2) } else { v }, u.min(2)),
        false => (v, u),
    };
    // Threads along contiguous elements, so that both modes of the tile are divided.
    let threads = |along: usize, across: usize, values: usize, whole: bool| {
        let divides = |n: &usize| along.is_multiple_of(n * values) && across.is_multiple_of(256 / n);
        // A whole warp writes one piece of a column where pieces cut sectors.
        let usual = if whole || values == 1 { 32 } else { 32 / values.min(4) };
        [usual, 2 * usual, usual / 2, 4 * usual, usual / 4, usual / 8, 8 * usual, 1]
            .into_iter()
            .find(|n| *n > 0 && divides(n))
    };
    let narrower = |along, across, values: usize, whole| {
        (0..=values.ilog2()).find_map(|k| Some((values >> k, threads(along, across, values >> k, whole)?)))
    };
    let (Some((v, c)), Some((u, d))) = (narrower(e, b, v, false), narrower(b, e, u, cut)) else {
        let constants = vec![("V", 1), ("C", 32), ("U", 1), ("D", 32)];
        return Choice::strided("transpose", Some(elem), constants);
    };
    let pad = 4 / elem.bytes() as usize;
    let mut constants = vec![("V", v), ("C", c), ("U", u), ("D", d), ("B", b), ("E", e), ("P", pad)];
    // Blocks along the side of fewer tiles first, where the cache would lose the sectors that a tile shares with the one beside it.
    let (down, across) = (rows.div_ceil(b), columns.div_ceil(e));
    let between = 2 * rows * e * elem.bytes() as usize;
    if cut && (2..down).contains(&across) && between > CACHED && down < 1 << 16 {
        constants.push(("O", 1));
    }
    Choice::strided("transpose", Some(elem), constants)
}
