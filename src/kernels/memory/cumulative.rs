//! The choice of a cumulative sum for rows of a length.

use super::{BLOCKS, BUSY, Choice, Matrix, OWN, PART, PROCESSORS, SHORT, WIDEST, Work, clusters_at_once};

impl Matrix {
    /// Blocks of a cluster for rows of two bytes an element, which are a few tiles of all its blocks, most of them full.
    fn scanned_by_clusters(&self) -> Option<usize> {
        let Matrix { elem, rows, columns, .. } = *self;
        let own = columns + WIDEST / 2 - 1;
        let full = 5 * own >= 4 * own.next_multiple_of(2 * 4608);
        (elem.bytes() < 4 && rows >= BUSY / 2 && full && columns.div_ceil(PART) == 2).then_some(2)
    }

    /// Rows of two bytes an element, too few for single blocks: each block of a cluster scans one tile of up to 4608 elements.
    fn scanned_at_once(&self) -> Option<Vec<(&'static str, usize)>> {
        let Matrix { elem, rows, columns, .. } = *self;
        let value = WIDEST / elem.bytes() as usize;
        let own = columns + value - 1;
        let blocks = own.div_ceil(4608);
        let few = (PROCESSORS + 1..BUSY).contains(&rows) && columns > PART / 2;
        let threads = own.div_ceil(blocks * 24).next_multiple_of(32);
        let constants =
            [("W", 24 * threads), ("L", threads), ("V", value), ("C", blocks), ("Q", 1280 / threads)];
        (elem.bytes() < 4 && few && blocks <= BLOCKS / 2).then(|| constants.to_vec())
    }

    /// Few long rows: a cluster scans a row, each of its blocks a tile at a time. While a block waits for its cluster, other resident
    /// blocks load.
    fn scanned_by_few(&self, between: bool) -> Option<Vec<(&'static str, usize)>> {
        let Matrix { elem, rows, columns, .. } = *self;
        let narrow = elem.bytes() < 4;
        let few = rows < BUSY / 2 || rows < BUSY && (!narrow || columns > 2 * PART);
        if !few || columns <= PART && (rows > PROCESSORS || columns <= PART / 4) {
            return None;
        }
        let value = if between { WIDEST / elem.bytes() as usize } else { 1 };
        let own = columns + value - 1;
        // The whole row in one step: threads of a block, and elements of each.
        let at_once = |blocks: usize| {
            let threads = own.div_ceil(blocks * 24).next_multiple_of(32).max(128);
            let each = own.div_ceil(blocks * threads).next_multiple_of(8);
            let fits = between && narrow && rows <= 2 * PROCESSORS && blocks > 4 && threads <= 384;
            fits.then_some((threads, each, 1152 / threads))
        };
        // Else threads that have registers for the next tile, too.
        let less = between && rows <= if narrow { 2 * PROCESSORS } else { PROCESSORS };
        let shape = |blocks: usize| match (at_once(blocks), less) {
            (Some(shape), _) => shape,
            (None, true) => (256, OWN, 4),
            (None, false) => (192, OWN, 6),
        };
        // The largest clusters that are resident all at once.
        let fits = |blocks: &usize| rows <= clusters_at_once(*blocks, shape(*blocks).2);
        let blocks = (2..=BLOCKS).rev().find(fits).unwrap_or(2);
        let (threads, each, resident) = shape(blocks);
        // As few steps as that takes, all of them full.
        let steps = own.div_ceil(blocks * threads * each);
        let threads = own.div_ceil(blocks * steps * each).next_multiple_of(32);
        // Four bytes an element leave no registers for it in blocks of 192 threads.
        let ahead = usize::from(at_once(blocks).is_none() && (narrow || less));
        let constants = [
            ("W", threads * each),
            ("L", threads),
            ("V", value),
            ("C", blocks),
            ("Q", resident),
            ("A", ahead),
        ];
        Some(constants.to_vec())
    }

    pub(super) fn scans(&self) -> Choice {
        let Matrix { work, elem, columns, wide, .. } = *self;
        let exclusive = ("E", usize::from(work == Work::SumsBefore));
        let own = |kernel, constants: &[(&'static str, usize)]| self.own(kernel, constants);
        let tiles = |constants: &[_]| own("cumulative_sums", &[constants, &[exclusive]].concat());
        let value = WIDEST / elem.bytes() as usize;
        // Rows begin between the widest vectors.
        let between = wide < value;
        if columns <= (if between { 40 } else { 32 }) * SHORT {
            if !columns.is_multiple_of(32) {
                let mut choice = self.dense("cumulative_sums_dense");
                choice.constants.push(("X", exclusive.1));
                return choice;
            }
            return tiles(&[("R", (256 * OWN / 2 / columns).max(1)), ("W", columns), ("L", 256)]);
        }
        let at_once = if between { self.scanned_at_once() } else { None };
        if let Some(constants) = at_once.or_else(|| self.scanned_by_few(between)) {
            return tiles(&constants);
        }
        if !between || work == Work::SumsBefore {
            // A block scans a tile of its row at a time.
            let most = if between { 256 } else { 512 };
            let threads = columns.div_ceil(OWN).next_multiple_of(128).min(most);
            let width = columns.next_multiple_of(threads * wide).min(threads * OWN);
            let mut constants = vec![("W", width), ("L", threads)];
            // Other blocks load while one waits at its barriers; without a register bound one would be resident.
            // Narrow accesses need more registers.
            constants.extend((!between).then_some(("Q", 1536 / threads)));
            return tiles(&constants);
        }
        if let Some(blocks) = self.scanned_by_clusters() {
            return tiles(&[("W", 4608), ("L", 192), ("V", value), ("C", blocks), ("Q", 6)]);
        }
        let narrow = elem.bytes() < 4;
        if columns > if narrow { 3 * PART / 2 } else { 2 * PART } {
            let (threads, resident) = if narrow { (192, 6) } else { (256, 4) };
            // Two blocks share rows of a few steps.
            let blocks = if narrow && columns <= 4 * PART { 2 } else { 1 };
            let shape = [("W", threads * OWN), ("L", threads), ("V", value), ("C", blocks), ("Q", resident)];
            return tiles(&[&shape[..], &[("A", 1)]].concat());
        }
        if elem.bytes() < 4 {
            // The fewest tiles of up to 288 vectors, as full as possible, but two tiles if one would have more than four warps.
            let vectors = (columns + value - 1).div_ceil(value);
            let tiles = vectors.div_ceil(288).max(vectors.div_ceil(128).min(2));
            let threads = vectors.div_ceil(tiles).next_multiple_of(32);
            // A multiprocessor's threads with 36 registers each.
            let resident = 1792 / threads;
            return own("cumulative_sums_vectors", &[("L", threads), ("V", value), ("Q", resident)]);
        }
        // As few tiles as possible, as full as possible.
        let threads = columns.div_ceil(17 * columns.div_ceil(17 * 512)).next_multiple_of(32);
        own("cumulative_sums_unaligned", &[("L", threads)])
    }
}
