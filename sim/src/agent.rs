//! Asynchronous operations. A warp issues them, and they complete some time before a wait for them returns. A seed
//! decides when.

use std::collections::VecDeque;
use std::rc::Rc;

use tilewright_program::thread::{Change, Scope, Space};

use crate::clock::{Carried, Component, Knowledge, Seen};
use crate::fault::{Fault, FaultKind, Party};
use crate::global::{Atomic, Span, Word};
use crate::machine::{Cluster, Result};
use crate::shadow::{By, Stamp, Touch};
use crate::update::Operands;

/// An operation in flight.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    pub(crate) work: Work,
    /// The clocks of its issuers: one for all lanes, or one each.
    pub(crate) seen: Seen,
    /// Component of lane 0 of the warp.
    pub(crate) first: u32,
    pub(crate) asynchronous: bool,
    /// Its commit group, counted from 1; operations that complete on mbarriers take their phase.
    pub(crate) number: u32,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// cp.async: lane, block, byte of shared memory, element of global memory, bytes to read, bytes to write.
    Copies(Vec<Copied>),
    /// A bulk copy into shared memory.
    Load { lane: u32, targets: Vec<Target>, pieces: Vec<Piece>, bytes: i64 },
    /// A store to shared memory of a block of the cluster (st.async).
    Send(Sent),
    /// A bulk store, possibly a reduction; the bytes that it has read, once it has.
    Store { lane: u32, block: usize, pieces: Vec<Piece>, op: Option<Change>, read: Option<Vec<u8>> },
}

/// Where an operation completes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) block: usize,
    /// The mbarrier, and its phase when the operation was issued.
    pub(crate) bar: usize,
    pub(crate) phase: i64,
}

/// One lane's cp.async.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copied {
    pub(crate) lane: u32,
    pub(crate) block: usize,
    pub(crate) to: usize,
    pub(crate) from: usize,
    pub(crate) read: usize,
    pub(crate) bytes: usize,
}

/// A thread's store to shared memory of a block of the cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) lane: u32,
    pub(crate) target: Target,
    /// The byte.
    pub(crate) to: usize,
    pub(crate) data: [u8; 8],
    pub(crate) bytes: usize,
}

/// Up to 16 bytes of a bulk copy: their position in shared memory, the element in global memory, and the
/// elements that exist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) shared: usize,
    pub(crate) global: i64,
    pub(crate) inside: (u16, u16),
    pub(crate) count: u16,
}

/// Matrix products of a warpgroup, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Products {
    pub(crate) queue: VecDeque<Product>,
    /// How many have completed.
    pub(crate) completed: u64,
}

/// A product that some of its four warps have issued.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    pub(crate) number: u64,
    pub(crate) atom: u32,
    pub(crate) site: u32,
    pub(crate) begun: u32,
    /// The clock of each warp when it issued the product.
    pub(crate) carried: [Carried; 4],
    /// Operands common to all its warps: matrices' first bytes, and integers.
    pub(crate) operands: Vec<i64>,
}

impl Target {
    fn component(self) -> Component {
        Component::Mbarrier(self.block as u32, self.bar as u32)
    }
}

impl Agent {
    pub(crate) fn knowledge(&self, lane: u32) -> Knowledge {
        let own = Some((self.first + lane, self.seen.epoch));
        Knowledge { seen: self.seen.clone(), lane, own, asynchronous: self.asynchronous }
    }

    /// Will it write this byte of a block's shared memory? Then its component, access and thread, and the mbarrier that it
    /// completes on.
    pub(crate) fn writes_shared(
        &self,
        block: usize,
        at: usize,
    ) -> Option<(Component, u32, u32, Option<Target>)> {
        let within = |from: usize, len: usize| (from..from + len.max(1)).contains(&at);
        match &self.work {
            Work::Copies(all) => {
                let mine = all.iter().find(|copy| copy.block == block && within(copy.to, copy.bytes))?;
                Some((Component::Copies(self.first + mine.lane), self.to, self.first + mine.lane, None))
            }
            Work::Load { lane, targets, pieces, .. } => {
                let there = targets.iter().find(|target| target.block == block)?;
                let mine = pieces.iter().any(|piece| within(piece.shared, 16));
                mine.then_some((there.component(), self.to, self.first + lane, Some(*there)))
            }
            Work::Send(sent) => {
                let mine = sent.target.block == block && within(sent.to, sent.bytes);
                mine.then_some((sent.target.component(), self.to, self.first + sent.lane, Some(sent.target)))
            }
            Work::Store { .. } => None,
        }
    }

