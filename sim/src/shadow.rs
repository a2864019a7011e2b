//! Who touched a cell of memory last, and whether somebody else may touch it now. After FastTrack (Flanagan and Freund,
//! 2009): one write and, as long as reads are ordered, one read; a list only where several read without order.

use crate::clock::{Components, Knowledge, Order, Seen};

/// Who, when, where in the program.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Stamp {
    pub(crate) component: u32,
    pub(crate) epoch: u32,
    /// The access of the program.
    pub(crate) access: u32,
    /// The thread of the cluster that did it or began it.
    pub(crate) thread: u32,
}

/// Reads by lanes of one warp in one epoch.
#[derive(Clone, Copy, Debug, Default)]
struct Reads {
    first: u32,
    lanes: u32,
    epoch: u32,
    access: u32,
    thread: u32,
}

/// What is known about a cell.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cell {
    write: Stamp,
    read: Reads,
    /// Further reads: a row of the lists; 0 for none.
    more: u32,
    atomic: bool,
}

/// Cells with their lists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shadow {
    cells: Vec<Cell>,
    lists: Vec<Vec<Reads>>,
}

/// Two accesses that nothing orders.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Conflict {
    pub(crate) earlier: Stamp,
    pub(crate) earlier_writes: bool,
    /// They are ordered, but not between the proxies.
    pub(crate) unfenced: bool,
}

/// How somebody touches a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    Read,
    Write,
    Atomic,
}

/// Who touches it: a lane of a warp, or an operation in flight.
pub(crate) enum By<'a> {
    Lane { seen: &'a Seen, lane: u32 },
    Agent(&'a Knowledge),
}

impl By<'_> {
    fn order(&self, all: &Components, me: &Stamp, component: u32, epoch: u32) -> Order {
        match self {
            By::Lane { seen, lane } => {
                if component == me.component || seen.has(*lane, component, epoch) {
                    Order::After
                } else {
                    Order::None
                }
            }
            By::Agent(knowledge) => knowledge.order(all, component, epoch),
        }
    }
}

impl Shadow {
    pub(crate) fn new(cells: usize) -> Shadow {
        Shadow { cells: vec![Cell::default(); cells], lists: vec![Vec::new()] }
    }

    /// Notes an access, unless it conflicts with an earlier one.
    #[inline]
    pub(crate) fn touch(
        &mut self,
        all: &Components,
        at: usize,
        touch: Touch,
        by: &By<'_>,
        me: Stamp,
    ) -> Result<(), Conflict> {
        let cell = &mut self.cells[at];
        let conflict = |stamp: Stamp, writes: bool, order: Order| Conflict {
            earlier: stamp,
            earlier_writes: writes,
            unfenced: order == Order::Unfenced,
        };
        let both_atomic = cell.atomic && touch == Touch::Atomic;
        if cell.write.epoch > 0 && !both_atomic {
            let order = by.order(all, &me, cell.write.component, cell.write.epoch);
            if order != Order::After {
                return Err(conflict(cell.write, true, order));
            }
        }
        if touch == Touch::Read {
            self.read(all, at, by, me);
            return Ok(());
        }
        for reads in std::iter::once(&cell.read).chain(&self.lists[cell.more as usize]) {
            for lane in crate::clock::lanes_of(reads.lanes) {
                let order = by.order(all, &me, reads.first + lane, reads.epoch);
                if order != Order::After {
                    let stamp = Stamp {
                        component: reads.first + lane,
                        epoch: reads.epoch,
                        access: reads.access,
                        thread: reads.thread,
                    };
                    return Err(conflict(stamp, false, order));
                }
            }
        }
        cell.write = me;
        cell.atomic = touch == Touch::Atomic;
        cell.read.lanes = 0;
        if cell.more != 0 {
            self.lists[cell.more as usize].clear();
        }
        Ok(())
    }

    fn read(&mut self, all: &Components, at: usize, by: &By<'_>, me: Stamp) {
        let cell = &mut self.cells[at];
        let (first, lane) = (me.component & !31, 1u32 << (me.component & 31));
        let mine = Reads { first, lanes: lane, epoch: me.epoch, access: me.access, thread: me.thread };
        let same = |reads: &Reads| reads.first == first && reads.epoch == me.epoch;
        if cell.read.lanes == 0 {
            cell.read = mine;
            return;
        }
        if same(&cell.read) {
            cell.read.lanes |= lane;
            return;
        }
        let over = |reads: &Reads| {
            crate::clock::lanes_of(reads.lanes)
                .all(|lane| by.order(all, &me, reads.first + lane, reads.epoch) == Order::After)
        };
        if cell.more != 0
            && let Some(known) = self.lists[cell.more as usize].iter_mut().find(|reads| same(reads))
        {
            known.lanes |= lane;
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

    /// What was done to a cell last.
    pub(crate) fn last_write(&self, at: usize) -> Option<Stamp> {
        self.cells.get(at).map(|cell| cell.write).filter(|stamp| stamp.epoch > 0)
    }

    /// All stamps of a cell, for whoever frees the memory.
    pub(crate) fn stamps(&self, at: usize) -> impl Iterator<Item = (Stamp, bool)> + '_ {
        let cell = &self.cells[at];
        let reads = std::iter::once(&cell.read).chain(&self.lists[cell.more as usize]);
        let reads = reads.flat_map(|reads| {
            crate::clock::lanes_of(reads.lanes).map(move |lane| {
                let component = reads.first + lane;
                (Stamp { component, epoch: reads.epoch, access: reads.access, thread: reads.thread }, false)
            })
        });
        self.last_write(at).map(|stamp| (stamp, true)).into_iter().chain(reads)
    }
}
