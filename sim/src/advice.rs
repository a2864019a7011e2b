//! Two accesses that nothing orders, in words: what is missing between them, and not what is there already.

use tilewright_codegen::thread::{Queue, Space};

use crate::clock::{Component, Seen};
use crate::fault::{Fault, FaultKind, Party};
use crate::machine::Cluster;
use crate::shadow::{By, Conflict, Stamp};
use crate::warp::{LANES, Warp};

/// In which epochs a warp closed its groups of asynchronous operations: whoever has seen that epoch has met the warp since.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closed {
    copies: Vec<u32>,
    /// Epochs of all warps then.
    stores: Vec<Vec<u32>>,
}

impl Closed {
    /// The epoch in which a group was closed, if it has been; groups count from 1.
    fn copies(&self, number: u32) -> Option<u32> {
        self.copies.get((number as usize).checked_sub(1)?).copied()
    }

    /// The same, of all warps.
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
    /// Two arrays in the same bytes: which, and where they are.
    pub(crate) overlap: Option<String>,
}

const STORE_ITSELF: &str = "let the thread wait until the copy engine has read (cp.async.bulk.wait_group.read) before it writes there again";
const STORE_MEETS_TOO_EARLY: &str = "move the barrier behind the wait: the thread that stores waits until the copy engine has read (cp.async.bulk.wait_group.read), and then all wait for each other, sync_threads()";
const STORE_DOES_NOT_MEET: &str = "put a barrier, sync_threads(), behind the wait for the store";
const STORE_DOES_NOT_WAIT: &str = "let the thread that stores wait until the copy engine has read (cp.async.bulk.wait_group.read), and put a barrier, sync_threads(), behind that wait";
const RESULT: &str = "let the thread that stores wait until the result is in memory (cp.async.bulk.wait_group), and put a barrier, sync_threads(), behind that wait";
const COPY: &str = "wait for the copy, and then for each other, before the tile is used: cp_async_wait_all(), sync_threads()";
const COPY_MEETS_TOO_EARLY: &str = "swap the barrier and the wait: each thread waits for its own copies first, cp_async_wait_all(), and then all for each other, sync_threads()";
const COPY_DOES_NOT_MEET: &str = "put a barrier behind the wait: sync_threads() after cp_async_wait_all()";
const PRODUCT_READS: &str = "a matrix product reads for all four warps, and each of them must know that the matrices are written: put a barrier, sync_threads(), between the writes and the product";
const PRODUCT_WAIT: &str = "each warp waits for its own part of the product (wgmma.wait_group): the matrices are free when all four have waited and told of it, by a barrier or by an arrival of each at an mbarrier";
const BARRIER: &str = "put a barrier, sync_threads(), between the two";

