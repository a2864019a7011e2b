//! The estimated time of a launch, from a thread program: the load of a step of its main loop on each unit of a
//! multiprocessor, the latency of a step that runs alone, and the work before and after the loop. It knows no
//! kernel; [`crate::launch`] computes clocks from it for the sizes of a launch.

mod load;
mod meter;

use std::collections::BTreeMap;

use tilewright_layout::Value;

use crate::isa::atom::OperandName;
use crate::thread::mention;
use crate::thread::{Cost, Kernel, Op, Reg, Stmt};
use crate::values::id::Id;
use crate::values::target::{REGISTERS, RESERVED_SHARED, Target, WARP};
use load::{Load, Trips};
use meter::{Edges, Meter};

/// Throughputs and latencies of a multiprocessor, in clocks: of an H100 at 1.98 GHz, fitted to the times of all variants
/// of eleven kinds of products at 500 sizes; see bench/LOG.md, "The estimate".
mod device {
    /// Operations of the tensor cores in a clock, as a part of the peak in [`crate::values::target::Target::tensor`].
    pub(crate) const TENSOR: f64 = 0.97;
    /// Instructions of warps that are issued in a clock.
    pub(crate) const ISSUE: f64 = 4.0;
    /// Clocks between two instructions of a warp.
    pub(crate) const INTERVAL: f64 = 2.0;
    /// Issue slots of a thread's access to global memory, with its address; further slots for a 64-bit address, for a
    /// coordinate that wraps at an edge, and for a guard.
    pub(crate) const ACCESS: f64 = 21.6;
    pub(crate) const WIDE: f64 = 13.8;
    pub(crate) const WRAP: f64 = 18.6;
    pub(crate) const GUARD: f64 = 2.3;
    /// Clocks in which a warp's access to global memory begins.
    pub(crate) const BEGIN: f64 = 1.85;
    /// The same of an asynchronous copy of less than 16 bytes for each lane, and the part of it that comes before the products of a block
    /// alone.
    pub(crate) const SHORT_COPY: f64 = 8.0;
    pub(crate) const BEFORE: f64 = 0.8;
    /// Bytes of sectors that a multiprocessor reads from the L2 cache by loads of threads in a clock. Bytes that it writes: by
    /// stores of threads, and by bulk copies, which wait for a buffer in shared memory.
    pub(crate) const LOADED: f64 = 36.0;
    pub(crate) const STORED: f64 = 21.0;
    pub(crate) const BULK: f64 = 17.0;
    /// Atomics in global memory take this many times as long as stores: by threads, by bulk copies. See bench/LOG.md,
    /// "GEMM by wgmma".
    pub(crate) const ADDED: f64 = 3.0;
    pub(crate) const BULK_ADDED: f64 = 2.0;
    /// Further bytes for each row of a box of a bulk store, and for each row of a tile, where rows of a result begin in the middle
    /// of a sector: boxes of a tile store its parts soon after each other, two tiles do not.
    pub(crate) const CUT_BOX: f64 = 20.0;
    pub(crate) const CUT_TILE: f64 = 93.0;
    /// Further wavefronts of shared memory for each byte of vectors of 16 bytes whose rows begin in the middle of a sector.
    pub(crate) const CUT: f64 = 0.018;
    /// Bytes that a multiprocessor reads from the shared memory of others, in a clock.
    pub(crate) const REMOTE: f64 = 7.1;
    /// The part of the shorter of products on tensor cores and accesses to shared memory that the other does not hide.
    pub(crate) const FRAGMENTS: f64 = 0.35;
    /// Bytes of a row of a bulk copy, and of a sector.
    pub(crate) const ROW: f64 = 128.0;
    pub(crate) const SECTOR: i64 = 32;
    /// Clocks until an mbarrier that another role completes is seen, and until a barrier of threads is passed.
    pub(crate) const MBARRIER: f64 = 25.0;
    pub(crate) const BARRIER: f64 = 125.0;
    /// Clocks of a step in which the blocks of a cluster wait for each other's slots.
    pub(crate) const PEERS: f64 = 148.0;
    /// The part of a product's time that the next one does not hide.
    pub(crate) const EXPOSED: f64 = 0.43;
    /// Clocks until the elements of a load arrive: from global and from shared memory.
    pub(crate) const GLOBAL: f64 = 860.0;
    pub(crate) const SHARED: f64 = 29.0;
    /// Clocks between two loads of a warp from shared memory.
    pub(crate) const LOAD: f64 = 4.0;
    /// Clocks beside the work: of each tile where blocks process several tiles; of a block; the part that a kernel without clusters
    /// hides which starts before the previous one has ended; of a launch, and further ones of a launch of clusters.
    pub(crate) const TILE: f64 = 1270.0;
    pub(crate) const BLOCK: f64 = 2795.0;
    pub(crate) const EARLY: f64 = 2210.0;
    pub(crate) const LAUNCH: u32 = 1950;
    pub(crate) const CLUSTERS: u32 = 1770;
}

/// The load of a kernel once in a tile, and of the loop with the largest load: its number of iterations, and the
/// load of one. `None` if the number of iterations is unknown.
fn main_loop(kernel: &Kernel, edges: Edges) -> Option<(Load, Trips, Load)> {
    let warps = f64::from(kernel.launch.threads.div_ceil(WARP));
    let parts = Meter::of(kernel, edges).body(&kernel.body, warps)?;
    let heaviest = |x: &&(Trips, Load), y: &&(Trips, Load)| x.1.size().total_cmp(&y.1.size());
    let (steps, step) =
        parts.loops.iter().max_by(heaviest).copied().unwrap_or((Trips::of(Value::Int(0)), Load::default()));
    Some((parts.once, steps, step))
}

