//! The happens-before relation: vector clocks over threads and asynchronous operations.
//!
//! A component is a thread, a thread's copies in flight, its bulk stores (reading and writing), an mbarrier,
//! or a warp's part of its warpgroup's matrix products. An access carries a stamp: a component and its epoch.
//! A thread whose clock has reached that epoch of that component is ordered after the access. Components of
//! threads come first, for the generic proxy and then for the async proxy.

use std::rc::Rc;

use tilewright_program::thread::Scope;

/// Epochs by component.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Clock(Vec<u32>);

impl Clock {
    pub(crate) fn get(&self, component: u32) -> u32 {
        self.0.get(component as usize).copied().unwrap_or(0)
    }

    pub(crate) fn raise(&mut self, component: u32, epoch: u32) {
        let at = component as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        self.0[at] = self.0[at].max(epoch);
    }

    pub(crate) fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }
}

/// Clocks that a synchronisation passes on: all accesses before it; the accesses before a proxy fence;
/// and accesses that are complete although their writes may not be visible.
#[derive(Clone, Debug, Default)]
pub(crate) struct Carried {
    pub(crate) plain: Clock,
    pub(crate) fenced: Clock,
    pub(crate) complete: Clock,
    /// The accesses that would also have happened before, if every atomic update released and acquired: for the help of faults.
    pub(crate) assumed: Clock,
}

impl Carried {
    pub(crate) fn join(&mut self, other: &Carried) {
        self.plain.join(&other.plain);
        self.fenced.join(&other.fenced);
        self.complete.join(&other.complete);
        self.assumed.join(&other.assumed);
    }
}

/// Numbering of the components of a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Components {
    /// Threads of the cluster, rounded up to whole warps.
    pub(crate) threads: u32,
    /// Mbarriers of a block.
    pub(crate) mbarriers: u32,
    pub(crate) blocks: u32,
    /// Warpgroups of a block.
    pub(crate) groups: u32,
    /// Blocks of a cluster of the hardware.
    pub(crate) cluster: u32,
}

/// A component by its kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Component {
    Thread(u32),
    /// A thread's cp.async.
    Copies(u32),
    /// The reads of shared memory by a thread's bulk stores.
    BulkReads(u32),
    /// Their writes to global memory.
    BulkWrites(u32),
    /// Operations that complete on an mbarrier: block, number.
    Mbarrier(u32, u32),
    /// A warp's part of its warpgroup's products: block, warp.
    Products(u32, u32),
}

impl Components {
    pub(crate) fn number(&self, of: Component) -> u32 {
        let n = self.threads;
        match of {
            Component::Thread(thread) => thread,
            Component::Copies(thread) => n + thread,
            Component::BulkReads(thread) => 2 * n + thread,
            Component::BulkWrites(thread) => 3 * n + thread,
            Component::Products(block, warp) => 4 * n + block * self.warps() + warp,
            Component::Mbarrier(block, at) => self.first_mbarrier() + block * self.mbarriers + at,
        }
    }

    pub(crate) fn named(&self, number: u32) -> Component {
        let n = self.threads;
        let past = number.saturating_sub(4 * n);
        let products = self.blocks * self.warps();
        match number / n.max(1) {
            0 => Component::Thread(number),
            1 => Component::Copies(number - n),
            2 => Component::BulkReads(number - 2 * n),
            3 => Component::BulkWrites(number - 3 * n),
            _ if past < products => Component::Products(past / self.warps(), past % self.warps()),
            _ => {
                let bars = self.mbarriers.max(1);
                Component::Mbarrier((past - products) / bars, (past - products) % bars)
            }
        }
    }

    /// Warps of a block, rounded up to whole warpgroups: the four components of a warpgroup are consecutive,
    /// the first at a multiple of four.
    fn warps(&self) -> u32 {
        4 * self.groups
    }

    /// The component of the first mbarrier; all later components are mbarriers.
    pub(crate) fn first_mbarrier(&self) -> u32 {
        4 * self.threads + self.blocks * self.warps()
    }

    /// The block of a component.
    fn block(&self, number: u32) -> u32 {
        match self.named(number) {
            Component::Thread(thread)
            | Component::Copies(thread)
            | Component::BulkReads(thread)
            | Component::BulkWrites(thread) => thread / (self.threads / self.blocks.max(1)).max(1),
            Component::Mbarrier(block, _) | Component::Products(block, _) => block,
        }
    }

    /// Whether both are in one group of threads of this scope. Scopes narrower than a block count as a block.
    pub(crate) fn share(&self, scope: Scope, one: u32, other: u32) -> bool {
        let [one, other] = [one, other].map(|number| self.block(number));
        match scope {
            Scope::Grid => true,
            Scope::Cluster => one / self.cluster.max(1) == other / self.cluster.max(1),
            Scope::Thread | Scope::Warp | Scope::Warpgroup | Scope::Block => one == other,
        }
    }

    /// Does it access memory through the generic proxy?
    pub(crate) fn is_generic(&self, number: u32) -> bool {
        number < 2 * self.threads
    }
}

