//! The estimated time of a launch, from a thread program: the load of a step of its main loop on each unit of a
//! multiprocessor, the latency of a step that runs alone, and the work before and after the loop. It knows no
//! kernel; [`crate::launch`] computes clocks from it for the sizes of a launch.

mod load;
mod meter;
mod rates;

use std::collections::BTreeMap;

use tilewright_layout::Value;

use crate::isa::atom::OperandName;
use crate::thread::mention;
use crate::thread::{Cost, Kernel, Op, Reg, Stmt};
use crate::values::id::Id;
use crate::values::target::{REGISTERS, RESERVED_SHARED, Target, WARP};
use load::{Load, Trips};
use meter::{Edges, Meter};
pub use rates::{HOPPER, Rates};

/// The load of a kernel once in a tile, and of the loop with the largest load: its number of iterations, and the
/// load of one. `None` if the number of iterations is unknown.
fn main_loop(kernel: &Kernel, edges: Edges, rates: &Rates) -> Option<(Load, Trips, Load)> {
    let warps = f64::from(kernel.launch.threads.div_ceil(WARP));
    let parts = Meter::of(kernel, edges, rates).body(&kernel.body, warps)?;
    let heaviest = |x: &&(Trips, Load), y: &&(Trips, Load)| x.1.size(rates).total_cmp(&y.1.size(rates));
    let (steps, step) =
        parts.loops.iter().max_by(heaviest).copied().unwrap_or((Trips::of(Value::Int(0)), Load::default()));
    Some((parts.once, steps, step))
}

/// The part of a multiprocessor that decides how long an iteration of the main loop takes, or a tile where there is none.
pub(crate) fn limit(kernel: &Kernel) -> Option<&'static str> {
    let (once, _, step) = main_loop(kernel, Edges::Inside, &HOPPER)?;
    let load = if step.size(&HOPPER) > 0.0 { step } else { once };
    if step.latency > load.clocks(&HOPPER) && is_serial(kernel, &step) {
        return Some("latency");
    }
    load.parts(&HOPPER).into_iter().max_by(|x, y| x.1.total_cmp(&y.1)).map(|(name, _)| name)
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
    cost_with(kernel, &HOPPER)
}

/// The estimate with other rates, which `cargo xtask calibrate` tries.
pub fn cost_with(kernel: &Kernel, rates: &Rates) -> Option<Cost> {
    let (once, Trips { of: steps, times, over }, step) = main_loop(kernel, Edges::Inside, rates)?;
    let once = once.executed();
    // Each wave of clusters waits until multiprocessors are free for all of their blocks.
    let more = if kernel.launch.cluster.iter().product::<u32>() > 1 { rates.clusters } else { 0.0 };
    let early = if kernel.launch.overlaps && more == 0.0 { rates.early } else { 0.0 };
    let (fixed, launch) = match kernel.launch.persistent {
        true => (rates.tile, rates.launch + more),
        false => (rates.block - early + more, rates.launch),
    };
    let tile = (fixed + once.clocks(rates)) as u32;
    let clocks = |x: f64| x.ceil().min(f64::from(u32::MAX)) as u32;
    let cut_tile = clocks(once.with_cut_stores().clocks(rates) - once.clocks(rates));
    let cost = if is_serial(kernel, &step) {
        let waits = kernel.launch.cluster[0] > 1 && multicasts(&kernel.body);
        let peers = if waits { rates.peers } else { 0.0 };
        let alone = step.clocks(rates).max(step.latency) + step.exposed + peers;
        let rows = clocks(step.rows);
        Cost {
            steps,
            times,
            over,
            step: clocks(alone),
            cut: clocks(step.cut(rates)),
            rows,
            tile,
            cut_tile,
            launch: clocks(launch),
            ..Cost::default()
        }
    } else {
        let warps = f64::from(kernel.launch.threads.div_ceil(WARP));
        let issued = step.issued / warps * rates.interval;
        let fragments = step.tensor.min(step.wavefronts) * rates.fragments;
        let alone = clocks(step.latency.max(issued) + step.exposed + fragments);
        let (outside, _, step_outside) = main_loop(kernel, Edges::Outside, rates)?;
        let guarded_tile = once.clocks(rates) - outside.executed().clocks(rates);
        Cost {
            steps,
            times,
            over,
            step: clocks(step.clocks(rates) + fragments),
            guarded_step: clocks(step.clocks(rates) - step_outside.clocks(rates)),
            cut: clocks(step.cut(rates)),
            alone,
            resident: resident(kernel),
            tile,
            cut_tile,
            guarded_tile: clocks(guarded_tile),
            begin: clocks(rates.block - early),
            launch: clocks(launch),
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