/// The part of a multiprocessor that decides how long an iteration of the main loop takes, or a tile where there is none.
pub(crate) fn limit(kernel: &Kernel) -> Option<&'static str> {
    let (once, _, step) = main_loop(kernel, Edges::Inside)?;
    let load = if step.size() > 0.0 { step } else { once };
    if step.latency > load.clocks() && is_serial(kernel, &step) {
        return Some("latency");
    }
    load.parts().into_iter().max_by(|x, y| x.1.total_cmp(&y.1)).map(|(name, _)| name)
}

/// Does a block have a multiprocessor for itself, one tile after the other?
fn is_serial(kernel: &Kernel, step: &Load) -> bool {
    kernel.launch.persistent || step.rows > 0.0
}

/// Do blocks of a cluster copy tiles for each other?
fn multicasts(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| {
        let own = matches!(&stmt.op, Op::Atom { row, .. } if row.operand(OperandName::Mask).is_some());
        own || stmt.op.blocks().into_iter().any(multicasts)
    })
}

/// The estimate for a kernel; `None` if the number of its main loop's iterations is unknown.
pub fn cost(kernel: &Kernel) -> Option<Cost> {
    let (once, Trips { of: steps, times, over }, step) = main_loop(kernel, Edges::Inside)?;
    let once = once.executed();
    // Each wave of clusters waits until multiprocessors are free for all of their blocks.
    let more = if kernel.launch.cluster.iter().product::<u32>() > 1 { device::CLUSTERS } else { 0 };
    let early = if kernel.launch.overlaps && more == 0 { device::EARLY } else { 0.0 };
    let (fixed, launch) = match kernel.launch.persistent {
        true => (device::TILE, device::LAUNCH + more),
        false => (device::BLOCK - early + f64::from(more), device::LAUNCH),
    };
    let tile = (fixed + once.clocks()) as u32;
    let clocks = |x: f64| x.ceil().min(f64::from(u32::MAX)) as u32;
    let cut_tile = clocks(once.with_cut_stores().clocks() - once.clocks());
    let cost = if is_serial(kernel, &step) {
        let waits = kernel.launch.cluster[0] > 1 && multicasts(&kernel.body);
        let peers = if waits { device::PEERS } else { 0.0 };
        let alone = step.clocks().max(step.latency) + step.exposed + peers;
        let rows = clocks(step.rows);
        Cost {
            steps,
            times,
            over,
            step: clocks(alone),
            cut: clocks(step.cut()),
            rows,
            tile,
            cut_tile,
            launch,
            ..Cost::default()
        }
    } else {
        let warps = f64::from(kernel.launch.threads.div_ceil(WARP));
        let issued = step.issued / warps * device::INTERVAL;
        let fragments = step.tensor.min(step.wavefronts) * device::FRAGMENTS;
        let alone = clocks(step.latency.max(issued) + step.exposed + fragments);
        let (outside, _, step_outside) = main_loop(kernel, Edges::Outside)?;
        let guarded_tile = once.clocks() - outside.executed().clocks();
        Cost {
            steps,
            times,
            over,
            step: clocks(step.clocks() + fragments),
            guarded_step: clocks(step.clocks() - step_outside.clocks()),
            cut: clocks(step.cut()),
            alone,
            resident: resident(kernel),
            tile,
            cut_tile,
            guarded_tile: clocks(guarded_tile),
            begin: clocks(device::BLOCK - early),
            launch,
            ..Cost::default()
        }
    };
    Some(cost)
}

/// Registers of the arrays that are in use at once: between the first and the last statement that uses them.
fn live(kernel: &Kernel) -> u32 {
    let mut uses: BTreeMap<Id, (usize, usize)> = BTreeMap::new();
    for (at, stmt) in kernel.body.iter().enumerate() {
        for id in mention::counts([stmt]).into_keys() {
            uses.entry(id).or_insert((at, at)).1 = at;
        }
    }
    let registers = |id: &Id| kernel.regs.get(*id as usize).map_or(0, Reg::registers);
    let at_once = |at: usize| {
        let live = uses.iter().filter(|(_, (first, last))| (*first..=*last).contains(&at));
        live.map(|(id, _)| registers(id)).fold(0, u32::saturating_add)
    };
    (0..kernel.body.len()).map(at_once).max().unwrap_or(0)
}

/// Blocks that are resident on a multiprocessor at once, with registers for their arrays and some addresses, or as many registers as
/// the launch bounds allow.
fn resident(kernel: &Kernel) -> u32 {
    const ADDRESSES: u32 = 40;
    let (launch, target) = (&kernel.launch, Target::of(kernel.arch));
    let arrays = live(kernel).saturating_add(ADDRESSES);
    let allowed = REGISTERS / launch.threads.saturating_mul(launch.blocks_per_sm).max(1);
    let each = arrays.min(crate::values::target::THREAD_REGISTERS).min(allowed);
    let most = [
        target.threads / launch.threads.max(1),
        target.shared / (launch.shared_bytes + RESERVED_SHARED),
        REGISTERS / each.saturating_mul(launch.threads).max(1),
        target.blocks,
    ];
    most.into_iter().min().unwrap_or(1).max(1)
}