/// The clocks of a warp: common to all its lanes, with additions for some lanes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) plain: Rc<Clock>,
    pub(crate) fenced: Rc<Clock>,
    /// Accesses that are complete, besides the accesses that the common clock knows: a read among them cannot see later writes. A
    /// message between blocks (st.async) orders only this.
    pub(crate) complete: Rc<Clock>,
    /// See [`Carried::assumed`].
    pub(crate) assumed: Rc<Clock>,
    /// Lanes whose clocks are ahead of the common one.
    pub(crate) more: Vec<(u32, Carried)>,
    /// Epoch of the accesses from now on.
    pub(crate) epoch: u32,
    /// Component of lane 0's copies in flight, and the last of its own copies that each lane has waited for.
    pub(crate) copies: (u32, [u32; 32]),
}

impl Seen {
    /// Releases the clocks of these lanes, and their own accesses so far, into a synchronisation. Later
    /// accesses get a new epoch.
    pub(crate) fn release(&mut self, first: u32, lanes: u32, into: &mut Carried) {
        into.plain.join(&self.plain);
        into.fenced.join(&self.fenced);
        into.complete.join(&self.complete);
        into.assumed.join(&self.assumed);
        for (of, more) in &self.more {
            if of & lanes != 0 {
                into.join(more);
            }
        }
        for lane in lanes_of(lanes) {
            into.plain.raise(first + lane, self.epoch);
            let copies = self.copies.1[lane as usize];
            if copies > 0 {
                into.plain.raise(self.copies.0 + lane, copies);
            }
        }
        self.epoch += 1;
    }

    /// Adds the accesses of a lane's message: its own accesses and the accesses that it knows of are complete.
    pub(crate) fn send(&self, first: u32, lane: u32, into: &mut Carried) {
        let mut all = Carried::default();
        self.clone().release(first, 1 << lane, &mut all);
        into.complete.join(&all.plain);
        into.complete.join(&all.complete);
    }

    /// Acquires the clocks that a synchronisation carries.
    pub(crate) fn acquire(&mut self, lanes: u32, live: u32, from: &Carried) {
        if lanes == live {
            Rc::make_mut(&mut self.plain).join(&from.plain);
            Rc::make_mut(&mut self.fenced).join(&from.fenced);
            if !from.complete.0.is_empty() {
                Rc::make_mut(&mut self.complete).join(&from.complete);
            }
            if !from.assumed.0.is_empty() {
                Rc::make_mut(&mut self.assumed).join(&from.assumed);
            }
            return;
        }
        match self.more.iter_mut().find(|(of, _)| *of == lanes) {
            Some((_, more)) => more.join(from),
            None => self.more.push((lanes, from.clone())),
        }
    }

    /// These lanes acquire a component's epoch.
    pub(crate) fn acquire_one(&mut self, lanes: u32, live: u32, component: u32, epoch: u32) {
        if lanes == live {
            if self.plain.get(component) < epoch {
                Rc::make_mut(&mut self.plain).raise(component, epoch);
            }
            return;
        }
        let mut carried = Carried::default();
        carried.plain.raise(component, epoch);
        self.acquire(lanes, live, &carried);
    }

    /// All lanes acquire each other's clocks and accesses.
    pub(crate) fn converge(&mut self, first: u32, lanes: u32) {
        let mut all = Carried::default();
        self.release(first, lanes, &mut all);
        self.set(&Shared::from(all));
    }

    pub(crate) fn set(&mut self, all: &Shared) {
        self.plain = all.plain.clone();
        self.fenced = all.fenced.clone();
        self.complete = all.complete.clone();
        self.assumed = all.assumed.clone();
        self.more.clear();
    }

    /// `fence.proxy.async` by these lanes: their clocks and accesses so far are fenced.
    pub(crate) fn fence(&mut self, first: u32, lanes: u32, live: u32) {
        let mut known = Carried::default();
        self.release(first, lanes, &mut known);
        if lanes == live {
            // A lane's own accesses are unordered with the other lanes, but a fence by each covers its own.
            Rc::make_mut(&mut self.fenced).join(&known.plain);
        } else {
            let carried = Carried { fenced: known.plain, ..Carried::default() };
            self.acquire(lanes, live, &carried);
        }
    }

    pub(crate) fn has(&self, lane: u32, component: u32, epoch: u32) -> bool {
        self.plain.get(component) >= epoch
            || component == self.copies.0 + lane && self.copies.1[lane as usize] >= epoch
            || self.more.iter().any(|(of, more)| of >> lane & 1 == 1 && more.plain.get(component) >= epoch)
    }

    /// Is an access of this epoch complete?
    pub(crate) fn is_complete(&self, lane: u32, component: u32, epoch: u32) -> bool {
        self.has(lane, component, epoch)
            || self.complete.get(component) >= epoch
            || self.more.iter().any(|(of, more)| of >> lane & 1 == 1 && more.complete.get(component) >= epoch)
    }

