//! Every planted bug: the program, the bug, and the kinds of faults that may show it.

mod cooperation;
mod copies;
mod ordered;
mod products;
mod threads;

use tilewright_codegen::Elem;
use tilewright_codegen::index::{Exprs, Int, Ix};
use tilewright_codegen::thread::{
    AtomArg, Bar, Change, Fence, Kernel, MemoryOrder, Op, Queue, Role, Scope, Space, Stmt, Val,
};

use super::programs::{self, Program};
use crate::cut::*;

/// A program, and its planted bugs.
pub(crate) struct Of {
    pub(crate) name: &'static str,
    pub(crate) program: fn() -> Program,
    pub(crate) faults: Vec<Planted>,
}

/// A planted bug.
pub(crate) struct Planted {
    pub(crate) name: &'static str,
    /// Kinds of faults, or a wrong result; every seed must report one of them.
    pub(crate) kinds: &'static str,
    /// Parts of the fault's text, the cause and the remedy; every seed must show one of them. If empty, any text will do.
    pub(crate) texts: &'static [&'static str],
    pub(crate) change: fn(&mut Kernel),
}

impl Of {
    fn new(name: &'static str, program: fn() -> Program) -> Of {
        Of { name, program, faults: Vec::new() }
    }

    fn p(mut self, name: &'static str, kinds: &'static str, change: fn(&mut Kernel)) -> Of {
        self.faults.push(Planted { name, kinds, texts: &[], change });
        self
    }

    /// The text of the last fault names its cause.
    fn says(mut self, texts: &'static [&'static str]) -> Of {
        self.faults.last_mut().expect("a fault").texts = texts;
        self
    }
}

/// Further mutations.
trait Plant: Cut {
    /// Elects one thread of each group of this size to execute a statement.
    fn elect(&mut self, what: impl Fn(&Op) -> bool, nth: usize, scope: Scope) {
        self.list(what, nth, |_, list, at| {
            let stmt = list[at].clone();
            list[at].op = Op::Elect(scope, vec![stmt]);
        });
    }

    /// Half of the lanes of one warp execute a statement.
    fn half_of_a_warp(&mut self, what: impl Fn(&Op) -> bool, nth: usize) {
        let last = i64::from(self.program().launch.threads) - 1;
        self.list(what, nth, |e, list, at| {
            let (thread, sixteen) = (e.leaf(Int::Thread, 0, last, 1, Scope::Thread), e.int(16));
            // Every other warp executes it as a whole.
            let (lane, warp) = (e.rem(thread, 32), e.div(thread, 32));
            let (below, one) = (e.lt(lane, sixteen), e.int(1));
            let first = e.lt(warp, one);
            let all = e.not(first);
            let cond = e.select(first, below, all);
            let stmt = list[at].clone();
            list[at].op = Op::If { cond: cond.into(), then: vec![stmt], other: vec![] };
        });
    }

    /// Moves the fence of initialised mbarriers past the barrier that follows.
    fn fences_late(&mut self) {
        let mut fence = None;
        self.list(init_fence, 0, |_, list, at| fence = Some(list.remove(at)));
        self.list(sync, 0, |_, list, at| {
            let site = list[at].site;
            let body = fence.into_iter().collect();
            list.insert(at + 1, Stmt { site, op: Op::Elect(Scope::Block, body) });
        });
    }

    /// Changes the scope of atomic updates.
    fn scope_of_updates(&mut self, of: Scope) {
        self.op(atomic, 0, |_, op| {
            if let Op::Atomic { scope, .. } = op {
                *scope = of;
            }
        });
    }

    /// Replaces a statement.
    fn becomes(&mut self, what: impl Fn(&Op) -> bool, nth: usize, op: Op) {
        self.op(what, nth, |_, old| *old = op);
    }

    /// Changes the offset of mbarriers.
    fn begins(&mut self, bar: usize, at: u32) {
        let Bar::Mbarriers { offset, .. } = &mut self.program().bars[bar] else { panic!("no mbarriers") };
        *offset = at;
    }

    /// Changes a named barrier's id and thread count.
    fn names(&mut self, bar: usize, number: u8, count: u32) {
        let Bar::Named { id, threads } = &mut self.program().bars[bar] else { panic!("no named barrier") };
        (*id, *threads) = (number, count);
    }

    fn role(&mut self, nth: usize) -> &mut Role {
        let mut all = self.program().body.iter_mut().filter_map(|stmt| match &mut stmt.op {
            Op::Roles(roles) => Some(roles),
            _ => None,
        });
        &mut all.next().expect("roles")[nth]
    }

    /// Replaces the array that a load reads.
    fn reads_from(&mut self, nth: usize, space: Space) {
        self.op(load_shared, nth, |_, op| {
            if let Op::Load { from, .. } = op {
                from.space = space;
            }
        });
    }
}

impl Plant for Kernel {}

fn atomic(op: &Op) -> bool {
    matches!(op, Op::Atomic { .. }) && !awaits_element(op)
}

fn awaits_element(op: &Op) -> bool {
    matches!(op, Op::Atomic { op: Change::Await, .. })
}

fn init_fence(op: &Op) -> bool {
    matches!(op, Op::Fence(Fence::MbarrierInit))
}

fn pin(op: &Op) -> bool {
    matches!(op, Op::Pin(_))
}

fn wgmma_fence(op: &Op) -> bool {
    matches!(op, Op::Fence(Fence::Products))
}

fn syncwarp() -> Op {
    Op::Fence(Fence::Threads(Scope::Warp))
}

pub(crate) fn all() -> Vec<Of> {
    vec![
        products::ring(),
        products::filled(),
        threads::pair(),
        threads::arrivals(),
        copies::copies(),
        copies::stores(),
        copies::cluster(),
        copies::multicast(),
        copies::peers(),
        threads::sums(),
        threads::lifetimes(),
        ordered::order(),
        products::registers(),
        products::sums_between(),
        threads::members(),
        threads::counts(),
        threads::claims(),
        ordered::tickets(),
        ordered::overlap(),
        ordered::beside(),
        cooperation::total(),
        cooperation::running_sum(),
        cooperation::words(),
    ]
}
