//! Groups of threads that act together, and the queues of their asynchronous operations.

use crate::values::target::WARP;

/// Largest group of threads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[allow(missing_docs)]
pub enum Scope {
    Thread,
    Warp,
    Warpgroup,
    Block,
    Cluster,
    Grid,
}

/// Queues of asynchronous operations, waited for by commit and wait groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// cp.async commit groups of a thread.
    CpAsync,
    /// Bulk stores of a thread.
    Bulk,
    /// Bulk stores of a thread, until they have read shared memory: its array may be reused, although the
    /// result may not be in global memory yet.
    BulkRead,
    /// Asynchronous matrix products, by the threads that issue them together.
    Products,
}

impl Scope {
    /// Warps of the largest group of threads that a part of a block has; a thread counts as one.
    pub fn warps(self) -> u32 {
        if self == Scope::Warpgroup { 4 } else { 1 }
    }

    /// The name of one in the language and in messages, where `tiled_mma` takes a number of them.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Thread => "thread",
            Scope::Warp => "warp",
            Scope::Warpgroup => "warpgroup",
            Scope::Block => "block",
            Scope::Cluster => "cluster",
            Scope::Grid => "grid",
        }
    }

    /// The smallest group of warps that has as many; none for a number that no group has.
    pub fn of_warps(count: u32) -> Option<Scope> {
        [Scope::Warp, Scope::Warpgroup].into_iter().find(|scope| scope.warps() == count)
    }

    /// Threads of a group: of a block and of larger groups it is not known.
    ///
    /// ```
    /// use tilewright_program::thread::Scope;
    /// assert_eq!([Scope::Thread, Scope::Warp, Scope::Warpgroup, Scope::Block].map(Scope::threads), [Some(1), Some(32), Some(128), None]);
    /// ```
    pub fn threads(self) -> Option<u32> {
        match self {
            Scope::Thread => Some(1),
            Scope::Warp | Scope::Warpgroup => Some(self.warps() * WARP),
            Scope::Block | Scope::Cluster | Scope::Grid => None,
        }
    }
}
