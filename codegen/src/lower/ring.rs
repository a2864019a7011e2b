//! Rings: their mbarriers and phases, who arrives and who waits, and the roles that fill and empty them.

use super::Lower;
use crate::affine::{Affine, Coord};
use crate::atom::{Done, OperandKind};
use crate::atoms;
use crate::diagnostic::Diagnostic;
use crate::index::{Int, Ix};
use crate::thread::{self, Bar, Fence, Id, Op, Queue, Scope};
use crate::tile::{self, How, Ring, Stmt};

/// A ring's phases are counted in 32 bits, with room to look ahead.
pub(super) const MOST_PHASES: i64 = 1 << 30;

impl Lower<'_> {
    fn cluster_size(&self) -> u32 {
        self.program.cluster.iter().product()
    }

    /// Arrivals that make a slot empty: one of each reading warp, of every block whose copies fill it.
    pub(super) fn releases(&self, ring: &Ring) -> u32 {
        let warps = self.program.threads_of(ring.to).div_ceil(32);
        match ring.over_cluster {
            Some(_) => warps * self.cluster_size(),
            None => warps,
        }
    }

    /// Mbarriers are initialised by one thread, before anybody uses them: of the block, or of the cluster.
    pub(super) fn start_rings(&mut self) {
        let of_rings = self.rings.iter().flat_map(|&full| [full, full + 1]);
        let bars: Vec<Id> = of_rings.chain(self.orders.iter().copied()).collect();
        if bars.is_empty() {
            return;
        }
        let stmt = |op| thread::Stmt { site: 0, op };
        let init = bars.into_iter().map(|bar| stmt(Op::InitBarriers(bar))).collect();
        self.emit(Op::Elect(Scope::Block, init));
        self.emit(Op::Fence(Fence::MbarrierInit));
        let bar = self.cluster_barrier();
        self.emit(Op::Sync(bar));
    }

    /// A block whose shared memory or mbarriers others of its cluster reach does not end before they are done.
    pub(super) fn end_rings(&mut self) {
        let mut reached = self.program.rings.iter().any(|ring| ring.over_cluster.is_some());
        for stmt in &self.program.body {
            stmt.each(&mut |stmt| {
                reached |= stmt.reads().into_iter().chain(stmt.writes()).any(|view| view.peer.is_some());
            });
        }
        if reached {
            self.meet_cluster();
        }
    }

    /// The barrier of all threads that a ring can reach.
    fn cluster_barrier(&mut self) -> Id {
        if self.program.rings.iter().all(|ring| ring.over_cluster.is_none()) {
            return 0;
        }
        self.bar_of_cluster()
    }

    /// The barrier of all threads of the cluster.
    pub(super) fn bar_of_cluster(&mut self) -> Id {
        match self.kernel.bars.iter().position(|bar| *bar == Bar::Cluster) {
            Some(at) => at as Id,
            None => {
                self.kernel.bars.push(Bar::Cluster);
                self.kernel.bars.len() as Id - 1
            }
        }
    }

    /// Begins to count the phases of rings that these statements advance, those inside roles aside: every role has a count
    /// of its own.
    pub(super) fn start_phases(&mut self, body: &[Stmt]) {
        let mut advanced = Vec::new();
        body.iter().for_each(|stmt| advances(stmt, &mut advanced));
        for ring in advanced {
            let name = format!("{}_phase", self.program.rings[ring as usize].name);
            let id = self.var(&name, false);
            self.kernel.vars[id as usize].mutable = true;
            let zero = self.int(0);
            self.emit(Op::Let(id, zero));
            let phase = self.exprs().leaf(Int::Var(id), 0, MOST_PHASES, 1, Scope::Warp);
            let phases = &mut self.scope.phases;
            phases.resize(phases.len().max(ring as usize + 1), None);
            phases[ring as usize] = Some(phase);
        }
        self.start_orders(body);
    }

    /// How many of a ring's slots the group has been through.
    pub(super) fn phase(&mut self, ring: Id) -> Ix {
        match self.scope.phases.get(ring as usize).copied().flatten() {
            Some(phase) => phase,
            // Nobody advances it: the first slot is at hand throughout.
            None => self.int(0),
        }
    }

    pub(super) fn advance(&mut self, ring: Id) {
        let one = self.int(1);
        self.skip(ring, one);
    }

    /// Goes so many of a ring's slots on.
    pub(super) fn skip(&mut self, ring: Id, slots: Ix) {
        let phase = self.phase(ring);
        if let Int::Var(id) = self.kernel.exprs.get(phase).int
            && self.kernel.exprs.constant(slots) != Some(0)
        {
            let next = self.exprs().add(phase, slots);
            self.emit(Op::Set(id, next));
        }
    }

    /// What some warps do. Where that is nothing but to fill rings by bulk copies, one warp does it.
    pub(super) fn role(&mut self, body: &[Stmt]) -> Result<Vec<thread::Stmt>, Diagnostic> {
        let group = body.first().map_or(0, |stmt| stmt.by);
        let warps = self.program.groups[group as usize].warps.map_or(1, |(first, end)| end - first);
        let alone = warps > 1 && body.iter().all(|stmt| stmt.by == group && only_fills(stmt));
        let (block, ()) = self.nested(|lower| {
            lower.start_phases(body);
            if !alone {
                return lower.statements(body);
            }
            let thread = lower.coord(&Coord::Thread(group));
            let (warp, zero) = (lower.exprs().div(thread, 32), lower.int(0));
            let cond = lower.exprs().eq(warp, zero);
            let (then, ()) = lower.nested(|lower| {
                lower.scope.one_warp = true;
                lower.statements(body)
            })?;
            lower.emit(Op::If { cond, then, other: Vec::new() });
            Ok(())
        })?;
        Ok(block)
    }

    /// One thread of the group at hand does this, the same as before: what it does one after the other stands together.
    pub(super) fn elect(&mut self, ops: Vec<Op>) {
        let (by, site) = (self.scope.by, self.scope.site);
        let group = &self.program.groups[by as usize];
        let (members, first) = (group.members, group.warps.map_or(0, |(first, _)| first));
        let warps = self.program.threads_of(by).div_ceil(32);
        let ops = ops.into_iter().map(|op| thread::Stmt { site, op });
        let scope = match (warps, members) {
            _ if warps == 1 || self.scope.one_warp => Scope::Warp,
            (_, 1) => Scope::Block,
            (4, _) if first % 4 == 0 => Scope::Warpgroup,
            // One thread of each member of a family.
            _ => {
                let (thread, zero) = (self.coord(&Coord::Thread(by)), self.int(0));
                let cond = self.exprs().eq(thread, zero);
                return self.emit(Op::If { cond, then: ops.collect(), other: Vec::new() });
            }
        };
        let is_comment = |stmt: &thread::Stmt| matches!(stmt.op, Op::Comment(_));
        let comments = self.block.iter().rev().take_while(|stmt| is_comment(stmt)).count();
        let comments = self.block.split_off(self.block.len() - comments);
        match self.block.last_mut() {
            Some(thread::Stmt { op: Op::Elect(before, body), .. }) if *before == scope => {
                body.extend(comments);
                body.extend(ops);
            }
            _ => {
                self.block.extend(comments);
                self.emit(Op::Elect(scope, ops.collect()));
            }
        }
    }

    /// The slot of a phase, and how often the ring has gone round.
    pub(super) fn slot(&mut self, ring: Id, phase: &Affine) -> (Ix, Ix) {
        let slots = i64::from(self.program.rings[ring as usize].slots);
        let phase = self.affine(phase);
        (self.exprs().rem(phase, slots), self.exprs().div(phase, slots))
    }

    pub(super) fn acquire(&mut self, ring: Id, phase: &Affine) {
        let (slot, round) = self.slot(ring, phase);
        let bar = self.rings[ring as usize] + 1;
        // The first round finds every slot free: it waits for the phase before the first.
        let before = self.int(-1);
        let phase = self.exprs().add(round, before);
        self.emit(Op::Await { bar, slot, phase });
    }

    pub(super) fn publish(&mut self, ring: Id, phase: &Affine, bytes: Option<u32>) {
        let (slot, _) = self.slot(ring, phase);
        let bar = self.rings[ring as usize];
        let op = Op::Arrive { bar, slot, peer: None, bytes };
        match bytes {
            Some(_) => self.elect(vec![op]),
            None => self.emit(op),
        }
    }

    pub(super) fn wait_full(&mut self, ring: Id, phase: &Affine) {
        let (slot, round) = self.slot(ring, phase);
        self.emit(Op::Await { bar: self.rings[ring as usize], slot, phase: round });
    }

    /// Every reading warp says that it is done with a slot, to all blocks whose copies fill it.
    pub(super) fn release(&mut self, ring: Id, phase: &Affine) {
        let (slot, _) = self.slot(ring, phase);
        let bar = self.rings[ring as usize] + 1;
        debug_assert!(matches!(self.kernel.bars[bar as usize], Bar::Mbarriers { .. }));
        let peers: Vec<Option<Ix>> = match self.program.rings[ring as usize].over_cluster {
            None => vec![None],
            Some(_) => (0..self.cluster_size()).map(|rank| Some(self.int(rank.into()))).collect(),
        };
        // The lane that arrives speaks for what all lanes of its warp have read.
        self.emit(Op::Fence(Fence::Threads(Scope::Warp)));
        let site = self.scope.site;
        let arrive = |peer| thread::Stmt { site, op: Op::Arrive { bar, slot, peer, bytes: None } };
        self.emit(Op::Elect(Scope::Warp, peers.into_iter().map(arrive).collect()));
    }

    /// Waits until all but the last operations under a token are done: until products have summed, and until bulk stores have
    /// read shared memory. Operations are counted in the order in which they were begun: where other tokens stand between,
    /// all are waited for.
    pub(super) fn wait_for(&mut self, token: Id, but: u32) {
        self.wait_for_copies(token, but);
        for queue in [Queue::Wgmma, Queue::Bulk] {
            let (mut others, mut queued) = (false, false);
            for stmt in &self.program.body {
                stmt.each(&mut |stmt| {
                    if let Some((other, of)) = begun(stmt)
                        && of == queue
                    {
                        others |= other != token;
                        queued |= other == token;
                    }
                });
            }
            let pending = if others { 0 } else { but };
            match queue {
                _ if !queued => {}
                // The thread that stores waits; others learn of it by a barrier.
                Queue::Bulk => self.elect(vec![Op::WaitQueue { queue: Queue::BulkRead, pending }]),
                queue => self.emit(Op::WaitQueue { queue, pending }),
            }
        }
    }
}