    /// A lane's accesses so far and all that it knows of, as if it released them.
    pub(crate) fn assumes(&self, first: u32, lane: u32, into: &mut Carried) {
        let mut all = Carried::default();
        self.clone().release(first, 1 << lane, &mut all);
        into.assumed.join(&all.plain);
        into.assumed.join(&all.assumed);
    }

    /// A lane acquires the accesses that a synchronisation orders only by assumption.
    pub(crate) fn assume(&mut self, lane: u32, live: u32, from: &Carried) {
        let mut assumed = from.assumed.clone();
        assumed.join(&from.plain);
        self.acquire(1 << lane, live, &Carried { assumed, ..Carried::default() });
    }

    /// Would it be ordered after this epoch, if every atomic update released and acquired?
    pub(crate) fn would_have(&self, lane: u32, component: u32, epoch: u32) -> bool {
        self.assumed.get(component) >= epoch
            || self.more.iter().any(|(of, more)| of >> lane & 1 == 1 && more.assumed.get(component) >= epoch)
    }

    /// Phases whose completion a lane has acquired: epochs of mbarriers, whose components come last.
    pub(crate) fn phases(&self, lane: u32, first: u32, into: &mut Clock) {
        let more = self.more.iter().filter(|(of, _)| of >> lane & 1 == 1).map(|(_, more)| &more.plain);
        for clock in std::iter::once(&*self.plain).chain(more) {
            for (component, &epoch) in clock.0.iter().enumerate().skip(first as usize) {
                into.raise(component as u32, epoch);
            }
        }
    }

    pub(crate) fn has_fenced(&self, lane: u32, component: u32, epoch: u32) -> bool {
        self.fenced.get(component) >= epoch
            || self.more.iter().any(|(of, more)| of >> lane & 1 == 1 && more.fenced.get(component) >= epoch)
    }
}

/// Carried clocks that several warps set.
pub(crate) struct Shared {
    plain: Rc<Clock>,
    fenced: Rc<Clock>,
    complete: Rc<Clock>,
    assumed: Rc<Clock>,
}

impl From<Carried> for Shared {
    fn from(all: Carried) -> Shared {
        let Carried { plain, fenced, complete, assumed } = all;
        Shared {
            plain: Rc::new(plain),
            fenced: Rc::new(fenced),
            complete: Rc::new(complete),
            assumed: Rc::new(assumed),
        }
    }
}

/// The clock of an asynchronous operation, which is the clock of its issuer.
#[derive(Clone, Debug)]
pub(crate) struct Knowledge {
    pub(crate) seen: Seen,
    pub(crate) lane: u32,
    /// The issuer's own component, and its epoch then.
    pub(crate) own: Option<(u32, u32)>,
    /// Does it access memory through the async proxy?
    pub(crate) asynchronous: bool,
}

/// How one access is ordered after another. The worst comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    After,
    /// Ordered, but without a proxy fence.
    Unfenced,
    None,
}

impl Knowledge {
    pub(crate) fn order(&self, components: &Components, component: u32, epoch: u32) -> Order {
        let own = self.own.is_some_and(|(own, until)| own == component && epoch <= until);
        if !own && !self.seen.has(self.lane, component, epoch) {
            return Order::None;
        }
        if self.asynchronous
            && components.is_generic(component)
            && !self.seen.has_fenced(self.lane, component, epoch)
        {
            return Order::Unfenced;
        }
        Order::After
    }
}

/// The lanes of a mask.
pub(crate) fn lanes_of(mut mask: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let lane = mask.trailing_zeros();
            mask &= mask - 1;
            lane
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_have_numbers() {
        let all = Components { threads: 64, mbarriers: 3, blocks: 2, groups: 1, cluster: 2 };
        for of in [
            Component::Thread(63),
            Component::Copies(0),
            Component::BulkReads(5),
            Component::BulkWrites(63),
            Component::Mbarrier(1, 2),
            Component::Products(1, 0),
            Component::Products(0, 3),
        ] {
            assert_eq!(all.named(all.number(of)), of);
        }
        assert_eq!(all.number(Component::Products(1, 0)) % 4, 0);
        assert_eq!(all.named(all.first_mbarrier()), Component::Mbarrier(0, 0));
        assert!(all.is_generic(127) && !all.is_generic(128));
    }

    #[test]
    fn one_lane_releases_for_itself() {
        let (mut a, mut b) = (Seen { epoch: 1, ..Seen::default() }, Seen { epoch: 1, ..Seen::default() });
        let mut flag = Carried::default();
        a.release(0, 1, &mut flag);
        b.acquire(u32::MAX, u32::MAX, &flag);
        assert!(b.has(7, 0, 1), "what lane 0 did is seen");
        assert!(!b.has(7, 1, 1), "what lane 1 did is not");
        assert!(!b.has(7, 0, 2), "what lane 0 does later is not");
        a.converge(0, u32::MAX);
        a.release(0, 1, &mut flag);
        b.acquire(1, u32::MAX, &flag);
        assert!(b.has(0, 1, 2) && !b.has(1, 1, 2), "lane 0 alone acquired it");
    }
}
