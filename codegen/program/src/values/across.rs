//! The threads that a reduction or a scan spans.

/// The threads that a reduction spans.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Across {
    /// Only each thread's own elements.
    Thread,
    /// The lanes of a warp, in groups of this number of neighbours.
    Warp(u32),
    /// The whole block.
    Block,
    /// All threads of a cluster, with its number of blocks.
    Cluster(u32),
    /// This number of blocks of a cluster. Each block contributes once: all its threads have the same elements.
    Blocks(u32),
    /// Threads whose indices differ in these submodes alone.
    Submodes(Submodes),
}

/// Submodes of a thread's index: for each its extent, and its stride in the index.
///
/// ```
/// use tilewright_codegen::tile::{Across, Submodes};
/// // eight lanes four apart, in two warps: 0, 4, 8 … 28, 32, 36 …
/// let across = Across::Submodes(Submodes::new(&[(8, 4), (2, 32)]).unwrap());
/// assert_eq!(across.first(45), 1); // 45 is 1 + 4 * 3 + 32
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Submodes {
    count: u8,
    all: [(u32, u32); Submodes::MOST],
}

impl Submodes {
    /// How many there can be.
    pub const MOST: usize = 8;

    /// These, as (extent, step), smallest step first; `None` if they are too many, or overlap.
    pub fn new(submodes: &[(i64, i64)]) -> Option<Submodes> {
        let (mut all, mut below) = ([(1, 1); Submodes::MOST], 1);
        let submodes: Vec<_> = submodes.iter().filter(|(extent, _)| *extent != 1).collect();
        for (index, &&(extent, step)) in submodes.iter().enumerate() {
            if extent < 1 || step % below != 0 {
                return None;
            }
            below = step * extent;
            *all.get_mut(index)? = (u32::try_from(extent).ok()?, u32::try_from(step).ok()?);
        }
        Some(Submodes { count: submodes.len() as u8, all })
    }

    /// Their (extent, step) pairs.
    pub fn all(&self) -> &[(u32, u32)] {
        &self.all[..usize::from(self.count)]
    }
}

impl Across {
    /// The submodes of the thread index that it combines, among `threads` threads: extent and step.
    pub fn submodes(self, threads: i64) -> Vec<(i64, i64)> {
        match self {
            Across::Thread => Vec::new(),
            Across::Block | Across::Cluster(_) | Across::Blocks(_) => vec![(threads, 1)],
            Across::Warp(lanes) => vec![(lanes.into(), 1)],
            Across::Submodes(submodes) => {
                submodes.all().iter().map(|&(extent, step)| (i64::from(extent), i64::from(step))).collect()
            }
        }
    }

    /// The threads that it spans, in words after a reduction's; empty for one thread.
    pub fn described(self) -> String {
        let threads = match self {
            Across::Thread => 1,
            Across::Warp(lanes) => lanes,
            Across::Submodes(submodes) => submodes.all().iter().map(|(extent, _)| extent).product(),
            Across::Block => return ", over the block".to_owned(),
            Across::Cluster(_) => return ", over the cluster".to_owned(),
            Across::Blocks(_) => return ", over the blocks of the cluster".to_owned(),
        };
        if threads > 1 { format!(", over {threads} threads") } else { String::new() }
    }

    /// The first of the threads that are reduced with one.
    pub fn first(self, thread: u32) -> u32 {
        match self {
            Across::Thread => thread,
            Across::Warp(lanes) => thread / lanes.max(1) * lanes.max(1),
            Across::Block | Across::Cluster(_) | Across::Blocks(_) => 0,
            Across::Submodes(submodes) => {
                let submode = |&(extent, step): &(u32, u32)| thread / step % extent * step;
                thread - submodes.all().iter().map(submode).sum::<u32>()
            }
        }
    }
}
