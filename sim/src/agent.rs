//! Asynchronous operations: issued by a warp, they land some time before a wait for them returns. A seed
//! decides when.

use std::collections::VecDeque;
use std::rc::Rc;

use tilewright_codegen::thread::{Change, Space};

use crate::clock::{Carried, Component, Knowledge, Seen};
use crate::fault::{Fault, FaultKind};
use crate::global::Span;
use crate::machine::{Cluster, Result};
use crate::shadow::{By, Stamp, Touch};

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
    /// A bulk copy into shared memory: targets are block and mbarrier.
    Load { lane: u32, targets: Vec<(usize, usize)>, pieces: Vec<Piece>, bytes: i64 },
    /// A store to shared memory of a block of the cluster (st.async).
    Send(Sent),
    /// A bulk store, possibly a reduction; the bytes that it has read, once it has.
    Store { lane: u32, block: usize, pieces: Vec<Piece>, op: Option<Change>, read: Option<Vec<u8>> },
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
    /// The block, its mbarrier, and the byte.
    pub(crate) block: usize,
    pub(crate) bar: usize,
    pub(crate) to: usize,
    pub(crate) data: [u8; 8],
    pub(crate) bytes: usize,
}

/// Up to 16 bytes of a bulk copy: where in shared memory, the element in global memory, and which of its
/// elements exist.
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

impl Agent {
    pub(crate) fn knowledge(&self, lane: u32) -> Knowledge {
        let own = Some((self.first + lane, self.seen.epoch));
        Knowledge { seen: self.seen.clone(), lane, own, asynchronous: self.asynchronous }
    }

    /// Will it write this byte of a block's shared memory? Then its component, access and thread.
    pub(crate) fn writes_shared(&self, block: usize, at: usize) -> Option<(Component, u32, u32)> {
        let within = |from: usize, len: usize| (from..from + len.max(1)).contains(&at);
        match &self.work {
            Work::Copies(all) => {
                let mine = all.iter().find(|copy| copy.block == block && within(copy.to, copy.bytes))?;
                Some((Component::Copies(self.first + mine.lane), self.to, self.first + mine.lane))
            }
            Work::Load { lane, targets, pieces, .. } => {
                let there = targets.iter().find(|target| target.0 == block)?;
                let mine = pieces.iter().any(|piece| within(piece.shared, 16));
                let on = Component::Mbarrier(there.0 as u32, there.1 as u32);
                mine.then_some((on, self.to, self.first + lane))
            }
            Work::Send(sent) => {
                let mine = sent.block == block && within(sent.to, sent.bytes);
                let on = Component::Mbarrier(block as u32, sent.bar as u32);
                mine.then_some((on, self.to, self.first + sent.lane))
            }
            Work::Store { .. } => None,
        }
    }
}

impl Cluster<'_> {
    /// Puts an operation in flight.
    pub(crate) fn begin(&mut self, agent: Agent) -> u64 {
        let id = self.next_agent;
        self.next_agent += 1;
        self.agents.insert(id, agent);
        id
    }

    /// Lands one operation, if any is in flight.
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

    /// Lands some of the operations in flight, at random.
    pub(crate) fn land_some(&mut self) -> Result<()> {
        if self.agents.is_empty() && !self.ctx.code.uses.wgmma {
            return Ok(());
        }
        // Races need early landings: they show accesses without a wait. Otherwise operations land as late as
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

    /// Lands an operation for a wait; `reading` alone completes the reads of a bulk store.
    pub(crate) fn land_as(&mut self, id: u64, reading: bool) -> Result<()> {
        if self.agents.contains_key(&id) { self.land(id, reading) } else { Ok(()) }
    }

    fn land(&mut self, id: u64, reading: bool) -> Result<()> {
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
                            return self.land(id, false);
                        }
                    }
                    Some(bytes) if reading => {
                        *read = Some(bytes);
                        self.agents.insert(id, agent);
                    }
                    Some(bytes) => {
                        let pieces = std::mem::take(pieces);
                        self.write_stored(&agent, (lane, block), &pieces, op, &bytes)?;
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
        targets: &[(usize, usize)],
        pieces: &[Piece],
        bytes: i64,
    ) -> Result<()> {
        let ctx = self.ctx;
        let Space::Global(buffer) = self.space(agent.from) else { return Ok(()) };
        let size = ctx.world.buffers[buffer as usize].elem.bytes() as usize;
        let thread = agent.first + lane;
        let knowledge = agent.knowledge(lane);
        let by = By::Agent(&knowledge);
        for &(block, at) in targets {
            let component = self.component(Component::Mbarrier(block as u32, at as u32));
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

    /// It is ordered after the phases that its issuer has acquired, and so is every thread that waits for it. What else its
    /// issuer knows of is complete, and no more: no fence makes other writes visible.
    fn land_sent(&mut self, agent: &Agent, Sent { lane, block, bar, to, data, bytes }: Sent) -> Result<()> {
        let components = &self.ctx.world.components;
        let component = self.component(Component::Mbarrier(block as u32, bar as u32));
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
        (lane, block): (u32, usize),
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
                        overlay.update(&ctx.world, (buffer, span.at + n), op, value, &by, stamp).map(drop)
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
                Work::Load { lane, targets, .. } if targets.iter().any(|target| target.0 == block) => {
                    (*lane, agent.to)
                }
                Work::Send(sent) if sent.block == block => (sent.lane, agent.to),
                Work::Store { lane, block: of, read: None, .. } if *of == block => (*lane, agent.from),
                _ => continue,
            };
            return Err(self.left_behind(agent.first + lane, access));
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

    fn left_behind(&self, thread: u32, access: u32) -> Box<Fault> {
        let warps = self.ctx.warps() * 32;
        let block = self.blocks[(thread / warps) as usize].at;
        let site = self.ctx.code.accesses[access as usize].site;
        let party = crate::fault::Party {
            block,
            threads: vec![thread % warps],
            doing: "issued the copy".into(),
            line: self.ctx.line(site),
        };
        let [x, y, z] = block;
        self.ctx.fault(
            FaultKind::InFlight,
            format!("block ({x}, {y}, {z}) ends, and a bulk copy still uses its shared memory"),
            vec![party],
            "wait for every bulk copy before the kernel ends",
        )
    }

    /// Accesses to this block's shared memory by other blocks, bulk copies and products must be ordered
    /// before its end: a warp of it has waited for them.
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
        let grain = self.blocks[block].shared.grain();
        for cell in 0..cells {
            for (stamp, writes) in shadow.stamps(cell) {
                if known.plain.get(stamp.component) >= stamp.epoch {
                    continue;
                }
                match self.ctx.world.components.named(stamp.component) {
                    Component::Thread(thread) if (thread / per_block) as usize == block => {}
                    Component::Thread(_) => {
                        let [x, y, z] = self.blocks[block].at;
                        let what = format!("byte {} of its shared memory", cell * grain);
                        let party = self.ctx.party_of(0, stamp, writes, &what);
                        return Err(self.ctx.fault(
                            FaultKind::Race,
                            format!(
                                "block ({x}, {y}, {z}) may end before another block is done with its memory"
                            ),
                            vec![party],
                            "synchronise the cluster before its blocks end",
                        ));
                    }
                    // It has landed with this seed; with another it may not have.
                    Component::BulkReads(_) | Component::Mbarrier(..) => {
                        return Err(self.left_behind(stamp.thread, stamp.access));
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
