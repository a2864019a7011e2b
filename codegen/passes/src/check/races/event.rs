//! Accesses to shared memory, as events: the threads, the elements, and when the access ends.

use std::ops::Range;

use super::trace::{self, Env};
use crate::check::touch::{Actors, Footprint};
use crate::thread::{Id, Scope};
use crate::tile::view::View;
use crate::tile::{How, Op, Program, Space, Stmt};

/// One access of a group's threads, by a statement that has been executed.
#[derive(Clone)]
pub(super) struct Event<'p> {
    /// Its number among events.
    pub(super) number: u32,
    /// When it was done or complete: numbers of events are times.
    pub(super) time: u32,
    pub(super) stmt: &'p Stmt,
    pub(super) tensor: Id,
    pub(super) footprint: Footprint,
    pub(super) writes: bool,
    /// Does it change elements atomically? Atomic updates may come in any order.
    pub(super) atomic: bool,
    pub(super) under: Under,
    /// A barrier has been passed while this was in flight.
    pub(super) passed: bool,
    /// The warps that execute it, one bit each.
    pub(super) warps: u32,
}

/// The unknown conditions under which something happens.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Under {
    Always,
    /// In one arm of one condition.
    Arm(u64),
    /// In arms of several conditions.
    Mixed,
}

impl Under {
    /// Is there certainly a run in which both happen?
    pub(super) fn meets(self, other: Under) -> bool {
        match (self, other) {
            (Under::Mixed, _) | (_, Under::Mixed) => false,
            (Under::Arm(x), Under::Arm(y)) => x == y,
            _ => true,
        }
    }
}

/// An access of one statement to shared memory.
pub(super) struct Touch<'p> {
    pub(super) view: &'p View,
    pub(super) writes: bool,
    pub(super) atomic: bool,
    /// Is it in flight until copies have been waited for?
    pub(super) in_flight: bool,
}

/// The accesses of a statement to shared memory, and to these tensors in global memory, reads first.
pub(super) fn touches<'p>(program: &Program, stmt: &'p Stmt, global: &[bool]) -> Vec<Touch<'p>> {
    let space = |view: &View| program.tensor(view.tensor).space;
    // The passes that give operations tokens wait for them.
    let in_flight = match &stmt.op {
        Op::Copy { from, to, how, token: None, .. } if !how.is_by_registers() => {
            matches!((space(from), space(to)), (Space::Global { .. }, Space::Shared { .. }))
        }
        _ => false,
    };
    let atomic = stmt.op.updates().is_some();
    let read = |view| Touch { view, writes: false, atomic: false, in_flight: false };
    let write = |view| Touch { view, writes: true, atomic, in_flight };
    let all = stmt.reads().into_iter().map(read).chain(stmt.writes().into_iter().map(write));
    let judged = |touch: &Touch<'_>| {
        matches!(space(touch.view), Space::Shared { .. }) || global[touch.view.tensor as usize]
    };
    all.filter(judged).collect()
}

/// Does one elected thread of the group, or of each member of a family, perform this?
fn elects(stmt: &Stmt) -> bool {
    let Op::Copy { how: How::Atom(row), .. } = &stmt.op else { return false };
    row.family.issued_by == Scope::Thread && row.has_map()
}

/// The threads that execute a statement.
pub(super) fn actors(program: &Program, stmt: &Stmt, env: &Env) -> Actors {
    let all = members(program, stmt.by, env);
    let warps = all.first().map_or(0, |all| all.start)..all.last().map_or(0, |all| all.end);
    let end = (warps.end * 32).min(program.threads());
    Actors { by: stmt.by, threads: warps.start * 32..end, elected: elects(stmt) }
}

/// The warps of a group's members, as far as they run this.
pub(super) fn members(program: &Program, group: Id, env: &Env) -> Vec<Range<u32>> {
    let cut = |all: Range<u32>| all.start.max(env.warps.start)..all.end.min(env.warps.end);
    trace::members(program, group).map(cut).filter(|part| !part.is_empty()).collect()
}

/// Warps, one bit each.
pub(super) fn bits(warps: &Range<u32>) -> u32 {
    warps.clone().filter(|warp| *warp < 32).map(|warp| 1 << warp).fold(0, |all, bit| all | bit)
}
