//! Throughputs and latencies of a multiprocessor, in clocks.

/// Bytes of a row of a bulk copy, and of a sector.
pub(super) const ROW: f64 = 128.0;
pub(super) const SECTOR: i64 = 32;

/// Declares the numbers, their values for Hopper, and their list.
macro_rules! rates {
    ($($(#[$about:meta])* $name:ident: $value:literal,)*) => {
        /// What the estimate knows of a device.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Rates {
            $($(#[$about])* pub $name: f64,)*
        }

        /// Of an H100 at 1.98 GHz, fitted to the times of all variants of products by `cargo xtask calibrate`: see bench/LOG.md, "The
        /// estimate".
        pub const HOPPER: Rates = Rates { $($name: $value,)* };

        impl Rates {
            /// All numbers with their names.
            pub fn list(&mut self) -> Vec<(&'static str, &mut f64)> {
                vec![$((stringify!($name), &mut self.$name),)*]
            }
        }
    };
}

rates! {
    /// The part of the peak in [`crate::values::target::Target::tensor`] that tensor cores reach.
    tensor: 0.97,
    /// Instructions of warps that are issued in a clock.
    issue: 4.0,
    /// Clocks between two instructions of a warp.
    interval: 2.0,
    /// Issue slots of a thread's access to global memory, with its address.
    access: 21.6,
    /// Further slots for a 64-bit address.
    wide: 13.8,
    /// Further slots for a coordinate that wraps at an edge.
    wrap: 18.6,
    /// Further slots for a guard.
    guard: 2.3,
    /// Clocks in which a warp's access to global memory begins.
    begin: 1.85,
    /// Clocks in which an asynchronous copy of less than 16 bytes for each lane begins.
    short_copy: 8.0,
    /// The part of it that comes before the products of a block alone.
    before: 0.8,
    /// Bytes of sectors that loads of threads read from the L2 cache in a clock.
    loaded: 36.0,
    /// Bytes that stores of threads write in a clock.
    stored: 21.0,
    /// Bytes that bulk copies write in a clock; they wait for a buffer in shared memory.
    bulk: 17.0,
    /// Times that atomics of threads in global memory take as long as stores. See bench/LOG.md, "GEMM by wgmma".
    added: 3.0,
    /// Times that atomics of bulk copies take as long as their stores.
    bulk_added: 2.0,
    /// Further bytes for each row of a box of a bulk store, where rows of a result begin in the middle of a sector.
    cut_box: 20.0,
    /// Further bytes for each row of a tile there. Boxes of a tile store its parts soon after each other, two tiles do not.
    cut_tile: 93.0,
    /// Further wavefronts of shared memory for each byte of vectors of 16 bytes whose rows begin in the middle of a sector.
    cut: 0.018,
    /// Bytes that a multiprocessor reads from the shared memory of others, in a clock.
    remote: 7.1,
    /// The part of the shorter of products on tensor cores and accesses to shared memory that the other does not hide.
    fragments: 0.35,
    /// Clocks until an mbarrier that another role completes is seen.
    mbarrier: 25.0,
    /// Clocks until a barrier of threads is passed.
    barrier: 125.0,
    /// Clocks of a step in which the blocks of a cluster wait for each other's slots.
    peers: 148.0,
    /// The part of a product's time that the next one does not hide.
    exposed: 0.43,
    /// Clocks until the elements of a load from global memory arrive.
    global: 860.0,
    /// Clocks until the elements of a load from shared memory arrive.
    shared: 29.0,
    /// Clocks between two loads of a warp from shared memory.
    load: 4.0,
    /// Clocks beside the work of each tile, where blocks process several.
    tile: 1270.0,
    /// Clocks beside the work of a block.
    block: 2795.0,
    /// Clocks of them that a kernel without clusters hides which starts before the previous one has ended.
    early: 2210.0,
    /// Clocks of a launch.
    launch: 1950.0,
    /// Further clocks of a launch of clusters.
    clusters: 1770.0,
}
