//! The instructions' operands, ready for use: the element of the tile for each thread and value.

use std::collections::HashMap;

use tilewright_layout::Layout;
use tilewright_program::atom::Atom;

use crate::code::Code;
use crate::warp::LANES;

/// The tile of a row that does not fix it.
const OPEN: Tile = Tile { threads: 0, values: 0, index: Vec::new() };

/// Thread and value to an index in the operand's tile.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tile {
    pub(crate) threads: usize,
    pub(crate) values: usize,
    index: Vec<i64>,
}

impl Tile {
    fn of(text: &str) -> Option<Tile> {
        let tv: Layout = text.parse().ok()?;
        let threads = tv.mode(0).ok()?.size().ok()? as usize;
        let index: Vec<i64> = tv.offsets().ok()?.collect();
        Some(Tile { threads, values: index.len() / threads, index })
    }

    /// The element of a thread's value.
    pub(crate) fn at(&self, thread: usize, value: usize) -> i64 {
        self.index[thread % self.threads + value * self.threads]
    }

    /// The elements of a value of 32 threads from `first` on.
    pub(crate) fn of_warp(&self, first: usize, value: usize) -> &[i64] {
        &self.index[first % self.threads + value * self.threads..][..LANES]
    }

    /// One past the last element.
    pub(crate) fn len(&self) -> usize {
        self.index.iter().max().map_or(0, |&last| last as usize + 1)
    }
}

/// Tiles of the operands of all rows in use, by the row's name.
pub(crate) type Tables = HashMap<&'static str, Vec<Tile>>;

/// Reads the rows that a program uses.
pub(crate) fn tables(code: &Code) -> Tables {
    let tiles = |row: &'static Atom| -> Vec<Tile> {
        row.operands.iter().map(|operand| Tile::of(operand.tv).unwrap_or(OPEN)).collect()
    };
    code.atoms.iter().map(|atom| (atom.row.name, tiles(atom.row))).collect()
}
