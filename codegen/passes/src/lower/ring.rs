//! Rings, the multistage pipelines between producers and consumers: their mbarriers and phases, arrivals and
//! waits, and the roles that fill and empty them.

use std::collections::BTreeSet;

use super::Lower;
use super::environment::RingPosition;
use super::tokens::Mark;
use crate::isa::atom::{Done, OperandName};
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result};
use crate::thread::index::{Int, Ix, Operand};
use crate::thread::{self, Bar, Fence, Id, Op, Queue, Scope};
use crate::tile::visit::preorder;
use crate::tile::{self, How, Ring, Stmt};
use crate::values::affine::{Affine, Coord};

/// A ring's phases are counted in 32 bits, with room to look ahead.
pub(super) const MOST_PHASES: i64 = 1 << 30;

impl Lower<'_> {
    /// The rank of the block of this cluster that has another number along x.
    pub(super) fn rank_along_x(&mut self, number: u32) -> Result<Ix> {
        let rank = self.program.rank_in_cluster(0, &i64::from(number).into());
        Ok(self.affine(&rank.ok_or_else(Problem::reported)?))
    }

    /// The arrival count of `empty` mbarriers: one for each consumer warp, of every block whose copies fill
    /// the slot.
    pub(super) fn releases(&self, ring: &Ring) -> u32 {
        let warps = self.program.threads_of(ring.to).div_ceil(32);
        if ring.over_cluster { warps * self.program.cluster[0] } else { warps }
    }

    /// One thread initialises the mbarriers; a barrier of the block, or of the cluster, precedes their first
    /// use.
    pub(super) fn start_rings(&mut self) {
        let of_rings = self.rings.iter().flat_map(|&full| [full, full + 1]);
        let bars: Vec<Id> = of_rings.chain(self.orders.iter().copied()).collect();
        let exchange = self.declare_exchanges();
        let stmt = |op| thread::Stmt { site: 0, op };
        let init: Vec<_> =
            bars.iter().copied().chain(exchange).map(|bar| stmt(Op::InitBarriers(bar))).collect();
        if init.is_empty() {
            return;
        }
        self.emit(Op::Elect(Scope::Block, init));
        self.emit(Op::Fence(Fence::MbarrierInit));
        // Blocks meet before their first exchange.
        if !bars.is_empty() {
            let bar = self.cluster_barrier();
            self.emit(Op::sync(bar));
            self.scope.exchanges = bar != 0;
        }
    }

    /// A block must not exit while others of its cluster may access its shared memory or mbarriers.
    pub(super) fn end_rings(&mut self) {
        let mut views = preorder(&self.program.body).flat_map(Stmt::accesses);
        if self.program.rings.iter().any(|ring| ring.over_cluster) || views.any(|view| view.peer.is_some()) {
            self.meet_cluster();
        }
    }

    /// The barrier of all threads that a ring can reach.
    fn cluster_barrier(&mut self) -> Id {
        if !self.program.rings.iter().any(|ring| ring.over_cluster) {
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

    /// Declares the positions in rings that these statements advance, except inside roles: every role has its own.
    pub(super) fn start_ring_positions(&mut self, body: &[Stmt]) {
        let mut advanced = Vec::new();
        body.iter().for_each(|stmt| advances(stmt, &mut advanced));
        for ring in advanced {
            let tile::Ring { name, slots, .. } = &self.program.rings[ring as usize];
            let (name, last) = (name.clone(), i64::from(*slots) - 1);
            let slot = if last > 0 { self.counter(&format!("{name}_slot"), last) } else { self.int(0) };
            let wraps = self.counter(&format!("{name}_phase"), MOST_PHASES / (last + 1));
            let positions = &mut self.scope.ring_positions;
            positions.resize(positions.len().max(ring as usize + 1), None);
            positions[ring as usize] = Some(RingPosition { slot, wraps });
        }
        self.start_orders(body);
    }

    /// A variable that begins with 0.
    pub(super) fn counter(&mut self, name: &str, most: i64) -> Ix {
        let id = self.var(name, false);
        self.kernel.vars[id as usize].mutable = true;
        let zero = self.int(0);
        self.emit(Op::Let(id, zero));
        self.exprs().leaf(Int::Var(id), 0, most, 1, Scope::Warp)
    }

    fn slots(&self, ring: Id) -> i64 {
        self.program.rings[ring as usize].slots.into()
    }

    /// The group's phase of a ring: how many slots it has advanced.
    pub(super) fn phase(&mut self, ring: Id) -> Ix {
        // If it is never advanced, the first slot is the only one.
        let Some(RingPosition { slot, wraps }) =
            self.scope.ring_positions.get(ring as usize).copied().flatten()
        else {
            return self.int(0);
        };
        let slots = self.slots(ring);
        let before = self.exprs().mul(wraps, slots);
        self.exprs().add(before, slot)
    }

    pub(super) fn advance(&mut self, ring: Id) {
        self.skip(ring, 1);
    }

    /// Advances a ring by a number of slots.
    pub(super) fn skip(&mut self, ring: Id, by: impl Operand) {
        let Some(position) = self.scope.ring_positions.get(ring as usize).copied().flatten() else { return };
        let (phase, slots) = (self.phase(ring), self.slots(ring));
        let next = self.exprs().add(phase, by);
        let (slot, wraps) = (self.exprs().rem(next, slots), self.exprs().div(next, slots));
        self.name_slots(slot, ring);
        self.name_slots(wraps, ring);
        // The number of wraps is computed from the old slot, so it is set first.
        for (of, next) in [(position.wraps, wraps), (position.slot, slot)] {
            if let Int::Var(id) = self.kernel.exprs.get(of).int
                && next != of
            {
                self.emit(Op::Set(id, next));
            }
        }
    }

    /// The body of a role. If it only fills rings by bulk copies, one warp runs it.
    pub(super) fn role(&mut self, body: &[Stmt]) -> std::result::Result<Vec<thread::Stmt>, Diagnostic> {
        let group = body.first().map_or(0, |stmt| stmt.by);
        let alone = self.program.is_of_one_warp(body);
        let (block, ()) = self.nested(|lower| {
            lower.start_ring_positions(body);
            if !alone {
                return lower.statements(body);
            }
            let thread = lower.coord(&Coord::Thread(group));
            let warp = lower.exprs().div(thread, 32);
            let cond = lower.exprs().eq(warp, 0);
            let (then, ()) = lower.nested(|lower| {
                lower.scope.one_warp = true;
                lower.statements(body)
            })?;
            lower.emit(Op::If { cond: cond.into(), then, other: Vec::new() });
            Ok(())
        })?;
        Ok(block)
    }

    /// Elects one thread of the current group, the same as before, to do this. Consecutive elections with the
    /// same scope become one.
    pub(super) fn elect(&mut self, ops: Vec<Op>) {
        let (by, site) = (self.scope.by, self.scope.site);
        let group = &self.program.groups[by as usize];
        let (members, first) = (group.members, group.warps.map_or(0, |(first, _)| first));
        let warps = self.program.threads_of(by).div_ceil(32);
        let ops = ops.into_iter().map(|op| thread::Stmt { site, op });
        let scope = match (warps, members) {
            _ if warps == 1 || self.scope.one_warp => Scope::Warp,
            (_, 1) => Scope::Block,
            _ => match Scope::of_warps(warps).filter(|scope| first % scope.warps() == 0) {
                Some(scope) => scope,
                // One thread of each member of a family.
                None => {
                    let thread = self.coord(&Coord::Thread(by));
                    let cond = self.exprs().eq(thread, 0);
                    return self.emit(Op::If { cond: cond.into(), then: ops.collect(), other: Vec::new() });
                }
            },
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

    /// The slot of a phase, and how many rounds the ring has completed.
    pub(super) fn slot(&mut self, ring: Id, phase: &Affine) -> (Ix, Ix) {
        let (phase, slots) = (self.affine(phase), self.slots(ring));
        let (slot, wraps) = (self.exprs().rem(phase, slots), self.exprs().div(phase, slots));
        self.name_slots(slot, ring);
        self.name_slots(wraps, ring);
        (slot, wraps)
    }

    pub(super) fn acquire(&mut self, ring: Id, phase: &Affine) {
        let (slot, wraps) = self.slot(ring, phase);
        let bar = self.rings[ring as usize] + 1;
        // In the first pass over the ring every slot is free: it waits for the phase before the first, which is complete.
        let phase = self.exprs().add(wraps, -1);
        let Ring { name, to, .. } = &self.program.rings[ring as usize];
        let readers = &self.program.groups[*to as usize].name;
        self.comment(format!(
            "until the {readers} have released the slot of {name}; at first every slot is free"
        ));
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
        let (slot, wraps) = self.slot(ring, phase);
        self.comment(format!("until the slot of {} is full", self.program.rings[ring as usize].name));
        self.emit(Op::Await { bar: self.rings[ring as usize], slot, phase: wraps });
    }

    /// Every consumer warp arrives at the slot's `empty` mbarrier, in all blocks whose copies fill the slot.
    pub(super) fn release(&mut self, ring: Id, phase: &Affine) -> Result<()> {
        let (slot, _) = self.slot(ring, phase);
        let bar = self.rings[ring as usize] + 1;
        debug_assert!(matches!(self.kernel.bars[bar as usize], Bar::Mbarriers { .. }));
        let peers = match self.program.rings[ring as usize].over_cluster {
            true => (0..self.program.cluster[0])
                .map(|at| self.rank_along_x(at).map(Some))
                .collect::<Result<_>>()?,
            false => vec![None],
        };
        // One lane arrives for its warp; the warp fence orders the other lanes' reads before that.
        self.emit(Op::Fence(Fence::Threads(Scope::Warp)));
        let site = self.scope.site;
        let arrive = |peer| thread::Stmt { site, op: Op::Arrive { bar, slot, peer, bytes: None } };
        self.emit(Op::Elect(Scope::Warp, peers.into_iter().map(arrive).collect()));
        Ok(())
    }

    /// Waits until all but the last operations under a token are done: wgmma until it has accumulated, bulk stores
    /// until they have read shared memory. Waits count operations in issue order. So if other tokens use the same
    /// queue, the wait is for all operations, unless [`super::tokens`] finds a higher count.
    pub(super) fn wait_for(&mut self, token: Id, but: u32) {
        self.wait_for_copies(token, but);
        for queue in [Queue::Products, Queue::Bulk] {
            let tokens = self.tokens_of(queue);
            let others = tokens.iter().any(|other| *other != token);
            let pending = if others { 0 } else { but };
            match queue {
                _ if !tokens.contains(&token) => {}
                // Only the thread that stores waits; others need a barrier.
                Queue::Bulk => self.elect(vec![Op::WaitQueue { queue: Queue::BulkRead, pending }]),
                queue if others => self.marked(Mark::Waits(token, but), Op::WaitQueue { queue, pending }),
                queue => self.emit(Op::WaitQueue { queue, pending }),
            }
        }
    }

    /// Commits the products of a statement, perhaps under a token.
    pub(super) fn commit_products(&mut self, token: Option<Id>) {
        let commit = Op::Commit(Queue::Products);
        match token.filter(|token| self.tokens_of(Queue::Products).iter().any(|other| other != token)) {
            Some(token) => self.marked(Mark::Closes(token), commit),
            None => self.emit(commit),
        }
    }

    /// The tokens of the operations of a queue.
    fn tokens_of(&self, queue: Queue) -> BTreeSet<Id> {
        let issued = preorder(&self.program.body).filter_map(issued);
        issued.filter(|(_, of)| *of == queue).map(|(token, _)| token).collect()
    }
}

/// The token and the queue of an asynchronous operation that is waited for by count.
fn issued(stmt: &Stmt) -> Option<(Id, Queue)> {
    let (tile::Op::Gemm { token: Some(token), .. } | tile::Op::Copy { token: Some(token), .. }) = &stmt.op
    else {
        return None;
    };
    match stmt.instruction()?.family.completes {
        Done::Queue(queue) => Some((*token, queue)),
        Done::Now | Done::Mbarrier => None,
    }
}

/// Is it a bulk store to global memory?
pub(super) fn is_bulk_store(how: How) -> bool {
    matches!(how, How::Atom(row) if row.family.completes == Done::Queue(Queue::Bulk))
}

/// The scope in which the mbarriers of a ring order ordinary accesses: the cluster, if other accesses than asynchronous
/// copies and products are to slots that other blocks fill or read; otherwise the block.
pub(super) fn scope(program: &tile::Program, ring: &Ring) -> Scope {
    // Statements without an instruction access memory by their threads.
    let asynchronous = |stmt: &Stmt| stmt.instruction().is_some_and(|row| row.family.async_proxy);
    let multicasts =
        |stmt: &Stmt| stmt.instruction().is_some_and(|row| row.operand(OperandName::Mask).is_some());
    // Buffers with such accesses, and buffers that blocks share.
    let (mut ordinary, mut shared) = (Vec::new(), Vec::new());
    for stmt in preorder(&program.body) {
        for view in stmt.accesses() {
            if !ring.buffers.contains(&view.tensor) {
                continue;
            }
            if !asynchronous(stmt) {
                ordinary.push(view.tensor);
            }
            if multicasts(stmt) || view.peer.is_some() {
                shared.push(view.tensor);
            }
        }
    }
    let over_cluster = ring.over_cluster && ordinary.iter().any(|buffer| shared.contains(buffer));
    if over_cluster { Scope::Cluster } else { Scope::Block }
}

/// The rings that a statement advances, except inside roles.
fn advances(stmt: &Stmt, to: &mut Vec<Id>) {
    if let tile::Op::Advance { ring } = &stmt.op
        && !to.contains(ring)
    {
        to.push(*ring);
    }
    if !matches!(stmt.op, tile::Op::Roles(_)) {
        stmt.bodies().into_iter().flatten().for_each(|stmt| advances(stmt, to));
    }
}
