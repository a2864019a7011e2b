//! Scans: how prefixes of elements are combined, over the elements of threads and over threads.

use crate::values::across::Across;
use crate::values::expr::Expr;
use crate::values::number::Number;

/// How a scan combines elements, or tuples of them, with earlier ones.
#[derive(Clone, PartialEq, Debug)]
pub struct Scan {
    /// The associative function, one for each entry of the tuples. Its first inputs are the combination of
    /// all earlier tuples, then the next tuple.
    pub with: Vec<Expr>,
    /// Its identity.
    pub identity: Vec<Number>,
    /// The order of elements: levels from the fastest to the slowest.
    pub levels: Vec<Level>,
    /// Each result leaves out its own element.
    pub exclusive: bool,
    /// Are out-of-bounds elements of the user's tensor the identity, as its author says? Otherwise they are left out.
    pub unmasked: bool,
}

/// A submode of an element's number in the order of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Elements of a thread along a mode, from the first; levels of one mode follow one another.
    Own {
        /// The mode.
        mode: u8,
        /// How many.
        extent: i64,
    },
    /// The number of the thread.
    Threads(Across),
    /// The rank of the block in its cluster of this number of blocks. All threads of a block are scanned before.
    Blocks(u32),
}

impl Scan {
    /// The modes that it runs along.
    pub fn modes(&self) -> Vec<usize> {
        let mut modes = Vec::new();
        for level in &self.levels {
            match level {
                Level::Own { mode, .. } if !modes.contains(&usize::from(*mode)) => modes.push((*mode).into()),
                _ => {}
            }
        }
        modes
    }

    /// The threads that it runs over.
    pub fn across(&self) -> Vec<Across> {
        let threads = self.levels.iter().filter_map(|level| match level {
            Level::Own { .. } | Level::Blocks(_) => None,
            Level::Threads(across) => Some(*across),
        });
        threads.collect()
    }

    /// The blocks of a cluster that it runs over.
    pub fn blocks(&self) -> Option<u32> {
        self.levels.iter().find_map(|level| match level {
            Level::Blocks(blocks) => Some(*blocks),
            _ => None,
        })
    }
}
