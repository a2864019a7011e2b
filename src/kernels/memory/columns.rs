//! The choice of tiles and pieces for sums of columns.

use super::{BUSY, Choice, Matrix, PROCESSORS};

impl Matrix {
    /// Rows of a tile of `column_sums`, and how many pieces each column has.
    pub(super) fn pieces(&self) -> (usize, usize) {
        let Matrix { elem, rows, columns, wide, .. } = *self;
        if let Some((.., tile)) = self.narrow_columns() {
            return (tile, rows.div_ceil(tile).min(256));
        }
        // Few columns need long tiles, unless that leaves multiprocessors without work.
        let most = if columns >= 4096 || wide == 1 { 64 } else { 512 / elem.bytes() as usize };
        let across = columns.div_ceil(32 * self.columns_of_thread());
        let occupies = |tile: &usize| across * rows.div_ceil(*tile) >= 2 * PROCESSORS;
        let tile = [256, 128, 64].into_iter().filter(|tile| *tile <= most).find(occupies).unwrap_or(32);
        if across >= BUSY || rows <= 256 {
            return (tile, 1);
        }
        (tile, (2048 / across).clamp(4, 256).min(rows.div_ceil(tile)))
    }

    /// Adjacent columns of a thread of `column_sums`, the number of neighbouring threads, of groups of these, and of rows of a tile. There
    /// are few columns, which would leave lanes idle, or few rows, so that more threads along them have work.
    fn narrow_columns(&self) -> Option<(usize, usize, usize, usize)> {
        let Matrix { rows, columns, wide, .. } = *self;
        // About as many threads as there are vectors of several columns, in one or two blocks, or single columns, in one block.
        let value = self.columns_of_thread();
        let vectors = columns.div_ceil(value);
        let (groups, tile) = match (value, vectors) {
            (1, ..=32) => (32, 256),
            (1, _) => (16, 256),
            _ => (8, 128),
        };
        let (least, across) = (if value == 1 { 16 } else { 32 }, vectors.div_ceil(64));
        if rows > 4096 && vectors > least && across <= value.min(2) {
            return Some((value, vectors.div_ceil(across).next_multiple_of(4), groups, tile));
        }
        let lanes = match columns {
            ..=16 => columns.div_ceil(wide).next_power_of_two(),
            _ => columns.next_power_of_two(),
        };
        match (lanes, rows) {
            (..=16, 257..) if wide > 1 => Some((wide, lanes, 256 / lanes, 4 * (256 / lanes))),
            // Twice the threads where each loads less.
            (..=16, 257..) => Some((wide, lanes, 512 / lanes, 8 * (512 / lanes))),
            (256.., ..=8) => Some((wide.min(4), 256, 1, 8)),
            _ => None,
        }
    }

    /// Adjacent columns that a thread of `column_sums` adds.
    fn columns_of_thread(&self) -> usize {
        let Matrix { rows, columns, wide, .. } = *self;
        if rows <= 256 {
            // The most that leave a block for each multiprocessor.
            let occupies = |value: &usize| columns.div_ceil(32 * value) >= PROCESSORS;
            return (0..=wide.ilog2()).rev().map(|k| 1 << k).find(occupies).unwrap_or(1);
        }
        // Elements of two bytes in one block for all columns.
        if self.elem.bytes() < 4 && (33..64).contains(&columns) {
            return wide.min(2);
        }
        if columns < 4096 { wide.min((columns / 32).next_power_of_two()).min(4) } else { wide }
    }

    pub(super) fn column_sums(&self) -> Choice {
        let (tile, pieces) = self.pieces();
        if let Some((value, lanes, groups, _)) = self.narrow_columns() {
            let constants = [("B", tile), ("Y", groups), ("V", value), ("P", pieces), ("G", lanes)];
            return self.own("column_sums", &constants);
        }
        let (tile, warps) = match self.rows {
            ..=32 => (32, 4),
            // Few rows need many warps.
            33..=256 if self.columns.div_ceil(32 * self.columns_of_thread()) < BUSY => (256, 32),
            _ => (tile, if tile > 64 { 16 } else { 8 }),
        };
        self.own("column_sums", &[("B", tile), ("Y", warps), ("V", self.columns_of_thread()), ("P", pieces)])
    }
}
