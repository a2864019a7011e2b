//! Help for two unordered accesses: the synchronisation that is missing between them.

use tilewright_program::thread::{Queue, Space};

use crate::clock::{Component, Seen};
use crate::fault::{Fault, FaultKind, Party};
use crate::machine::Cluster;
use crate::shadow::{By, Conflict, Stamp};
use crate::update::{Lack, Weak};
use crate::warp::{LANES, Warp};

/// The epochs in which a warp committed its groups of asynchronous operations: a thread that has acquired
/// such an epoch has synchronised with the warp since.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closed {
    copies: Vec<u32>,
    /// Epochs of all warps at that time.
    stores: Vec<Vec<u32>>,
}

impl Closed {
    /// The epoch in which a group was committed, if it has been; groups count from 1.
    fn copies(&self, number: u32) -> Option<u32> {
        self.copies.get((number as usize).checked_sub(1)?).copied()
    }

    /// The same, for all warps.
    fn stores(&self, number: u32) -> Option<&[u32]> {
        self.stores.get((number as usize).checked_sub(1)?).map(|all| &**all)
    }
}

/// Two accesses with their parties, the later one first.
pub(crate) struct Clash<'a> {
    pub(crate) conflict: Conflict,
    pub(crate) me: Stamp,
    pub(crate) by: &'a By<'a>,
    pub(crate) parties: [Party; 2],
    pub(crate) what: String,
    pub(crate) space: Space,
    /// Overlapping arrays: which, and where they are.
    pub(crate) overlap: Option<String>,
}

const STORE_ITSELF: &str =
    "wait until the copy engine has read the source (cp.async.bulk.wait_group.read) before writing it again";
const STORE_MEETS_TOO_EARLY: &str = "move the barrier after the wait: the storing thread waits until the copy engine has read the source (cp.async.bulk.wait_group.read), and then all threads synchronise, sync_threads()";
const STORE_DOES_NOT_MEET: &str = "put a barrier, sync_threads(), after the wait for the store";
const STORE_DOES_NOT_WAIT: &str = "let the storing thread wait until the copy engine has read the source (cp.async.bulk.wait_group.read), and put a barrier, sync_threads(), after that wait";
const RESULT: &str = "let the storing thread wait until the result is in memory (cp.async.bulk.wait_group), and put a barrier, sync_threads(), after that wait";
const COPY: &str = "wait for the copy, then synchronise the threads, before the tile is used: cp_async_wait_all(), sync_threads()";
const COPY_MEETS_TOO_EARLY: &str = "swap the barrier and the wait: each thread waits for its own copies first, cp_async_wait_all(), and then all threads synchronise, sync_threads()";
const COPY_DOES_NOT_MEET: &str = "put a barrier after the wait: sync_threads() after cp_async_wait_all()";
const PRODUCT_READS: &str = "a matrix product reads for all four warps, and the writes must be ordered before each of them: put a barrier, sync_threads(), between the writes and the product";
const PRODUCT_WAIT: &str = "each warp waits for its own part of the product (wgmma.wait_group): the matrices may be overwritten after all four have waited and synchronised, by a barrier or by an arrival of each at an mbarrier";
pub(crate) const SCOPE: &str = "give atomic updates of an element by several blocks the scope of the grid: those of one block or cluster are atomic among its own threads alone";
/// Help for a copy that no arrival expects.
pub(crate) fn expected_bytes(mbarrier: &str) -> String {
    format!(
        "let an arrival of the phase expect the bytes of all its copies (mbarrier.arrive.expect_tx on `{mbarrier}`)"
    )
}

const TWICE: &str = "one statement writes this element twice: combine what it writes, how = \"atomic_add\" or its like, or let one thread write it";
const BARRIER: &str = "put a barrier, sync_threads(), between the two";

/// Help for accesses to shared memory: threads of two blocks meet at a barrier of their cluster.
fn of_blocks(help: String, parties: &[Party]) -> String {
    match parties {
        [one, others @ ..] if others.iter().any(|other| other.block != one.block) => {
            help.replace("sync_threads()", "sync_cluster()")
        }
        _ => help,
    }
}

