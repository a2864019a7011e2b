//! Barriers, mbarriers, fences and waits of a warp, and the happens-before edges that they add.

use tilewright_program::thread::{Bar, Fence, Id, Queue, Scope};

use crate::clock::{Component, Shared, lanes_of};
use crate::code::Src;
use crate::fault::{Fault, FaultKind, Party, count};
use crate::machine::{Cluster, Result};
use crate::warp::{Group, Groups, LANES, Waiting, Warp};

impl Cluster<'_> {
    /// The barrier of a member: the number in a register must be the same in all lanes.
    pub(crate) fn barrier_of(&self, w: &Warp, first: Id, member: Src) -> Result<Id> {
        let members = w.ints(member);
        let mut of = lanes_of(w.mask).map(|lane| members[lane as usize]);
        let member = of.next().unwrap_or_default();
        let bar = i64::from(first) + member;
        if of.any(|other| other != member) || !(0..self.ctx.kernel.bars.len() as i64).contains(&bar) {
            let party = self.party(w, w.mask, "arrive at a barrier", self.site(w));
            return Err(self.ctx.fault(
                FaultKind::Divergence,
                "the lanes of a warp arrive at different barriers, or at one that does not exist".into(),
                vec![party],
                "compute the number of a barrier from the warp's index",
            ));
        }
        Ok(bar as Id)
    }

    /// Arrives at a barrier of threads. True if the warp continues.
    pub(crate) fn sync(&mut self, w: &mut Warp, bar: Id) -> Result<bool> {
        let races = self.ctx.world.races;
        let (id, expected) = match &self.ctx.kernel.bars[bar as usize] {
            Bar::Block => (Some(0), self.ctx.kernel.launch.threads),
            Bar::Named { id, threads } => (Some(u32::from(*id)), *threads),
            Bar::Cluster | Bar::ClusterStart => (None, self.ctx.kernel.launch.threads * self.ctx.cluster()),
            Bar::Mbarriers { name, .. } => {
                let message = format!("`{name}` are mbarriers: threads arrive at one of their slots");
                return Err(self.ctx.fault(FaultKind::Malformed, message, Vec::new(), ""));
            }
        };
        let instruction = if id.is_some() { "bar.sync" } else { "barrier.cluster" };
        self.together(w, instruction)?;
        self.comes(w, bar, expected)?;
        let me = w.block * self.ctx.warps() as usize + w.number as usize;
        let barrier = match id {
            Some(id) => self.blocks[w.block].barriers.entry(id).or_default(),
            None => &mut self.barriers[w.block / self.ctx.cluster() as usize],
        };
        if !barrier.waiting.is_empty() && barrier.expected != expected {
            let message = format!(
                "barrier {} is for {expected} threads here, and for {} threads where others wait at it",
                id.unwrap_or_default(),
                barrier.expected
            );
            let party = self.party(w, w.mask, "arrive at the barrier", self.site(w));
            return Err(self.ctx.fault(
                FaultKind::Divergence,
                message,
                vec![party],
                "give each group of threads a barrier of its own",
            ));
        }
        barrier.expected = expected;
        barrier.relaxed |= self.ctx.kernel.bars[bar as usize] == Bar::ClusterStart;
        if races && !barrier.relaxed {
            w.seen.release(w.first, w.live, &mut barrier.carried);
        }
        // Named barriers count all threads of a warp.
        let counted = if matches!(id, Some(id) if id != 0) { LANES as u32 } else { w.live.count_ones() };
        barrier.arrived += counted;
        if barrier.arrived < expected {
            barrier.waiting.push(me);
            w.waiting = Some(match id {
                Some(id) => Waiting::Barrier(id),
                None => Waiting::Cluster,
            });
            return Ok(false);
        }
        let done = std::mem::take(barrier);
        self.tell_met(w, id);
        if id.is_none() {
            let size = self.ctx.cluster() as usize;
            let first = w.block / size * size;
            let mbarriers =
                self.blocks[first..first + size].iter_mut().flat_map(|block| &mut block.mbarriers);
            mbarriers.for_each(|mbarrier| mbarrier.met = mbarrier.fenced.is_some());
        }
        let races = races && !done.relaxed;
        let all = Shared::from(done.carried);
        if races {
            w.seen.set(&all);
            w.seen.epoch += 1;
        }
        for other in done.waiting {
            if let Some(other) = &mut self.warps[other] {
                other.waiting = None;
                if races {
                    // A new epoch separates its accesses after the wait from those before.
                    other.seen.set(&all);
                    other.seen.epoch += 1;
                }
            }
        }
        // Let the scheduler choose which warp continues.
        Ok(false)
    }

    /// A named barrier belongs to the warps that it counts: with more warps, the first to arrive would
    /// complete it. Other warps may use it later, if other synchronisation orders them after these.
    fn comes(&mut self, w: &Warp, bar: Id, expected: u32) -> Result<()> {
        let Bar::Named { id, .. } = self.ctx.kernel.bars[bar as usize] else { return Ok(()) };
        if !self.ctx.world.races {
            return Ok(());
        }
        let members = self.blocks[w.block].members.entry(id).or_default();
        members.retain(|&(warp, first, epoch)| warp != w.number && !w.seen.has(0, first, epoch));
        members.push((w.number, w.first, w.seen.epoch));
        let count = members.len() as u32 * LANES as u32;
        if count <= expected {
            return Ok(());
        }
        let before = members.iter().map(|(warp, ..)| *warp).filter(|warp| *warp != w.number);
        let mut threads: Vec<u32> = before.flat_map(|warp| (warp * LANES as u32..).take(LANES)).collect();
        threads.sort_unstable();
        let block = self.blocks[w.block].at;
        let parties = vec![
            self.party(w, w.mask, "arrive at the barrier", self.site(w)),
            Party { block, threads, doing: "arrived at it before".into(), line: None },
        ];
        Err(self.ctx.fault(
            FaultKind::Divergence,
            format!("barrier {id} is for {expected} threads, and {count} arrive at it"),
            parties,
            "let a barrier count all threads that arrive at it, and give each group of threads one of its own",
        ))
    }

    pub(crate) fn fence(&mut self, w: &mut Warp, fence: Fence) -> Result<()> {
        match fence {
            Fence::ProxyAsync if self.ctx.world.races => w.seen.fence(w.first, w.mask, w.live),
            Fence::MbarrierInit => {
                let own = |(component, _): (u32, u32)| {
                    component >= w.first && w.mask >> (component - w.first).min(31) & 1 == 1
                };
                for mbarrier in &mut self.blocks[w.block].mbarriers {
                    if let Some(made) = mbarrier.made.filter(|made| own(*made)) {
                        mbarrier.fenced.get_or_insert((made.0, w.seen.epoch));
                    }
                }
                w.seen.epoch += 1;
            }
            Fence::Products => {
                self.together(w, "wgmma.fence")?;
                w.since.iter_mut().zip(&w.pins).for_each(|(since, &pin)| since.fence(pin));
            }
            Fence::Threads(Scope::Warp) => {
                self.together(w, "bar.warp.sync")?;
                if self.ctx.world.races {
                    w.seen.converge(w.first, w.live);
                }
            }
            // Orders a thread's own accesses; it synchronises with no other thread.
            Fence::ProxyAsync | Fence::Threads(_) => {}
        }
        Ok(())
    }

    /// Changes the registers of a warp's threads (setmaxnreg). They come from the block's pool: the registers that all its threads have
    /// when it starts. True if the warp continues.
    pub(crate) fn set_registers(&mut self, w: &mut Warp, count: u32) -> Result<bool> {
        self.together(w, "setmaxnreg")?;
        let free = &mut self.blocks[w.block].free;
        if count > w.registers + *free {
            w.waiting = Some(Waiting::Registers(count - w.registers));
            return Ok(false);
        }
        *free = *free + w.registers - count;
        w.registers = count;
        Ok(true)
    }

    /// Collective and `.aligned` instructions are executed by all lanes of a warp together.
    pub(crate) fn together(&self, w: &Warp, instruction: &str) -> Result<()> {
        if w.mask == w.live { Ok(()) } else { Err(self.apart(w, w.mask, instruction)) }
    }

    #[cold]
    pub(crate) fn apart(&self, w: &Warp, lanes: u32, instruction: &str) -> Box<Fault> {
        let mut parties = vec![self.party(w, lanes, format!("execute `{instruction}`"), self.site(w))];
        let others = w.live & !lanes;
        if others != 0 {
            parties.push(self.party(w, others, "of the same warp do not", self.site(w)));
        }
        self.ctx.fault(
            FaultKind::Divergence,
            format!("`{instruction}` takes all 32 lanes of a warp, and {} execute it", lanes.count_ones()),
            parties,
            "keep it out of conditions that differ between threads",
        )
    }

    // Mbarriers.

    /// The mbarriers that lanes address: block and number for each.
    pub(crate) fn slots(
        &self,
        w: &Warp,
        bar: Id,
        slot: Src,
        peer: Option<Src>,
    ) -> Result<[(usize, usize); LANES]> {
        let Bar::Mbarriers { slots, name, .. } = &self.ctx.kernel.bars[bar as usize] else {
            let message = format!("barrier {bar} is no mbarrier");
            return Err(self.ctx.fault(FaultKind::Malformed, message, Vec::new(), ""));
        };
        let (at, peers) = (w.ints(slot), peer.map(|peer| w.ints(peer)));
        let mut all = [(0, 0); LANES];
        for lane in lanes_of(w.mask) {
            let rank = peers.map(|peers| peers[lane as usize]);
            let slot = at[lane as usize];
            let block = rank.map_or(Some(w.block), |rank| self.peer(w, rank));
            let (Some(block), true) = (block, (0..i64::from(*slots)).contains(&slot)) else {
                if (0..i64::from(*slots)).contains(&slot) {
                    let rank = rank.unwrap_or_default();
                    return Err(self.no_peer(w, name, "arrives at", lane, rank, self.site(w)));
                }
                let what = format!("there is no `{name}[{slot}]`, but {slots} of them");
                let party = self.party(w, 1 << lane, format!("uses `{name}`"), self.site(w));
                let help = format!("take the slot modulo {slots}");
                return Err(self.ctx.fault(FaultKind::OutOfBounds, what, vec![party], help));
            };
            all[lane as usize] = (block, self.ctx.bars[bar as usize] + slot as usize);
        }
        Ok(all)
    }

    /// The number of the mbarrier that the one active lane addresses.
    pub(crate) fn slot(&self, w: &Warp, bar: Id, slot: Src) -> Result<usize> {
        let all = self.slots(w, bar, slot, None)?;
        Ok(all[w.mask.trailing_zeros() as usize & 31].1)
    }

    pub(crate) fn init(&mut self, w: &mut Warp, bar: Id) -> Result<()> {
        let Bar::Mbarriers { slots, count, .. } = self.ctx.kernel.bars[bar as usize] else {
            let message = format!("barrier {bar} is no mbarrier, and it is initialised");
            return Err(self.ctx.fault(FaultKind::Malformed, message, Vec::new(), ""));
        };
        let first = self.ctx.bars[bar as usize];
        for at in first..first + slots as usize {
            if self.blocks[w.block].mbarriers[at].made.is_some() || w.mask.count_ones() != 1 {
                let name = self.mbarrier_name(at);
                let party = self.party(w, w.mask, format!("initialise `{name}`"), self.site(w));
                return Err(self.ctx.fault(
                    FaultKind::Mbarrier,
                    format!("`{name}` is initialised more than once"),
                    vec![party],
                    "let one thread of the block initialise it, once",
                ));
            }
            let mbarrier = &mut self.blocks[w.block].mbarriers[at];
            let lane = w.mask.trailing_zeros();
            mbarrier.made = Some((w.first + lane, w.seen.epoch));
            (mbarrier.count, mbarrier.missing) = (count, count);
        }
        Ok(())
    }

    /// Checks that it is initialised, and that the initialisation is ordered before this lane's use.
    pub(crate) fn usable(&self, w: &Warp, lane: u32, block: usize, at: usize, engine: bool) -> Result<()> {
        let mbarrier = &self.blocks[block].mbarriers[at];
        let name = || self.mbarrier_name(at);
        let party = || vec![self.party(w, 1 << lane, format!("uses `{}`", name()), self.site(w))];
        let Some((component, epoch)) = mbarrier.made else {
            return Err(self.ctx.fault(
                FaultKind::Mbarrier,
                format!("`{}` has not been initialised", name()),
                party(),
                "initialise it, then synchronise the threads",
            ));
        };
        let own = component == w.first + lane;
        let after =
            |epoch| !self.ctx.world.races || own || mbarrier.met || w.seen.has(lane, component, epoch);
        if !after(epoch) {
            return Err(self.ctx.fault(
                FaultKind::Mbarrier,
                format!("`{}` may not be initialised yet", name()),
                party(),
                "put a barrier between its initialisation and its use",
            ));
        }
        let fenced = mbarrier.fenced.is_some_and(|(_, epoch)| after(epoch));
        if !fenced && (engine || !own && block != w.block) {
            let message = match mbarrier.fenced {
                None => "was initialised, and no fence makes that visible to the copy engine or other blocks",
                Some(_) => {
                    "was initialised, and the fence that makes that visible to the copy engine and other blocks is not ordered before this use"
                }
            };
            return Err(self.ctx.fault(
                FaultKind::MissingFence,
                format!("`{}` {message}", name()),
                party(),
                "let the thread that initialises it execute a fence (fence.mbarrier_init) afterwards, before the barrier at which the others wait",
            ));
        }
        Ok(())
    }

    pub(crate) fn arrive(
        &mut self,
        w: &mut Warp,
        bar: Id,
        slot: Src,
        peer: Option<Src>,
        bytes: Option<u32>,
    ) -> Result<()> {
        let slots = self.slots(w, bar, slot, peer)?;
        let mut released = 0u32;
        for lane in lanes_of(w.mask) {
            let (block, at) = slots[lane as usize];
            self.usable(w, lane, block, at, false)?;
            self.in_its_phase(w, lane, block, at)?;
            if self.ctx.world.races && released >> lane & 1 == 0 {
                // Lanes that arrive in this phase; later lanes arrive in the next.
                let same = lanes_of(w.mask & !released).filter(|&other| slots[other as usize] == (block, at));
                let missing = self.blocks[block].mbarriers[at].missing as usize;
                let lanes = same.take(missing).fold(0, |all, lane| all | 1 << lane);
                released |= lanes;
                // One epoch for all: it ends after the last mbarrier.
                let epoch = w.seen.epoch;
                w.seen.release(w.first, lanes, &mut self.blocks[block].mbarriers[at].brought);
                w.seen.epoch = epoch;
            }
            let site = self.site(w);
            let mbarrier = &mut self.blocks[block].mbarriers[at];
            if block != w.block {
                mbarrier.from_peers.insert(w.first + lane, (w.seen.epoch, site));
            }
            if mbarrier.missing == 0 {
                let message = format!(
                    "`{}` takes {} in a phase, and another comes before the phase's {}",
                    self.mbarrier_name(at),
                    count(self.blocks[block].mbarriers[at].count.into(), "arrival"),
                    count(self.blocks[block].mbarriers[at].bytes, "byte")
                );
                let party = self.party(w, 1 << lane, "arrives", self.site(w));
                return Err(self.ctx.fault(
                    FaultKind::Mbarrier,
                    message,
                    vec![party],
                    "let exactly as many threads arrive as the arrival count",
                ));
            }
            mbarrier.missing -= 1;
            mbarrier.bytes += i64::from(bytes.unwrap_or(0));
            mbarrier.expected += i64::from(bytes.unwrap_or(0));
            self.tell_arrival(w, at, bytes);
            self.maybe_complete(block, at);
        }
        w.seen.epoch += 1;
        Ok(())
    }

    /// Checks that the previous phase's completion is ordered before this arrival: otherwise the arrival
    /// might count for that phase.
    fn in_its_phase(&self, w: &Warp, lane: u32, block: usize, at: usize) -> Result<()> {
        let completed = self.blocks[block].mbarriers[at].completed as u32;
        let component = self.component(Component::Mbarrier(block as u32, at as u32));
        if !self.ctx.world.races || completed == 0 || w.seen.has(lane, component, completed) {
            return Ok(());
        }
        let name = self.mbarrier_name(at);
        let phase = completed - 1;
        let party = self.party(w, 1 << lane, "arrives at it, unordered with that completion", self.site(w));
        Err(self.ctx.fault(
            FaultKind::Mbarrier,
            format!(
                "phase {phase} of `{name}` is complete, and nothing orders this arrival after it: it might count for phase {phase}"
            ),
            vec![party],
            "arrive once in each phase, after waiting for the phase before, or after synchronising with a thread that has waited for it",
        ))
    }

    /// Completes an mbarrier's phase if no arrivals or bytes are pending.
    pub(crate) fn maybe_complete(&mut self, block: usize, at: usize) {
        let component = self.component(Component::Mbarrier(block as u32, at as u32));
        let mbarrier = &mut self.blocks[block].mbarriers[at];
        if mbarrier.missing == 0 && mbarrier.bytes == 0 {
            if std::mem::take(&mut mbarrier.expected) == 0 {
                mbarrier.without_bytes = Some(mbarrier.completed);
            }
            mbarrier.completed += 1;
            mbarrier.missing = mbarrier.count;
            mbarrier.carried.join(&mbarrier.brought);
            mbarrier.carried.plain.raise(component, mbarrier.completed as u32);
            self.tell_completed(block, at);
        }
    }

    /// Waits for a phase. True when it is complete.
    pub(crate) fn wait_phase(&mut self, w: &mut Warp, bar: Id, slot: Src, phase: Src) -> Result<bool> {
        let slots = self.slots(w, bar, slot, None)?;
        let phases = w.ints(phase);
        let mut open = Vec::new();
        for lane in lanes_of(w.mask) {
            let ((block, at), want) = (slots[lane as usize], phases[lane as usize] + 1);
            self.usable(w, lane, block, at, false)?;
            let completed = self.blocks[block].mbarriers[at].completed;
            if want != completed && want != completed + 1 {
                return Err(self.wrong_phase(w, lane, at, want - 1, completed));
            }
            if completed < want && !open.contains(&(block, at, want)) {
                open.push((block, at, want));
            }
        }
        if !open.is_empty() {
            w.waiting = Some(Waiting::Mbarriers(open));
            return Ok(false);
        }
        if self.ctx.world.races {
            let mut known = Vec::new();
            for lane in lanes_of(w.mask) {
                let (block, at) = slots[lane as usize];
                self.waits.insert((w.first / LANES as u32, block, at), phases[lane as usize]);
                if !known.contains(&(block, at)) {
                    known.push((block, at));
                    let same = lanes_of(w.mask).filter(|&other| slots[other as usize] == (block, at));
                    let lanes = same.fold(0, |all, lane| all | 1 << lane);
                    w.seen.acquire(lanes, w.live, &self.blocks[block].mbarriers[at].carried);
                }
            }
            w.seen.epoch += 1;
        }
        Ok(true)
    }

    fn wrong_phase(&self, w: &Warp, lane: u32, at: usize, phase: i64, completed: i64) -> Box<Fault> {
        let name = self.mbarrier_name(at);
        let passes = (completed - phase) & 1 == 1;
        let seen = if passes { "lets the wait pass" } else { "makes the wait last until another" };
        let message = format!(
            "a wait for phase {phase} of `{name}`, which has completed {}: hardware tests the phase parity alone and {seen}",
            count(completed, "phase")
        );
        let party = self.party(w, 1 << lane, format!("waits for phase {phase}"), self.site(w));
        self.ctx.fault(
            FaultKind::Mbarrier,
            message,
            vec![party],
            "wait for every phase once, in order: no thread may be two phases ahead of another",
        )
    }

    // Commit groups.

    pub(crate) fn commit(&mut self, w: &mut Warp, queue: Queue) -> Result<()> {
        if queue == Queue::Products {
            self.together(w, "wgmma.commit_group")?;
            w.product_groups.push(w.products);
            return Ok(());
        }
        self.closes(w, queue);
        let groups = if queue == Queue::CpAsync { &mut w.copies } else { &mut w.stores };
        let lanes = w.mask;
        // An operation belongs to the groups of all its lanes; a later commit by other lanes counts it again,
        // which is safe.
        let mine: Vec<u64> =
            groups.open.iter().filter(|(of, _)| of & lanes != 0).map(|open| open.1).collect();
        groups.open.iter_mut().for_each(|(of, _)| *of &= !lanes);
        groups.open.retain(|(of, _)| *of != 0);
        groups.count += 1;
        groups.closed.push(Group { lanes, number: groups.count, agents: mine });
        Ok(())
    }

    /// Waits for commit groups. True if the warp continues.
    pub(crate) fn wait_queue(&mut self, w: &mut Warp, queue: Queue, pending: u32) -> Result<bool> {
        if queue == Queue::Products {
            self.together(w, "wgmma.wait_group")?;
            return Ok(self.wait_products(w, pending));
        }
        let groups = if queue == Queue::CpAsync { &w.copies } else { &w.stores };
        let due = due(groups, w.mask, pending);
        let agents: Vec<u64> =
            due.iter().flat_map(|(group, _)| groups.closed[*group].agents.iter().copied()).collect();
        for agent in agents {
            self.land_as(agent, queue == Queue::BulkRead)?;
        }
        for &(group, lanes) in &due {
            let number = if queue == Queue::CpAsync { &w.copies } else { &w.stores }.closed[group].number;
            for lane in lanes_of(lanes) {
                let thread = w.first + lane;
                let components: &[Component] = match queue {
                    Queue::CpAsync => {
                        w.seen.copies.1[lane as usize] = number;
                        &[]
                    }
                    Queue::BulkRead => &[Component::BulkReads(thread)],
                    _ => &[Component::BulkReads(thread), Component::BulkWrites(thread)],
                };
                for &component in components {
                    let component = self.component(component);
                    w.seen.acquire_one(1 << lane, w.live, component, number);
                }
            }
        }
        if queue != Queue::BulkRead {
            let groups = if queue == Queue::CpAsync { &mut w.copies } else { &mut w.stores };
            for &(group, lanes) in &due {
                groups.closed[group].lanes &= !lanes;
            }
            groups.closed.retain(|group| group.lanes != 0);
        }
        Ok(true)
    }

    fn wait_products(&mut self, w: &mut Warp, pending: u32) -> bool {
        let closed = w.product_groups.len().saturating_sub(pending as usize);
        let Some(&number) = w.product_groups[..closed].last() else { return true };
        let group = w.number as usize / 4;
        if self.blocks[w.block].groups[group].completed < number {
            w.waiting = Some(Waiting::Products(number));
            return false;
        }
        if self.ctx.world.races {
            // The other warps' parts may still be in flight: each warp waits for its own.
            let component = self.component(Component::Products(w.block as u32, w.number));
            w.seen.acquire_one(w.live, w.live, component, number as u32);
        }
        w.locks.retain(|lock| lock.product > number);
        w.product_groups.drain(..closed);
        true
    }
}

/// A barrier of threads, by the hardware's number; the cluster's has none.
pub(crate) fn barrier_in_words(id: Option<u32>) -> String {
    match id {
        None => "the cluster's barrier".into(),
        Some(0) => "the block's barrier".into(),
        Some(id) => format!("barrier {id}"),
    }
}

/// The groups that lanes wait for when `pending` groups may stay in flight, and which lanes wait for each.
fn due(groups: &Groups, lanes: u32, pending: u32) -> Vec<(usize, u32)> {
    let mut newer = [0u32; LANES];
    let mut all = Vec::new();
    for (at, group) in groups.closed.iter().enumerate().rev() {
        let mut waits = 0;
        for lane in lanes_of(group.lanes & lanes) {
            if newer[lane as usize] >= pending {
                waits |= 1 << lane;
            }
            newer[lane as usize] += 1;
        }
        if waits != 0 {
            all.push((at, waits));
        }
    }
    all.reverse();
    all
}
