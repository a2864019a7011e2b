//! Groups of threads that act together, and the queues of their asynchronous operations.

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
    /// wgmma groups of a warpgroup.
    Wgmma,
}
