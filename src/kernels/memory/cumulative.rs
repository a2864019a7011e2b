//! The choice of a cumulative sum for rows of a length.

use super::{BLOCKS, BUSY, Choice, Matrix, OWN, PART, PROCESSORS, SHORT, WIDEST, Work};

/// Rows that two blocks of a cluster scan are shorter.
const SCANNED_BY_TWO: usize = 2 * PART + 1;
/// Those that four of them scan.
const SCANNED_BY_FOUR: usize = 3 * PART + 1;

impl Matrix {
    /// Blocks of a cluster for rows of two bytes an element, which are a few tiles of all its blocks, most of them full.
    fn scanned_by_clusters(&self) -> Option<usize> {
        let Matrix { elem, rows, columns, .. } = *self;
        let blocks = match columns {
            _ if elem.bytes() > 2 || rows < BUSY / 2 => return None,
            PART..SCANNED_BY_TWO => 2,
            SCANNED_BY_TWO..SCANNED_BY_FOUR => 4,
            _ => return None,
        };
        let own = columns + WIDEST / 2 - 1;
        (5 * own >= 4 * own.next_multiple_of(blocks * 4608)).then_some(blocks)
    }

    /// Rows of two bytes an element, too few for single blocks: each block of a cluster scans one tile of up to 4608 elements.
    fn scanned_at_once(&self) -> Option<Choice> {
        let Matrix { work, elem, rows, columns, .. } = *self;
        let value = WIDEST / elem.bytes() as usize;
        let own = columns + value - 1;
        let blocks = own.div_ceil(4608);
        let few = (PROCESSORS + 1..BUSY).contains(&rows) && columns > PART / 2;
        if elem.bytes() > 2 || !few || blocks > BLOCKS / 2 {
            return None;
        }
        let threads = own.div_ceil(blocks * 24).next_multiple_of(32);
        let exclusive = usize::from(work == Work::SumsBefore);
        let constants = [
            ("W", 24 * threads),
            ("L", threads),
            ("E", exclusive),
            ("V", value),
            ("C", blocks),
            ("Q", 1280 / threads),
        ];
        Some(self.own("cumulative_sums", &constants))
    }

    pub(super) fn scans(&self) -> Choice {
        let Matrix { work, elem, rows, columns, wide } = *self;
        let own = |kernel, constants: &[(&'static str, usize)]| self.own(kernel, constants);
        // Rows begin between the widest vectors.
        let between = wide * (elem.bytes() as usize) < WIDEST;
        let value = WIDEST / elem.bytes() as usize;
        match work {
            Work::CumulativeSums | Work::SumsBefore if columns <= 32 * SHORT => {
                let exclusive = usize::from(work == Work::SumsBefore);
                if !columns.is_multiple_of(32) {
                    // A warp has two rows where seven elements for each lane suffice.
                    let lanes = match columns {
                        49..=112 => 16,
                        _ => columns.div_ceil(3).next_power_of_two().min(32),
                    };
                    let each = columns.div_ceil(lanes) | 1;
                    return own("cumulative_sums_short", &[("K", each), ("E", exclusive), ("G", lanes)]);
                }
                let rows = (256 * OWN / 2 / columns).max(1);
                own("cumulative_sums", &[("R", rows), ("W", columns), ("L", 256), ("E", exclusive)])
            }
            Work::CumulativeSums | Work::SumsBefore
                if between && let Some(choice) = self.scanned_at_once() =>
            {
                choice
            }
            Work::CumulativeSums | Work::SumsBefore
                if (columns > PART || rows <= PROCESSORS && columns > PART / 4)
                    && (rows < BUSY / 2 || rows < BUSY && (elem.bytes() > 2 || columns > 2 * PART)) =>
            {
                // A cluster scans a row, each of its blocks a tile at a time. While a block waits for its cluster, other
                // resident blocks load. Few rows are scanned in one step.
                let exclusive = usize::from(work == Work::SumsBefore);
                let value = if between { value } else { 1 };
                let blocks = BUSY.div_ceil(rows).next_power_of_two().min(BLOCKS);
                let part = (columns + value - 1).div_ceil(blocks * 24).next_multiple_of(32).max(128);
                let each = (columns + value - 1).div_ceil(blocks * part).next_multiple_of(8);
                let (threads, each, all) = match part {
                    ..=384 if blocks > 4 => (part, each, 1152),
                    // Larger tiles of two bytes an element, so that fewer exchanges follow one another.
                    _ if between && elem.bytes() < 4 && blocks == BLOCKS => (160, 2 * OWN, 960),
                    _ => (256, OWN, 1280),
                };
                let constants = [
                    ("W", threads * each),
                    ("L", threads),
                    ("E", exclusive),
                    ("V", value),
                    ("C", blocks),
                    ("Q", all / threads),
                ];
                own("cumulative_sums", &constants)
            }
            Work::CumulativeSums if between && let Some(blocks) = self.scanned_by_clusters() => {
                let constants = [("W", 4608), ("L", 192), ("E", 0), ("V", value), ("C", blocks), ("Q", 6)];
                own("cumulative_sums", &constants)
            }
            Work::CumulativeSums if between && elem.bytes() < 4 && columns > 4 * PART => {
                let constants = [("W", 256 * OWN), ("L", 256), ("E", 0), ("V", value), ("C", 1), ("Q", 5)];
                own("cumulative_sums", &constants)
            }
            Work::CumulativeSums if between && elem.bytes() < 4 && columns > 1000 => {
                // The fewest tiles of up to 288 vectors, as full as possible, but two tiles if one would have more than four
                // warps.
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
                let exclusive = usize::from(work == Work::SumsBefore);
                let mut choice = own("cumulative_sums", &[("W", width), ("L", threads), ("E", exclusive)]);
                if !between {
                    // Other blocks load while one waits at its barriers; without a register bound one would be resident.
                    // Narrow accesses need more registers.
                    choice.constants.push(("Q", 1536 / threads));
                }
                choice
            }
        }
    }
}