impl Cluster<'_> {
    pub(crate) fn conflict(&self, clash: Clash<'_>) -> Box<Fault> {
        let Conflict { earlier, earlier_writes, unfenced, narrow } = clash.conflict;
        let what = match &clash.overlap {
            Some(overlap) => format!("{}, which {overlap}", clash.what),
            None => clash.what.clone(),
        };
        if narrow.is_some() {
            let message = format!(
                "two blocks update {what} atomically, and an update has a scope without the other block"
            );
            return self.ctx.fault(FaultKind::Race, message, clash.parties.into(), SCOPE);
        }
        if unfenced {
            return self.ctx.fault(
                FaultKind::MissingFence,
                format!(
                    "an asynchronous access to {what} follows a generic-proxy one without a proxy fence in between"
                ),
                clash.parties.into(),
                "let each thread that accessed it execute a fence (fence.proxy.async) before the barrier",
            );
        }
        if let Some(fault) = self.weakly_ordered(&clash, &what) {
            return fault;
        }
        let named = |component| self.ctx.world.components.named(component);
        let (before, after) = (named(earlier.component), named(clash.me.component));
        let shared = matches!(clash.space, Space::Shared(_));
        if !matches!(before, Component::Thread(_))
            && (shared || clash.parties[0].block == clash.parties[1].block)
        {
            return self.touched_in_flight(before, clash, &what);
        }
        if let (Component::Thread(writer), Component::BulkReads(storing)) = (before, after)
            && earlier_writes
            && let Some(help) = self.written_since(writer, earlier.epoch, storing, clash.me.epoch)
        {
            let [mut store, mut write] = clash.parties;
            write.doing = format!("writes {}", clash.what);
            store.doing = "reads it by a bulk store, and has not waited for it".into();
            let message = format!("{what} is written while a bulk store may still read it");
            return self.ctx.fault(FaultKind::InFlight, message, vec![write, store], help);
        }
        if let (Component::Thread(writer), By::Warpgroup(warps)) = (before, clash.by)
            && let Some(part) = (writer / LANES as u32).checked_sub(clash.me.thread / LANES as u32)
            && let Some(own) = warps.get(part as usize)
            && !own.seen.has(own.lane, writer, earlier.epoch)
        {
            // Its own warp had issued the product before.
            let [product, mut write] = clash.parties;
            write.doing = format!("writes {}, and its warp has not waited for the product", clash.what);
            let message = format!("{what} is written while a matrix product may still read it");
            return self.ctx.fault(FaultKind::InFlight, message, vec![write, product], PRODUCT_WAIT);
        }
        let one_block = clash.parties[0].block == clash.parties[1].block;
        let help = match (after, shared, one_block) {
            (Component::Products(..), ..) => PRODUCT_READS.to_string(),
            (Component::Mbarrier(..), true, _) => {
                "let the thread that issues the copy wait for the others first: at a barrier, or for an mbarrier at which they arrive".into()
            }
            (_, true, _) if clash.overlap.is_some() => format!("{BARRIER}, or give the arrays bytes of their own"),
            (_, true, _) => BARRIER.into(),
            _ if earlier.access == clash.me.access && earlier_writes => TWICE.into(),
            (_, _, true) => "put a barrier between the two, or assign every element to one thread".into(),
            (_, _, false) if earlier_writes && self.has_waited_for_block(&clash) => {
                "the other block has signalled before it writes: write signal(flags[(i)]) after the write that it announces".into()
            }
            (_, _, false) => "blocks do not wait for each other: assign every element to one of them, or let one signal(flags[(i)]) after it writes, and the other wait(flags[(i)], 1) before its access".into(),
        };
        let help = if shared { of_blocks(help, &clash.parties) } else { help };
        self.ctx.fault(
            FaultKind::Race,
            format!("nothing orders two accesses to {what}"),
            clash.parties.into(),
            help,
        )
    }

    /// Has the later thread waited for any thread of the earlier one's block?
    fn has_waited_for_block(&self, clash: &Clash<'_>) -> bool {
        let threads = self.ctx.warps() * LANES as u32;
        let first = clash.conflict.earlier.thread / threads * threads;
        (first..first + threads).any(|thread| clash.by.would_know(thread, 1))
    }

    /// Two accesses by different blocks that atomic updates would order, if these released, acquired, or had a wider scope.
    fn weakly_ordered(&self, clash: &Clash<'_>, what: &str) -> Option<Box<Fault>> {
        let Conflict { earlier, .. } = clash.conflict;
        let apart = clash.parties[0].block != clash.parties[1].block;
        if !apart || !clash.by.would_know(earlier.component, earlier.epoch) {
            return None;
        }
        let threads = self.ctx.warps() * LANES as u32;
        let block = |stamp: Stamp| stamp.thread / threads;
        let of = |lack, block_of| move |weak: &&Weak| weak.lack == lack && block(weak.stamp) == block_of;
        let last = |lack, stamp| self.weak.iter().rev().find(of(lack, block(stamp)));
        let weak = last(Lack::Release, earlier)
            .or_else(|| last(Lack::Acquire, clash.me))
            .or_else(|| last(Lack::Scope, earlier))
            .or_else(|| last(Lack::Scope, clash.me))?;
        let flag = self.ctx.element(self.space(weak.stamp.access), weak.at);
        let (lacks, help) = match weak.lack {
            Lack::Release => (
                "releases nothing",
                "let it release, order = \"release\" or \"acq_rel\", so that blocks that read it see what was written before",
            ),
            Lack::Acquire => (
                "acquires nothing",
                "let it acquire, order = \"acquire\" or \"acq_rel\", so that later accesses see what other blocks had written before they updated it",
            ),
            Lack::Scope => ("has the scope of one block", "give it the scope of the grid"),
        };
        let mut update = self.ctx.party_of(self.number(), weak.stamp, true, &flag);
        update.doing = format!("updates {flag} in between");
        let [mine, other] = clash.parties.clone();
        Some(self.ctx.fault(
            FaultKind::Race,
            format!(
                "nothing orders two accesses to {what}: the atomic update of {flag} between them {lacks}"
            ),
            vec![mine, other, update],
            help,
        ))
    }

    /// An access that conflicts with an earlier asynchronous operation that may still be in flight.
    fn touched_in_flight(&self, operation: Component, clash: Clash<'_>, what: &str) -> Box<Fault> {
        let Conflict { earlier, .. } = clash.conflict;
        let [mine, mut other] = clash.parties;
        let waited = self.has_waited(operation, earlier, clash.by);
        let has = if other.threads.len() == 1 { "has" } else { "have" };
        let help = match operation {
            Component::Copies(_) => {
                self.about_copies(earlier.component, earlier.epoch, clash.by, waited).into()
            }
            Component::BulkReads(thread) => {
                self.about_stores(thread, earlier.epoch, clash.me, clash.by, waited).into()
            }
            Component::Mbarrier(block, at) => {
                self.about_mbarrier(block, at, earlier.epoch, clash.me, clash.by)
            }
            Component::Products(..) => PRODUCT_WAIT.into(),
            _ => RESULT.to_string(),
        };
        other.doing += &match (operation, waited) {
            (Component::Mbarrier(..), _) => ", and the accessing thread has not waited for that".to_string(),
            (_, true) => {
                format!(", and {has} waited for it, without synchronising with the accessing thread")
            }
            (_, false) => format!(", and {has} not waited for it"),
        };
        let message = match operation {
            Component::BulkReads(_) => format!("{what} is written while a bulk store may still read it"),
            _ => format!("{what} is accessed while an asynchronous operation on it may still be in flight"),
        };
        let parties = vec![mine, other];
        let help = of_blocks(help, &parties);
        self.ctx.fault(FaultKind::InFlight, message, parties, help)
    }

    /// An access to the target of a copy in flight.
    pub(crate) fn in_flight(
        &self,
        me: Party,
        copy: Option<(Component, u32)>,
        other: Option<Party>,
        what: &str,
        stamp: Stamp,
        by: &By<'_>,
    ) -> Box<Fault> {
        let help = match copy {
            Some((Component::Mbarrier(block, at), phases)) => {
                self.about_mbarrier(block, at, phases, stamp, by)
            }
            Some((of @ Component::Copies(_), number)) => {
                self.about_copies(self.component(of), number, by, false).into()
            }
            _ => COPY.to_string(),
        };
        let parties: Vec<Party> = std::iter::once(me).chain(other).collect();
        let help = of_blocks(help, &parties);
        self.ctx.fault(FaultKind::InFlight, format!("a copy into {what} is in flight"), parties, help)
    }

    /// Help for an access to the target of a copy that completes this phase of an mbarrier, counted from 1.
    fn about_mbarrier(&self, block: u32, at: u32, phases: u32, me: Stamp, by: &By<'_>) -> String {
        let name = self.mbarrier_name(at as usize);
        let (phase, warp) = (i64::from(phases) - 1, me.thread / LANES as u32);
        let waited = self.waits.get(&(warp, block as usize, at as usize));
        if let Some(waited) = waited.filter(|waited| **waited < phase) {
            let mbarrier = &self.blocks[block as usize].mbarriers[at as usize];
            if mbarrier.without_bytes == Some(*waited) {
                return format!(
                    "{}: phase {waited} was complete without any, before this copy",
                    expected_bytes(&name)
                );
            }
            return format!(
                "wait for phase {phase} of `{name}`, which this copy completes: the last wait was for phase {waited}, which passes before"
            );
        }
        match by {
            By::Warpgroup(_) => format!(
                "let every warp of the warpgroup wait for `{name}`, or synchronise them after one of them has waited"
            ),
            _ => format!("wait for `{name}` before the memory is used"),
        }
    }

    /// Help for a thread's cp.async of a commit group of this number.
    fn about_copies(&self, component: u32, number: u32, by: &By<'_>, waited: bool) -> &'static str {
        let Component::Copies(thread) = self.ctx.world.components.named(component) else { return COPY };
        let closed = self.closed[thread as usize / LANES].copies(number);
        let met = closed.is_some_and(|epoch| by.knows(thread, epoch));
        // Threads run the same code: one that has waited for its own copies shows where the wait is.
        let waited =
            waited || matches!(by, By::Lane { seen, lane } if seen.copies.1[*lane as usize] >= number);
        match (waited, met) {
            (true, true) => COPY_MEETS_TOO_EARLY,
            (true, false) => COPY_DOES_NOT_MEET,
            (false, _) => COPY,
        }
    }

    /// Help for a thread's bulk store of a commit group of this number, before a write.
    fn about_stores(&self, thread: u32, number: u32, me: Stamp, by: &By<'_>, waited: bool) -> &'static str {
        let warp = thread as usize / LANES;
        let closed = self.closed[warp].stores(number);
        let met = closed.is_some_and(|epochs| by.knows(thread, epochs[warp]));
        match (me.component == thread, met, waited) {
            (true, ..) => STORE_ITSELF,
            (_, true, _) => STORE_MEETS_TOO_EARLY,
            (_, _, true) => STORE_DOES_NOT_MEET,
            (_, _, false) => STORE_DOES_NOT_WAIT,
        }
    }

    /// Help for a bulk store that completes after a write of its array, if the write came after the store was
    /// issued.
    fn written_since(&self, writer: u32, epoch: u32, storing: u32, number: u32) -> Option<&'static str> {
        if writer == storing {
            return Some(STORE_ITSELF);
        }
        let [by, of] = [writer, storing].map(|thread| thread as usize / LANES);
        let begun = self.closed[of].stores(number)?;
        if by == of {
            // Lanes of one warp count epochs together.
            let met = self.warps[by]
                .as_ref()
                .is_some_and(|warp| warp.seen.has(writer % LANES as u32, storing, begun[of]));
            let help = if met { STORE_MEETS_TOO_EARLY } else { STORE_DOES_NOT_WAIT };
            return (epoch >= begun[by]).then_some(help);
        }
        let met = |warp: &Warp| warp.seen.has(writer % LANES as u32, storing, begun[of]);
        let since = epoch > begun[by] && self.warps[by].as_deref().is_some_and(met);
        since.then_some(STORE_MEETS_TOO_EARLY)
    }

    /// A group of operations is committed.
    pub(crate) fn closes(&mut self, w: &Warp, queue: Queue) {
        let warp = w.first as usize / LANES;
        match queue {
            Queue::CpAsync => self.closed[warp].copies.push(w.seen.epoch),
            Queue::Bulk | Queue::BulkRead => {
                let epoch = |warp: &Option<Box<Warp>>| warp.as_ref().map_or(w.seen.epoch, |w| w.seen.epoch);
                let epochs = self.warps.iter().map(epoch).collect();
                self.closed[warp].stores.push(epochs);
            }
            Queue::Products => {}
        }
    }

    /// Has the issuer of an operation waited for it?
    fn has_waited(&self, operation: Component, stamp: Stamp, by: &By<'_>) -> bool {
        let (thread, lane) = match operation {
            Component::Copies(thread) | Component::BulkReads(thread) | Component::BulkWrites(thread) => {
                (thread, thread % LANES as u32)
            }
            Component::Products(block, warp) => ((block * self.ctx.warps() + warp) * LANES as u32, 0),
            Component::Thread(_) | Component::Mbarrier(..) => return false,
        };
        let seen: Option<&Seen> = match (&self.warps[thread as usize / LANES], by) {
            (Some(warp), _) => Some(&warp.seen),
            // The current warp: it makes the access.
            (None, By::Lane { seen, .. }) => Some(seen),
            (None, _) => None,
        };
        seen.is_some_and(|seen| seen.has(lane, stamp.component, stamp.epoch))
    }
}