/// The token under which a statement begins an operation that is waited for by count, and in which queue.
fn begun(stmt: &Stmt) -> Option<(Id, Queue)> {
    let (tile::Op::Gemm { token: Some(token), how: How::Atom(name), .. }
    | tile::Op::Copy { token: Some(token), how: How::Atom(name), .. }) = &stmt.op
    else {
        return None;
    };
    match atoms::find(name)?.done {
        Done::Queue(queue) => Some((*token, queue)),
        _ => None,
    }
}

/// Is it the copy engine that moves a tile to global memory?
pub(super) fn is_bulk_store(how: How) -> bool {
    matches!(how, How::Atom(name) if atoms::find(name).is_some_and(|row| row.done == Done::Queue(Queue::Bulk)))
}

/// Whose ordinary accesses the mbarriers of a ring order: the cluster's, if other blocks fill it and anything but
/// asynchronous copies and products touches its slots.
pub(super) fn scope(program: &tile::Program, ring: &Ring) -> Scope {
    let asynchronous = |stmt: &Stmt| match &stmt.op {
        tile::Op::Copy { how: How::Atom(name), .. } | tile::Op::Gemm { how: How::Atom(name), .. } => {
            atoms::find(name).is_some_and(|row| row.async_proxy)
        }
        _ => false,
    };
    let mut ordinary = false;
    for stmt in &program.body {
        stmt.each(&mut |stmt| {
            let mut views = stmt.reads().into_iter().chain(stmt.writes());
            ordinary |= views.any(|view| ring.buffers.contains(&view.tensor)) && !asynchronous(stmt);
        });
    }
    if ring.over_cluster.is_some() && ordinary { Scope::Cluster } else { Scope::Block }
}

/// The rings that a statement advances, those inside roles aside.
fn advances(stmt: &Stmt, to: &mut Vec<Id>) {
    match &stmt.op {
        tile::Op::Advance { ring } if !to.contains(ring) => to.push(*ring),
        tile::Op::Roles(_) => {}
        _ => stmt.bodies().into_iter().flatten().for_each(|stmt| advances(stmt, to)),
    }
}

/// Does a statement do nothing but fill rings, by copies that one thread begins?
fn only_fills(stmt: &Stmt) -> bool {
    match &stmt.op {
        tile::Op::Acquire { .. } | tile::Op::Publish { bytes: Some(_), .. } | tile::Op::Advance { .. } => {
            true
        }
        tile::Op::Copy { how: How::Atom(name), .. } => atoms::find(name).is_some_and(|row| {
            row.group == Scope::Thread
                && row.operands.iter().any(|operand| matches!(operand.kind, OperandKind::TensorMap { .. }))
        }),
        tile::Op::For { .. } | tile::Op::Tiles { .. } | tile::Op::If { .. } => {
            stmt.bodies().into_iter().flatten().all(only_fills)
        }
        _ => false,
    }
}
