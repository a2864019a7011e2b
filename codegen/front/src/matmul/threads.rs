//! Thread layouts of products on CUDA cores: defaults for the multiply-adds, and layouts for the copies into shared tiles.

use tilewright_layout::{Composed, Layout};

use super::reader::Reader;
use crate::values::elem::Elem;
use crate::values::target::WARP;

/// The copy of one operand into its shared tile.
#[derive(Clone)]
pub(super) struct Copied {
    pub(super) of: Copy,
    pub(super) threads: Layout,
    pub(super) tile: Composed,
}

/// What such a copy is like, without layouts.
#[derive(Clone, Copy)]
pub(super) struct Copy {
    /// Rows of the tile.
    extent: i64,
    /// Its extent along K.
    k: i64,
    /// Are its rows contiguous?
    pub(super) rows: bool,
    /// Vector width.
    pub(super) vec: i64,
    /// Adjacent rows of a thread's product.
    value: i64,
    /// Does it go through registers, by its key?
    pub(super) staged: bool,
}

impl Copy {
    /// The default thread layout: along the contiguous mode.
    fn threads(self, threads: i64) -> tilewright_layout::Result<Layout> {
        let Copy { extent, k, rows, vec, value, .. } = self;
        let run = if rows { k } else { extent } / vec;
        // Columns that a warp writes are padded by the width of a thread's read.
        let most = if rows { (32 / value / vec).max(1) } else { 32 };
        let fast = (1..=run.clamp(1, most)).rev().find(|n| run % n == 0 && threads % n == 0).unwrap_or(1);
        // Where such threads do not divide the other mode, others may.
        let fast = if self.divides(fast, threads) || self.continues(fast, threads) {
            fast
        } else {
            (1..=run.max(1)).rev().find(|&fast| self.divides(fast, threads)).unwrap_or(fast)
        };
        let slow = threads / fast;
        let more = slow / extent;
        match rows {
            true if self.continues(fast, threads) => {
                Layout::new((extent, (fast, more)), (fast, (1i64, fast * extent)))
            }
            true => Layout::new((slow, fast), (fast, 1i64)),
            false => Layout::compact((fast, slow)),
        }
    }

    /// Vectors along the contiguous mode, and the extent of the other mode.
    fn vectors(self) -> (i64, i64) {
        let Copy { extent, k, rows, vec, .. } = self;
        if rows { (k / vec, extent) } else { (extent / vec, k) }
    }

    /// Do `fast` threads along the contiguous mode, and the rest along the other mode, divide the tile?
    fn divides(self, fast: i64, threads: i64) -> bool {
        let (run, other) = self.vectors();
        run % fast == 0 && threads % fast == 0 && other % (threads / fast) == 0
    }

    /// Do more threads than there are rows continue along K?
    fn continues(self, fast: i64, threads: i64) -> bool {
        let ((run, _), slow) = (self.vectors(), threads / fast);
        let more = slow / self.extent;
        self.rows && more > 1 && slow % self.extent == 0 && run % (fast * more) == 0
    }

    /// Has it a thread layout for `threads` threads?
    fn suits(self, threads: i64) -> bool {
        (1..=self.vectors().0.max(1)).any(|fast| self.divides(fast, threads) || self.continues(fast, threads))
    }

    /// The padding of its shared tile: a warp that copies rows writes several columns, and padding keeps them in different
    /// banks.
    fn padding(self, threads: &Composed, dtype: Elem) -> i64 {
        let Copy { rows, vec, value, .. } = self;
        let lanes = if dtype.bytes() == 8 { 16 } else { 32 };
        let columns = threads.layout().mode(1).and_then(|k| k.size()).unwrap_or(1);
        // Columns stay aligned to reads of 16 bytes.
        let value = value.min(16 / i64::from(dtype.bytes()));
        // Only the columns that one warp writes.
        let columns = columns.min((32 / value / vec).max(1));
        match rows {
            true => (lanes / (columns * vec).max(1)).max(1),
            // Vectors along columns have no bank conflicts.
            false if vec > 1 => 0,
            false => value,
        }
    }
}

