//! Bulk copies and stores, and clusters of blocks.

use super::*;

pub(super) fn copies() -> Of {
    Of::new("bulk copies that threads read", programs::copies)
        .p("no proxy fence before slots are released", "MissingFence", |k| k.drop(fence, 1))
        .p("the proxy fence is after the arrival", "MissingFence", |k| k.later(fence, 1))
        .p("one warp waits for the copies", "InFlight | Unwritten", |k| k.only_below(awaits, 0, 32))
        .p("one thread releases slots for all", "Race | InFlight", |k| {
            k.elect(arrive, 0, Scope::Block);
            k.arrivals(2, 1);
        })
        .p("one warp releases slots for both", "Race | InFlight | Mbarrier", |k| {
            k.only_below(arrive, 0, 32);
            k.arrivals(2, 32);
        })
        .p("half of the bytes are expected", "Mbarrier | InFlight | Race | Deadlock", |k| {
            k.announces(0, Some(128))
        })
        .p("the bytes are expected at the other slot", "Mbarrier | Deadlock | InFlight", |k| {
            k.op(arrive, 1, |e, op| {
                if let Op::Arrive { slot, .. } = op {
                    let one = e.int(1);
                    *slot = e.sub(one, *slot);
                }
            });
        })
        .p("every lane copies", "Mbarrier | InFlight", |k| k.unelect(1))
        .p("no fence after mbarrier.init", "MissingFence", |k| k.drop(fence, 0))
        .p("the fence after mbarrier.init is past the barrier", "MissingFence", |k| k.fences_late())
}

pub(super) fn stores() -> Of {
    const WAIT: Op = Op::WaitQueue { queue: Queue::BulkRead, pending: 0 };
    Of::new("bulk stores of what threads write", programs::stores)
        .p("no wait until the store has read", "InFlight", |k| k.drop(elect, 1))
        .p("the wait is after the barrier", "InFlight | Race", |k| k.later(elect, 1))
        .p("another thread waits", "InFlight", |k| {
            k.op(elect, 1, |e, op| {
                let thread = e.leaf(tilewright_codegen::index::Int::Thread, 0, 63, 1, Scope::Thread);
                let (one, body) = (e.int(1), vec![Stmt { site: 0, op: WAIT }]);
                let cond = e.eq(thread, one);
                *op = Op::If { cond: cond.into(), then: body, other: vec![] };
            });
        })
        .p("only the storing thread executes the proxy fence", "MissingFence", |k| {
            k.elect(fence, 0, Scope::Block);
        })
        .p("the store is before the barrier", "Race | Unwritten | InFlight", |k| k.later(sync, 0))
        .p("syncwarp instead of syncthreads before the store", "Race | Unwritten", |k| {
            k.becomes(sync, 0, syncwarp());
        })
        .p("no barrier after the wait", "Race | InFlight", |k| k.drop(sync, 1))
        .p("the store is not committed", "InFlight | Race", |k| k.drop(commit, 0))
        .p("shared memory is too small", "Malformed", |k| k.launch.shared_bytes -= 16)
}

pub(super) fn cluster() -> Of {
    Of::new("multicast copies", programs::cluster)
        .p("syncthreads instead of the cluster barrier after mbarrier.init", "Mbarrier", |k| {
            k.becomes(sync, 0, Op::sync(0))
        })
        .p("no fence after mbarrier.init", "MissingFence", |k| k.drop(fence, 0))
        .p("the fence after mbarrier.init is past the barrier", "MissingFence", |k| k.fences_late())
        .p("each block multicasts to itself only", "Deadlock", |k| k.shift(atom, 0, 3, -2))
        .p("a multicast beyond the cluster", "OutOfBounds", |k| k.shift(atom, 0, 3, 4))
        .p("half of the bytes are expected", "Mbarrier | InFlight | Race | Unwritten", |k| {
            k.announces(0, Some(256));
        })
        .p("no wait for the copies", "InFlight | Unwritten", |k| k.drop(awaits, 0))
        .p("no wait for the other block's writes", "Unwritten | Race", |k| k.drop(awaits, 1))
        .p("threads arrive at their own block's mbarrier", "Unwritten | Race", |k| {
            k.op(arrive, 1, |_, op| {
                if let Op::Arrive { peer, .. } = op {
                    *peer = None;
                }
            });
        })
        .p("threads arrive before they write", "Unwritten | Race", |k| k.earlier(arrive, 1))
        .p("one thread arrives for its block", "Unwritten | Race", |k| {
            k.elect(arrive, 1, Scope::Block);
            k.arrivals(2, 1);
        })
}

const EXIT: &[&str] = &[
    "may end before another block of its cluster is done with its shared memory",
    "help: put a barrier of the cluster at the end",
];

pub(super) fn multicast() -> Of {
    Of::new("a ring with multicast", programs::multicast)
        .p("a slot is released in its own block only", "InFlight | Race | Mbarrier", |k| {
            k.op(arrive, 1, |_, op| {
                if let Op::Arrive { peer, .. } = op {
                    *peer = None;
                }
            });
            k.drop(arrive, 0);
            k.arrivals(2, 32);
        })
        .p("the empty barrier counts only the block's own readers", "InFlight | Race | Mbarrier", |k| {
            k.arrivals(2, 32)
        })
        .p("copies do not wait for a free slot", "InFlight | Race | Mbarrier", |k| k.drop(awaits, 1))
        .p("no proxy fence after the reads", "MissingFence", |k| k.drop(fence, 1))
        .p("no cluster barrier before exit", "Race", |k| k.drop(sync, 1))
        .says(EXIT)
        .p("the barrier before exit is one of the block", "Race", |k| {
            k.becomes(sync, 1, Op::sync(0));
        })
        .says(EXIT)
        .p("the fence after mbarrier.init is past the barrier", "MissingFence", |k| k.fences_late())
}

pub(super) fn peers() -> Of {
    fn ranks(
        k: &mut Kernel,
        change: fn(&mut tilewright_codegen::index::Exprs) -> tilewright_codegen::index::Ix,
    ) {
        k.op(load_shared, 0, |e, op| {
            if let Op::Load { from, .. } = op {
                from.peer = Some(change(e));
            }
        });
    }
    Of::new("blocks that read each other's memory", programs::peers)
        .p("no barrier before the read", "Race | Unwritten", |k| k.drop(sync, 0))
        .p("syncthreads instead of the cluster barrier", "Race | Unwritten", |k| {
            k.becomes(sync, 0, Op::sync(0));
        })
        .p("no barrier after the read", "Race", |k| k.drop(sync, 1))
        .says(EXIT)
        .p("the barrier after the read is one of the block", "Race", |k| k.becomes(sync, 1, Op::sync(0)))
        .p("half of a warp arrives at the cluster's barrier", "Divergence", |k| k.half_of_a_warp(sync, 0))
        .p("a rank beyond the cluster", "OutOfBounds", |k| ranks(k, |e| e.int(4)))
        .p("a rank below the cluster", "OutOfBounds", |k| ranks(k, |e| e.int(-1)))
}