impl Cluster<'_> {
    pub(crate) fn conflict(&self, clash: Clash<'_>) -> Box<Fault> {
        let Conflict { earlier, earlier_writes, unfenced } = clash.conflict;
        let what = match &clash.overlap {
            Some(overlap) => format!("{}, which {overlap}", clash.what),
            None => clash.what.clone(),
        };
        if unfenced {
            return self.ctx.fault(
                FaultKind::MissingFence,
                format!(
                    "an asynchronous access to {what} follows an ordinary one, and no fence tells it of that"
                ),
                clash.parties.into(),
                "let each thread that touched it execute a fence (fence.proxy.async) before the barrier",
            );
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
            // Its own warp had begun the product before.
            let [product, mut write] = clash.parties;
            write.doing = format!("writes {}, and its warp has not waited for the product", clash.what);
            let message = format!("{what} is written while a matrix product may still read it");
            return self.ctx.fault(FaultKind::InFlight, message, vec![write, product], PRODUCT_WAIT);
        }
        let one_block = clash.parties[0].block == clash.parties[1].block;
        let help = match (after, shared, one_block) {
            (Component::Products(..), ..) => PRODUCT_READS.to_string(),
            (Component::Mbarrier(..), true, _) => {
                "let the thread that begins the copy wait for the others first: at a barrier, or for an mbarrier at which they arrive".into()
            }
            (_, true, _) if clash.overlap.is_some() => format!("{BARRIER}, or give the arrays bytes of their own"),
            (_, true, _) => BARRIER.into(),
            (_, _, true) => "put a barrier between the two, or give every element to one thread".into(),
            (_, _, false) => "blocks do not wait for each other: give every element to one of them".into(),
        };
        self.ctx.fault(
            FaultKind::Race,
            format!("nothing orders two accesses to {what}"),
            clash.parties.into(),
            help,
        )
    }

    /// Something is touched while an asynchronous operation that began before may still be at it.
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
            Component::Mbarrier(_, at) => self.about_mbarrier(at, clash.by),
            Component::Products(..) => PRODUCT_WAIT.into(),
            _ => RESULT.to_string(),
        };
        other.doing += &match (operation, waited) {
            (Component::Mbarrier(..), _) => ", and nobody here has waited for that".to_string(),
            (_, true) => format!(", and {has} waited for it, of which nobody here knows"),
            (_, false) => format!(", and {has} not waited for it"),
        };
        let message = match operation {
            Component::BulkReads(_) => format!("{what} is written while a bulk store may still read it"),
            _ => format!("{what} is touched while an asynchronous operation may still be at it"),
        };
        self.ctx.fault(FaultKind::InFlight, message, vec![mine, other], help)
    }

    /// An access to what a copy in flight will write.
    pub(crate) fn in_flight(
        &self,
        me: Party,
        copy: Option<(Component, u32)>,
        other: Option<Party>,
        what: &str,
        by: &By<'_>,
    ) -> Box<Fault> {
        let help = match copy {
            Some((Component::Mbarrier(_, at), _)) => self.about_mbarrier(at, by),
            Some((of @ Component::Copies(_), number)) => {
                self.about_copies(self.component(of), number, by, false).into()
            }
            _ => COPY.to_string(),
        };
        let parties = std::iter::once(me).chain(other).collect();
        self.ctx.fault(FaultKind::InFlight, format!("a copy into {what} is in flight"), parties, help)
    }

    fn about_mbarrier(&self, at: u32, by: &By<'_>) -> String {
        let name = self.mbarrier_name(at as usize);
        match by {
            By::Warpgroup(_) => format!(
                "let every warp of the warpgroup wait for `{name}`, or let them meet after one of them has waited"
            ),
            _ => format!("wait for `{name}` before the memory is used"),
        }
    }

    /// A thread's cp.async of a group of this number.
    fn about_copies(&self, component: u32, number: u32, by: &By<'_>, waited: bool) -> &'static str {
        let Component::Copies(thread) = self.ctx.world.components.named(component) else { return COPY };
        let closed = self.closed[thread as usize / LANES].copies(number);
        let met = closed.is_some_and(|epoch| by.knows(thread, epoch));
        // Threads do alike: one that has waited for its own copies shows where the wait stands.
        let waited =
            waited || matches!(by, By::Lane { seen, lane } if seen.copies.1[*lane as usize] >= number);
        match (waited, met) {
            (true, true) => COPY_MEETS_TOO_EARLY,
            (true, false) => COPY_DOES_NOT_MEET,
            (false, _) => COPY,
        }
    }

    /// A thread's bulk store of a group of this number, before somebody's write.
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

    /// A bulk store lands after a write of its array: what to do, if the write came after the store had begun.
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

    /// A group of operations is closed.
    pub(crate) fn closes(&mut self, w: &Warp, queue: Queue) {
        let warp = w.first as usize / LANES;
        match queue {
            Queue::CpAsync => self.closed[warp].copies.push(w.seen.epoch),
            Queue::Bulk | Queue::BulkRead => {
                let epoch = |warp: &Option<Box<Warp>>| warp.as_ref().map_or(w.seen.epoch, |w| w.seen.epoch);
                let epochs = self.warps.iter().map(epoch).collect();
                self.closed[warp].stores.push(epochs);
            }
            Queue::Wgmma => {}
        }
    }

    /// Has whoever began an operation waited for it?
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
            // The warp that runs: it is the one that touches it.
            (None, By::Lane { seen, .. }) => Some(seen),
            (None, _) => None,
        };
        seen.is_some_and(|seen| seen.has(lane, stamp.component, stamp.epoch))
    }
}