    /// Bytes that count at its mbarrier.
    pub(crate) fn bytes(&self) -> i64 {
        match &self.work {
            Work::Load { bytes, .. } => *bytes,
            Work::Send(sent) => sent.bytes as i64,
            Work::Copies(_) | Work::Store { .. } => 0,
        }
    }
}

impl Cluster<'_> {
    /// Puts an operation in flight.
    pub(crate) fn begin(&mut self, agent: Agent) -> u64 {
        let id = self.next_agent;
        self.next_agent += 1;
        self.tell_begun(id, &agent);
        self.agents.insert(id, agent);
        id
    }

    /// Completes one operation, if any is in flight.
    pub(crate) fn land_one(&mut self) -> Result<bool> {
        let products = self.ready_products();
        let count = self.agents.len() + products.len();
        if count == 0 {
            return Ok(false);
        }
        let chosen = self.random.below(count);
        match self.agents.keys().nth(chosen).copied() {
            Some(id) => self.land(id, false)?,
            None => {
                let (block, group) = products[chosen - self.agents.len()];
                self.land_product(block, group)?;
            }
        }
        Ok(true)
    }

    /// Completes some of the operations in flight, at random.
    pub(crate) fn land_some(&mut self) -> Result<()> {
        if self.agents.is_empty() && !self.ctx.code.uses.wgmma {
            return Ok(());
        }
        // Early completions show races of accesses without a wait. Otherwise operations complete as late as
        // possible.
        if !self.ctx.world.races {
            return Ok(());
        }
        for id in self.agents.keys().copied().collect::<Vec<_>>() {
            if self.random.below(4) == 0 {
                self.land(id, false)?;
            }
        }
        for (block, group) in self.ready_products() {
            if self.random.below(4) == 0 {
                self.land_product(block, group)?;
            }
        }
        Ok(())
    }

    /// Completes an operation for a wait; `reading` alone completes the reads of a bulk store.
    pub(crate) fn land_as(&mut self, id: u64, reading: bool) -> Result<()> {
        if self.agents.contains_key(&id) { self.land(id, reading) } else { Ok(()) }
    }

    fn land(&mut self, id: u64, reading: bool) -> Result<()> {
        if self.events.is_none() {
            return self.lands(id, reading);
        }
        // The bytes of a copy can complete a phase of an mbarrier, which comes after the copy.
        let completes = self.agents.get(&id).is_some_and(|agent| agent.bytes() > 0);
        if completes {
            self.tell_landed(id);
        }
        let landed = self.lands(id, reading);
        if !completes && !self.agents.contains_key(&id) {
            self.tell_landed(id);
        }
        landed
    }

    fn lands(&mut self, id: u64, reading: bool) -> Result<()> {
        let Some(mut agent) = self.agents.remove(&id) else { return Ok(()) };
        match &mut agent.work {
            Work::Copies(all) => {
                let all = std::mem::take(all);
                for copy in all {
                    self.land_copy(&agent, copy)?;
                }
            }
            Work::Load { lane, targets, pieces, bytes } => {
                let (lane, targets, pieces, bytes) =
                    (*lane, std::mem::take(targets), std::mem::take(pieces), *bytes);
                self.land_load(&agent, lane, &targets, &pieces, bytes)?;
            }
            Work::Send(sent) => {
                let sent = *sent;
                self.land_sent(&agent, sent)?;
            }
            Work::Store { lane, block, pieces, op, read } => {
                let (lane, block, op) = (*lane, *block, *op);
                match read.take() {
                    None => {
                        let pieces = pieces.clone();
                        let bytes = self.read_for_store(&agent, lane, block, &pieces)?;
                        if let Work::Store { read, .. } = &mut agent.work {
                            *read = Some(bytes);
                        }
                        self.agents.insert(id, agent);
                        // Its writes land later, unless they are waited for.
                        if !reading && self.agents.contains_key(&id) {
                            return self.lands(id, false);
                        }
                    }
                    Some(bytes) if reading => {
                        *read = Some(bytes);
                        self.agents.insert(id, agent);
                    }
                    Some(bytes) => {
                        let pieces = std::mem::take(pieces);
                        self.write_stored(&agent, lane, block, &pieces, op, &bytes)?;
                    }
                }
            }
        }
        Ok(())
    }

    pub(crate) fn space(&self, access: u32) -> Space {
        self.ctx.code.accesses[access as usize].space
    }

    fn land_copy(&mut self, agent: &Agent, copy: Copied) -> Result<()> {
        let Copied { lane, block, to, from, read, bytes } = copy;
        let ctx = self.ctx;
        let thread = agent.first + lane;
        let component = self.component(Component::Copies(thread));
        let knowledge = agent.knowledge(lane);
        let by = By::Agent(&knowledge);
        let stamp = |access| Stamp { component, epoch: agent.number, access, thread };
        let mut data = [0u8; 16];
        if read > 0
            && let Space::Global(buffer) = self.space(agent.from)
        {
            let size = ctx.world.buffers[buffer as usize].elem.bytes() as usize;
            let span = Span { buffer, at: from, len: read / size };
            self.overlay
                .read(&ctx.world, span, &by, stamp(agent.from), &mut data[..read])
                .map_err(|trouble| self.trouble(trouble, stamp(agent.from), false, block, &by))?;
        }
        let shared = &mut self.blocks[block].shared;
        let outcome = shared.write(&ctx.world.components, to, bytes, Touch::Write, &by, stamp(agent.to));
        shared.bytes[to..to + bytes].copy_from_slice(&data[..bytes]);
        outcome.map_err(|trouble| self.trouble(trouble, stamp(agent.to), true, block, &by))
    }

    fn land_load(
        &mut self,
        agent: &Agent,
        lane: u32,
        targets: &[Target],
        pieces: &[Piece],
        bytes: i64,
    ) -> Result<()> {
        let ctx = self.ctx;
        let Space::Global(buffer) = self.space(agent.from) else { return Ok(()) };
        let size = ctx.world.buffers[buffer as usize].elem.bytes() as usize;
        let thread = agent.first + lane;
        let knowledge = agent.knowledge(lane);
        let by = By::Agent(&knowledge);
        for &target in targets {
            self.lands_in_its_phase(target, agent, lane, bytes)?;
            let Target { block, bar: at, .. } = target;
            let component = self.component(target.component());
            let epoch = self.blocks[block].mbarriers[at].completed as u32 + 1;
            let stamp = |access| Stamp { component, epoch, access, thread };
            for piece in pieces {
                let mut data = [0u8; 16];
                let (lo, hi) = (piece.inside.0 as usize, piece.inside.1 as usize);
                if lo < hi {
                    let span = Span { buffer, at: (piece.global + lo as i64) as usize, len: hi - lo };
                    self.overlay
                        .read(&ctx.world, span, &by, stamp(agent.from), &mut data[lo * size..hi * size])
                        .map_err(|trouble| self.trouble(trouble, stamp(agent.from), false, block, &by))?;
                }
                let (to, len) = (piece.shared, piece.count as usize * size);
                let shared = &mut self.blocks[block].shared;
                let outcome =
                    shared.write(&ctx.world.components, to, len, Touch::Write, &by, stamp(agent.to));
                shared.bytes[to..to + len].copy_from_slice(&data[..len]);
                outcome.map_err(|trouble| self.trouble(trouble, stamp(agent.to), true, block, &by))?;
            }
            // It is ordered after the phases that its issuer has acquired, and so is every thread that waits
            // for it.
            let first = ctx.world.components.first_mbarrier();
            let mbarrier = &mut self.blocks[block].mbarriers[at];
            agent.seen.phases(lane, first, &mut mbarrier.brought.plain);
            mbarrier.bytes -= bytes;
            self.maybe_complete(block, at);
        }
        Ok(())
    }

    /// The bytes of an operation count in the phase in which it was issued: unless its arrivals expected fewer.
    fn lands_in_its_phase(&self, target: Target, agent: &Agent, lane: u32, bytes: i64) -> Result<()> {
        let Target { block, bar, phase } = target;
        if self.blocks[block].mbarriers[bar].completed == phase {
            return Ok(());
        }
        let site = self.ctx.code.accesses[agent.to as usize].site;
        let party = self.issuer(agent.first + lane, site, "issued the copy");
        Err(self.unexpected(target, vec![party], bytes))
    }

    /// A thread of the cluster that issued something.
    fn issuer(&self, thread: u32, site: u32, doing: &str) -> Party {
        let warps = self.ctx.warps() * 32;
        let block = self.blocks[(thread / warps) as usize].at;
        Party { block, threads: vec![thread % warps], doing: doing.into(), line: self.ctx.line(site) }
    }

    /// A phase is complete, and a copy whose bytes belong to it is not complete.
    pub(crate) fn unexpected(&self, target: Target, parties: Vec<Party>, bytes: i64) -> Box<Fault> {
        let (name, phase) = (self.mbarrier_name(target.bar), target.phase);
        self.ctx.fault(
            FaultKind::Mbarrier,
            format!(
                "phase {phase} of `{name}` is complete without the {bytes} bytes of a copy that was issued in it: its arrivals do not expect them"
            ),
            parties,
            crate::advice::expected_bytes(&name),
        )
    }

    /// It is ordered after the phases that its issuer has acquired, and so is every thread that waits for it. Other
    /// accesses that its issuer knows of are complete, but their writes are not visible without a fence.
    fn land_sent(&mut self, agent: &Agent, Sent { lane, target, to, data, bytes }: Sent) -> Result<()> {
        self.lands_in_its_phase(target, agent, lane, bytes as i64)?;
        let Target { block, bar, .. } = target;
        let components = &self.ctx.world.components;
        let component = self.component(target.component());
        let epoch = self.blocks[block].mbarriers[bar].completed as u32 + 1;
        let knowledge = agent.knowledge(lane);
        let by = By::Agent(&knowledge);
        let stamp = Stamp { component, epoch, access: agent.to, thread: agent.first + lane };
        let shared = &mut self.blocks[block].shared;
        let outcome = shared.write(components, to, bytes, Touch::Write, &by, stamp);
        shared.bytes[to..to + bytes].copy_from_slice(&data[..bytes]);
        outcome.map_err(|trouble| self.trouble(trouble, stamp, true, block, &by))?;
        let first = self.ctx.world.components.first_mbarrier();
        let mbarrier = &mut self.blocks[block].mbarriers[bar];
        agent.seen.phases(lane, first, &mut mbarrier.brought.plain);
        agent.seen.send(agent.first, lane, &mut mbarrier.brought);
        mbarrier.bytes -= bytes as i64;
        self.maybe_complete(block, bar);
        Ok(())
    }

    fn read_for_store(
        &mut self,
        agent: &Agent,
        lane: u32,
        block: usize,
        pieces: &[Piece],
    ) -> Result<Vec<u8>> {
        let ctx = self.ctx;
        let Space::Global(buffer) = self.space(agent.to) else { return Ok(Vec::new()) };
        let size = ctx.world.buffers[buffer as usize].elem.bytes() as usize;
        let thread = agent.first + lane;
        let component = self.component(Component::BulkReads(thread));
        let knowledge = agent.knowledge(lane);
        let by = By::Agent(&knowledge);
        let stamp = Stamp { component, epoch: agent.number, access: agent.from, thread };
        let mut data = Vec::with_capacity(pieces.len() * 16);
        for piece in pieces {
            let (at, len) = (piece.shared, piece.count as usize * size);
            let shared = &mut self.blocks[block].shared;
            let outcome = shared.read(&ctx.world.components, at, len, &by, stamp);
            data.extend_from_slice(&shared.bytes[at..at + len]);
            outcome.map_err(|trouble| self.trouble(trouble, stamp, false, block, &by))?;
        }
        Ok(data)
    }

    fn write_stored(
        &mut self,
        agent: &Agent,
        lane: u32,
        block: usize,
        pieces: &[Piece],
        op: Option<Change>,
        data: &[u8],
    ) -> Result<()> {
        let ctx = self.ctx;
        let Space::Global(buffer) = self.space(agent.to) else { return Ok(()) };
        let elem = ctx.world.buffers[buffer as usize].elem;
        let size = elem.bytes() as usize;
        let thread = agent.first + lane;
        let component = self.component(Component::BulkWrites(thread));
        let knowledge = agent.knowledge(lane);
        let by = By::Agent(&knowledge);
        let stamp = Stamp { component, epoch: agent.number, access: agent.to, thread };
        let mut at = 0;
        for piece in pieces {
            let (lo, hi) = (piece.inside.0 as usize, piece.inside.1 as usize);
            if lo < hi {
                let span = Span { buffer, at: (piece.global + lo as i64) as usize, len: hi - lo };
                let bytes = &data[at + lo * size..at + hi * size];
                let overlay = &mut self.overlay;
                let outcome = match op {
                    None => overlay.write(&ctx.world, span, &by, stamp, bytes),
                    Some(op) => (0..hi - lo).try_for_each(|n| {
                        let value = crate::global::raw(bytes, n, elem);
                        overlay
                            .update(
                                &ctx.world,
                                Word { buffer, at: span.at + n },
                                Atomic {
                                    op,
                                    scope: Scope::Grid,
                                    value: Operands { by: value, expected: None },
                                },
                                &by,
                                stamp,
                            )
                            .map(drop)
                    }),
                };
                outcome.map_err(|trouble| self.trouble(trouble, stamp, true, block, &by))?;
            }
            at += piece.count as usize * size;
        }
        Ok(())
    }

    /// A block's last warp has ended: its shared memory and its barriers are freed.
    pub(crate) fn block_ends(&mut self, block: usize) -> Result<()> {
        let mut gone = Vec::new();
        for (&id, agent) in &self.agents {
            let (lane, access) = match &agent.work {
                // Hardware completes these before it frees the memory, and no thread can access them.
                Work::Copies(all) => {
                    if all.iter().any(|copy| copy.block == block) {
                        gone.push(id);
                    }
                    continue;
                }
                Work::Load { lane, targets, .. } if targets.iter().any(|target| target.block == block) => {
                    (*lane, agent.to)
                }
                Work::Send(sent) if sent.target.block == block => (sent.lane, agent.to),
                Work::Store { lane, block: of, read: None, .. } if *of == block => (*lane, agent.from),
                _ => continue,
            };
            return Err(self.left_behind(block, agent.first + lane, access));
        }
        gone.iter().for_each(|id| drop(self.agents.remove(id)));
        if let Some(product) = self.blocks[block].groups.iter().find_map(|group| group.queue.front()) {
            let [x, y, z] = self.blocks[block].at;
            let line = self.ctx.line(product.site);
            let doing = "ends while one of its matrix products is in flight".to_string();
            let party = crate::fault::Party { block: [x, y, z], threads: vec![0], doing, line };
            return Err(self.ctx.fault(
                FaultKind::InFlight,
                format!("block ({x}, {y}, {z}) ends, and a matrix product still uses its registers"),
                vec![party],
                "wait for all products before the kernel ends",
            ));
        }
        self.memory_is_free(block)
    }

    /// The end of a block is not ordered after an access to its shared memory by another block.
    pub(crate) fn ends_too_early(&self, block: usize, party: Party) -> Box<Fault> {
        let [x, y, z] = self.blocks[block].at;
        self.ctx.fault(
            FaultKind::Race,
            format!(
                "block ({x}, {y}, {z}) may end before another block of its cluster is done with its shared memory"
            ),
            vec![party],
            "put a barrier of the cluster at the end, after all accesses to other blocks' memory: one of the block alone is not enough",
        )
    }

    fn left_behind(&self, block: usize, thread: u32, access: u32) -> Box<Fault> {
        let site = self.ctx.code.accesses[access as usize].site;
        let party = self.issuer(thread, site, "issued the copy");
        let [x, y, z] = self.blocks[block].at;
        self.ctx.fault(
            FaultKind::InFlight,
            format!("block ({x}, {y}, {z}) ends, and a bulk copy still uses its shared memory"),
            vec![party],
            "wait for every bulk copy before the kernel ends",
        )
    }

    /// Accesses to this block's shared memory by other blocks, bulk copies and products, and arrivals at its mbarriers, must
    /// be ordered before its end: a warp of it has waited for them.
    fn memory_is_free(&self, block: usize) -> Result<()> {
        let asks = self.blocks.len() > 1 || self.ctx.code.uses.async_proxy;
        let Some((shadow, cells)) = self.blocks[block].shared.shadow().filter(|_| asks) else {
            return Ok(());
        };
        let per_block = self.ctx.warps() * 32;
        let mut known = Carried::default();
        for warp in self.warps.iter().flatten().filter(|warp| warp.block == block) {
            warp.seen.clone().release(warp.first, warp.live, &mut known);
        }
        for (at, mbarrier) in self.blocks[block].mbarriers.iter().enumerate() {
            let late = |(thread, (epoch, _)): &(&u32, &(u32, u32))| known.plain.get(**thread) < *epoch;
            if let Some((&thread, &(_, site))) = mbarrier.from_peers.iter().find(late) {
                let (from, name) = ((thread / per_block) as usize, self.mbarrier_name(at));
                let (doing, line) = (format!("arrives at `{name}` of that block"), self.ctx.line(site));
                let party =
                    Party { block: self.blocks[from].at, threads: vec![thread % per_block], doing, line };
                return Err(self.ends_too_early(block, party));
            }
        }
        let grain = self.blocks[block].shared.grain();
        for cell in 0..cells {
            for (stamp, writes) in shadow.stamps(cell) {
                if known.plain.get(stamp.component) >= stamp.epoch {
                    continue;
                }
                match self.ctx.world.components.named(stamp.component) {
                    Component::Thread(thread) if (thread / per_block) as usize == block => {}
                    Component::Thread(_) => {
                        let what = format!("byte {} of that block's shared memory", cell * grain);
                        return Err(self
                            .ends_too_early(block, self.ctx.party_of(self.number(), stamp, writes, &what)));
                    }
                    // It is complete with this seed; with another it may not be.
                    Component::BulkReads(_) | Component::Mbarrier(..) => {
                        return Err(self.left_behind(block, stamp.thread, stamp.access));
                    }
                    Component::Copies(_) | Component::BulkWrites(_) | Component::Products(..) => {}
                }
            }
        }
        Ok(())
    }

    /// Warpgroups whose next product has been issued by all four warps.
    fn ready_products(&self) -> Vec<(usize, usize)> {
        let mut all = Vec::new();
        if !self.ctx.code.uses.wgmma {
            return all;
        }
        for (block, of) in self.blocks.iter().enumerate() {
            for (group, products) in of.groups.iter().enumerate() {
                if products.queue.front().is_some_and(|product| product.begun == 0xf) {
                    all.push((block, group));
                }
            }
        }
        all
    }
}

impl Product {
    /// The clock of each of its warps.
    pub(crate) fn knowledge(&self) -> [Knowledge; 4] {
        self.carried.each_ref().map(|carried| {
            let (plain, fenced) = (Rc::new(carried.plain.clone()), Rc::new(carried.fenced.clone()));
            let seen = Seen { plain, fenced, ..Seen::default() };
            Knowledge { seen, lane: 0, own: None, asynchronous: true }
        })
    }
}