impl Reader<'_> {
    /// The copies of A and of B into shared tiles; `narrow` means `vec = 1`.
    pub(super) fn sides(
        &mut self,
        [bm, bn, k]: [i64; 3],
        all_rows: [bool; 2],
        narrow: bool,
        values: &[i64],
    ) -> [Copy; 2] {
        let vec = if narrow { 1 } else { self.positive("vec", 1) };
        let choices = [("none", [false; 2]), ("transposed", all_rows), ("both", [true; 2])];
        let all_staged = self.choice("staged", &choices);
        [0, 1].map(|side| {
            let (rows, staged) = (all_rows[side], all_staged[side]);
            // Vectors need the shared tile to be contiguous along the same mode as global memory.
            let is_across = rows && !staged && self.find(["sa", "sb"][side]).is_none();
            let vec = if is_across { 1 } else { vec };
            Copy { extent: [bm, bn][side], k, rows, vec, value: values[side], staged }
        })
    }

    /// The copies by threads of the block. `threads` of them multiply.
    pub(super) fn copies(&mut self, sides: [Copy; 2], threads: i64, dtype: Elem) -> Option<[Copied; 2]> {
        let given = self.find("pad").is_some().then(|| self.whole("pad", 1));
        let mut copied = |side: usize| {
            let (key, of, of_threads) = (["sa", "sb"][side], sides[side], ["ta", "tb"][side]);
            let (rows, k) = (of.extent, of.k);
            let threads = self.layout(of_threads, || of.threads(threads))?;
            let pad = given.unwrap_or_else(|| of.padding(&threads, dtype));
            let tile = self.layout(key, || Layout::padded((rows, k), pad))?;
            let shape = tile.shape();
            if !shape.modes().map(|mode| mode.product()).eq([Some(rows), Some(k)]) {
                let message =
                    format!("the shared layout has the shape {shape}, and the tile is ({rows},{k})");
                self.refuse(key, message, format!("write {key} = layout!(({rows}, {k}) : …)"));
            }
            Some(Copied { of, threads: self.threads(of_threads, threads, &[2])?, tile })
        };
        let [a, b] = [0, 1].map(&mut copied);
        Some([a?, b?])
    }
}

/// The threads along rows and columns of a tile where none are given: 16x16, or whole warps that divide the tiles.
pub(super) fn tc(tile: [i64; 3], values: &[i64], sides: &[Copy; 2], acc: Elem) -> (i64, i64) {
    const USUAL: (i64, i64) = (16, 16);
    /// The most registers of a thread for accumulators. The second number leaves few other registers, and is for
    /// tiles that no threads divide within the first.
    const SUMS: [i64; 2] = [128, 176];
    let extents = [0, 1].map(|mode| tile[mode] / values[mode]);
    let whole = [0, 1].iter().all(|&mode| tile[mode] % values[mode] == 0);
    let suits = |&(over, columns): &(i64, i64)| {
        let divide = extents[0] % over == 0 && extents[1] % columns == 0;
        divide && sides.iter().all(|copy| copy.suits(over * columns))
    };
    if !whole || suits(&USUAL) {
        return USUAL;
    }
    let most = USUAL.0 * USUAL.1;
    let all = (1..=most).flat_map(|over| (1..=most / over).map(move |columns| (over, columns)));
    // Many threads, and then few accesses for each of them.
    let rank = |&(over, columns): &(i64, i64)| (over * columns, -(over + columns));
    let best = |most: i64| {
        let fits = |(over, columns): &(i64, i64)| {
            let threads = over * columns;
            threads % i64::from(WARP) == 0 && tile[0] * tile[1] * i64::from(acc.bytes()) / 4 <= threads * most
        };
        all.clone().filter(fits).filter(suits).max_by_key(rank)
    };
    SUMS.into_iter().find_map(best).unwrap_or(USUAL)
}
