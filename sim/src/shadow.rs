//! Shadow memory for race detection: the last accesses to each cell. After FastTrack (Flanagan and Freund,
//! 2009): one write and, as long as reads are ordered, one read; a list only for unordered reads. Atomic
//! updates with sufficient scopes need no order among each other, so they replace neither the write nor the reads before them:
//! unordered updates are kept until a write comes after all of them.

use tilewright_program::thread::Scope;

use crate::clock::{Components, Knowledge, Order, Seen};

/// The component and epoch of an access, and its position in the program.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Stamp {
    pub(crate) component: u32,
    pub(crate) epoch: u32,
    /// The access of the program.
    pub(crate) access: u32,
    /// The thread of the cluster that performed or issued it.
    pub(crate) thread: u32,
}

/// Accesses by lanes of one warp in one epoch.
#[derive(Clone, Copy, Debug, Default)]
struct Lanes {
    first: u32,
    lanes: u32,
    epoch: u32,
    access: u32,
    thread: u32,
    /// The scope of atomic updates.
    scope: Option<Scope>,
}

impl Lanes {
    fn of(me: Stamp, by: &By<'_>, scope: Option<Scope>) -> Lanes {
        let lanes = by.lanes() << (me.component & 31);
        let Stamp { component, epoch, access, thread } = me;
        Lanes { first: component & !31, lanes, epoch, access, thread, scope }
    }

    fn same(&self, other: &Lanes) -> bool {
        self.first == other.first && self.epoch == other.epoch && self.scope == other.scope
    }

    fn stamps(self) -> impl Iterator<Item = Stamp> {
        let Lanes { first, lanes, epoch, access, thread, .. } = self;
        crate::clock::lanes_of(lanes).map(move |lane| Stamp {
            component: first + lane,
            epoch,
            access,
            thread,
        })
    }
}

/// The last accesses to a cell.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cell {
    write: Stamp,
    read: Lanes,
    /// Further reads: a row of the lists; 0 for none.
    more: u32,
    /// Atomic updates since the write that are unordered with each other: a row of the lists; 0 for none.
    updates: u32,
}

/// Cells with their lists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shadow {
    cells: Vec<Cell>,
    lists: Vec<Vec<Lanes>>,
}

/// Two accesses without an order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Conflict {
    pub(crate) earlier: Stamp,
    pub(crate) earlier_writes: bool,
    /// They are ordered, but without a proxy fence.
    pub(crate) unfenced: bool,
    /// Both are atomic updates, and one of them has a scope without the other's thread.
    pub(crate) narrow: Option<Scope>,
}

/// The kind of an access to a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    Read,
    Write,
    /// An atomic update of this scope.
    Atomic(Scope),
}

/// The agent of an access: a lane of a warp, or an operation in flight.
pub(crate) enum By<'a> {
    Lane {
        seen: &'a Seen,
        lane: u32,
    },
    Agent(&'a Knowledge),
    /// A product of a warpgroup: each of its warps, whose components are consecutive.
    Warpgroup(&'a [Knowledge; 4]),
}

impl By<'_> {
    /// A bit mask of the components that perform it, counted from the component of the stamp.
    fn lanes(&self) -> u32 {
        match self {
            By::Lane { .. } | By::Agent(_) => 1,
            By::Warpgroup(_) => 0xf,
        }
    }

    /// Have all of them acquired this epoch of a component?
    pub(crate) fn knows(&self, component: u32, epoch: u32) -> bool {
        let has = |knowledge: &Knowledge| knowledge.seen.has(knowledge.lane, component, epoch);
        match self {
            By::Lane { seen, lane } => seen.has(*lane, component, epoch),
            By::Agent(knowledge) => has(knowledge),
            By::Warpgroup(warps) => warps.iter().all(has),
        }
    }

    /// Would one of them be ordered after this epoch, if every atomic update released and acquired?
    pub(crate) fn would_know(&self, component: u32, epoch: u32) -> bool {
        let would = |knowledge: &Knowledge| knowledge.seen.would_have(knowledge.lane, component, epoch);
        match self {
            By::Lane { seen, lane } => seen.would_have(*lane, component, epoch),
            By::Agent(knowledge) => would(knowledge),
            By::Warpgroup(warps) => warps.iter().any(would),
        }
    }

    /// Whether a read cannot see this write because the read is complete.
    #[cold]
    fn comes_after_read(&self, read: Stamp) -> bool {
        let complete = |knowledge: &Knowledge| {
            !knowledge.asynchronous && knowledge.seen.is_complete(knowledge.lane, read.component, read.epoch)
        };
        match self {
            By::Lane { seen, lane } => seen.is_complete(*lane, read.component, read.epoch),
            By::Agent(knowledge) => complete(knowledge),
            By::Warpgroup(warps) => warps.iter().all(complete),
        }
    }

    #[inline]
    fn order(&self, all: &Components, me: &Stamp, component: u32, epoch: u32) -> Order {
        match self {
            By::Lane { seen, lane } => {
                if component == me.component || seen.has(*lane, component, epoch) {
                    Order::After
                } else {
                    Order::None
                }
            }
            _ => self.order_in_flight(all, component, epoch),
        }
    }

    #[inline(never)]
    fn order_in_flight(&self, all: &Components, component: u32, epoch: u32) -> Order {
        match self {
            By::Lane { .. } => Order::None,
            By::Agent(knowledge) => knowledge.order(all, component, epoch),
            // Each warp has its own clock.
            By::Warpgroup(warps) => {
                let orders = warps.iter().map(|knowledge| knowledge.order(all, component, epoch));
                orders.max().unwrap_or(Order::None)
            }
        }
    }
}

impl Shadow {
    pub(crate) fn new(cells: usize) -> Shadow {
        Shadow { cells: vec![Cell::default(); cells], lists: vec![Vec::new()] }
    }

    /// Records an access, unless it conflicts with an earlier one.
    #[inline]
    pub(crate) fn touch(
        &mut self,
        all: &Components,
        at: usize,
        touch: Touch,
        by: &By<'_>,
        me: Stamp,
    ) -> Result<(), Conflict> {
        let cell = &self.cells[at];
        let conflict = |earlier: Stamp, earlier_writes: bool, order: Order| Conflict {
            earlier,
            earlier_writes,
            unfenced: order == Order::Unfenced,
            narrow: None,
        };
        if cell.write.epoch > 0 {
            let order = by.order(all, &me, cell.write.component, cell.write.epoch);
            if order != Order::After {
                return Err(conflict(cell.write, true, order));
            }
        }
        let updates = if cell.updates == 0 { &[][..] } else { &self.lists[cell.updates as usize] };
        for updates in updates {
            // Atomic updates need no order among each other, if the scope of each has the other's thread.
            let scope = match (touch, updates.scope) {
                (Touch::Atomic(mine), Some(its)) => Some(mine.min(its)),
                _ => None,
            };
            if scope == Some(Scope::Grid) {
                continue;
            }
            for stamp in updates.stamps() {
                if scope.is_some_and(|scope| all.share(scope, me.component, stamp.component)) {
                    continue;
                }
                let order = by.order(all, &me, stamp.component, stamp.epoch);
                if order != Order::After {
                    return Err(Conflict { narrow: scope, ..conflict(stamp, true, order) });
                }
            }
        }
        if touch == Touch::Read {
            self.read(all, at, by, me);
            return Ok(());
        }
        for reads in std::iter::once(&cell.read).chain(&self.lists[cell.more as usize]) {
            for stamp in reads.stamps() {
                let order = by.order(all, &me, stamp.component, stamp.epoch);
                if order != Order::After && !by.comes_after_read(stamp) {
                    return Err(conflict(stamp, false, order));
                }
            }
        }
        if let Touch::Atomic(scope) = touch {
            self.update(all, at, by, me, scope);
            return Ok(());
        }
        let cell = &mut self.cells[at];
        cell.write = me;
        cell.read.lanes = 0;
        for list in [cell.more, cell.updates] {
            if list != 0 {
                self.lists[list as usize].clear();
            }
        }
        Ok(())
    }

    fn read(&mut self, all: &Components, at: usize, by: &By<'_>, me: Stamp) {
        let cell = &mut self.cells[at];
        let mine = Lanes::of(me, by, None);
        if cell.read.lanes == 0 {
            cell.read = mine;
            return;
        }
        if mine.same(&cell.read) {
            cell.read.lanes |= mine.lanes;
            return;
        }
        let over = |reads: &Lanes| {
            let mut stamps = reads.stamps();
            stamps.all(|stamp| by.order(all, &me, stamp.component, stamp.epoch) == Order::After)
        };
        if cell.more != 0
            && let Some(known) = self.lists[cell.more as usize].iter_mut().find(|reads| mine.same(reads))
        {
            known.lanes |= mine.lanes;
            return;
        }
        if over(&cell.read) {
            cell.read = mine;
            if cell.more != 0 {
                self.lists[cell.more as usize].retain(|reads| !over(reads));
            }
            return;
        }
        if cell.more == 0 {
            cell.more = self.lists.len() as u32;
            self.lists.push(vec![mine]);
        } else {
            self.lists[cell.more as usize].push(mine);
        }
    }

    /// Records an atomic update. An access ordered after it is also ordered after the updates that
    /// it has acquired. These are removed, unless their scope is narrower.
    fn update(&mut self, all: &Components, at: usize, by: &By<'_>, me: Stamp, scope: Scope) {
        let cell = &mut self.cells[at];
        let mine = Lanes::of(me, by, Some(scope));
        if cell.updates == 0 {
            cell.updates = self.lists.len() as u32;
            self.lists.push(vec![mine]);
            return;
        }
        let list = &mut self.lists[cell.updates as usize];
        let mut merged = false;
        for known in list.iter_mut() {
            if mine.same(known) {
                known.lanes |= mine.lanes;
                merged = true;
                continue;
            }
            while known.lanes != 0 && known.scope >= mine.scope {
                let lane = known.lanes.trailing_zeros();
                if by.order(all, &me, known.first + lane, known.epoch) != Order::After {
                    break;
                }
                known.lanes &= known.lanes - 1;
            }
        }
        list.retain(|known| known.lanes != 0);
        if !merged {
            list.push(mine);
        }
    }

    /// All stamps of a cell, for the check when memory is freed.
    pub(crate) fn stamps(&self, at: usize) -> impl Iterator<Item = (Stamp, bool)> + '_ {
        let cell = &self.cells[at];
        let list = |list: u32| self.lists[list as usize].iter().copied();
        let write = Some(cell.write).filter(|stamp| stamp.epoch > 0);
        let updates = list(cell.updates).flat_map(Lanes::stamps);
        let reads = std::iter::once(cell.read).chain(list(cell.more)).flat_map(Lanes::stamps);
        let writes = write.into_iter().chain(updates).map(|stamp| (stamp, true));
        writes.chain(reads.map(|stamp| (stamp, false)))
    }
}
