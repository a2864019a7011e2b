//! Warps, blocks and kernels that wait for one another.

use super::*;

pub(super) fn order() -> Of {
    Of::new("warps that alternate", programs::order)
        .p("no wait", "Race | Mbarrier", |k| k.drop(awaits, 0))
        .p("one warp waits", "Race | Mbarrier | Deadlock", |k| k.only_below(awaits, 0, 32))
        .p("both start without waiting", "Race | Mbarrier", |k| {
            phase(k, |e, iteration| {
                let one = e.int(1);
                e.sub(iteration, one)
            })
        })
        .p("neither may start", "Deadlock", |k| phase(k, |_, iteration| iteration))
        .p("the other phase parity", "Race | Mbarrier | Deadlock", |k| {
            phase(k, |e, iteration| {
                let one = e.int(1);
                e.add(iteration, one)
            })
        })
        .p("the arrival is before the write", "Race", |k| {
            k.earlier(elect, 1);
            k.earlier(elect, 1);
        })
        .p("no syncwarp before the arrival", "Race", |k| k.drop(fence, 1))
        .p("two arrivals are expected", "Deadlock", |k| k.arrivals(1, 2))
        .p("half of a warp elects a lane", "Divergence", |k| k.half_of_a_warp(elect, 1))
        .p("a warp arrives for itself", "Race | Mbarrier | Deadlock", |k| {
            k.op(arrive, 0, |e, op| {
                if let Op::Arrive { slot, .. } = op {
                    let one = e.int(1);
                    *slot = e.sub(one, *slot);
                }
            });
        })
}

/// Changes the phase that a warp waits for, as a function of the iteration.
fn phase(
    k: &mut Kernel,
    change: fn(
        &mut tilewright_codegen::index::Exprs,
        tilewright_codegen::index::Ix,
    ) -> tilewright_codegen::index::Ix,
) {
    let mut iteration = None;
    k.op(
        |op| matches!(op, Op::For { .. }),
        0,
        |e, op| {
            if let Op::For { var, .. } = op {
                iteration = Some(e.leaf(tilewright_codegen::index::Int::Var(*var), 0, 3, 1, Scope::Block));
            }
        },
    );
    let iteration = iteration.expect("a loop");
    k.op(awaits, 0, |e, op| {
        if let Op::Await { phase, .. } = op {
            *phase = change(e, iteration);
        }
    });
}

pub(super) fn overlap() -> Of {
    fn awaits_previous(op: &Op) -> bool {
        matches!(op, Op::AwaitPrevious)
    }
    const READ: &[&str] =
        &["`from` is accessed before the previous kernel in the stream has been waited for"];
    const WRITTEN: &[&str] =
        &["`to` is accessed before the previous kernel in the stream has been waited for"];
    Of::new("a kernel that starts before the previous one has ended", programs::overlap)
        .p("no wait for the previous kernel", "Race", |k| k.drop(awaits_previous, 0))
        .says(READ)
        .p("the wait for the previous kernel is after the read", "Race", |k| k.later(awaits_previous, 0))
        .says(READ)
        .p("one thread waits for the previous kernel", "Race", |k| k.elect(awaits_previous, 0, Scope::Block))
        .says(READ)
        .p("the result is written before the wait for the previous kernel", "Race", |k| {
            k.drop(load, 0);
            k.drop(awaits_previous, 0);
            k.list(store, 0, |e, list, at| {
                let (site, value) = (list[at].site, Val::lit(0.0, Elem::F32));
                list.insert(at, Stmt { site, op: Op::Assign { reg: 0, at: e.int(0), value } });
            });
        })
        .says(WRITTEN)
        .p("a kernel that ends without waiting for the previous one", "Race", |k| k.body.clear())
        .says(&["threads end without having waited for the previous kernel in the stream"])
}

pub(super) fn beside() -> Of {
    Of::new("a kernel that runs beside the previous one", programs::beside)
        .p("no wait for the previous kernel", "Race", |k| k.drop(|op| matches!(op, Op::AwaitPrevious), 0))
        .says(&["threads end without having waited for the previous kernel in the stream"])
}

pub(super) fn tickets() -> Of {
    fn order(k: &mut Kernel, to: MemoryOrder) {
        k.op(atomic, 0, |_, op| {
            if let Op::Atomic { order, .. } = op {
                *order = to;
            }
        });
    }
    const RELEASE: &str = "the atomic update of `tickets` at (0), element 0 between them releases nothing";
    const ACQUIRE: &str = "the atomic update of `tickets` at (0), element 0 between them acquires nothing";
    Of::new("the last of two blocks reads what the other wrote", programs::tickets)
        .p("the ticket does not release", "Race", |k| order(k, MemoryOrder::Acquire))
        .says(&[RELEASE])
        .p("the ticket does not acquire", "Race", |k| order(k, MemoryOrder::Release))
        .says(&[ACQUIRE])
        .p("the ticket is relaxed", "Race", |k| order(k, MemoryOrder::Relaxed))
        .says(&[RELEASE])
        .p("the ticket has the scope of the block", "Race", |k| k.scope_of_updates(Scope::Block))
        .says(&["has a scope without the other block"])
        .p("no barrier before the ticket", "Race", |k| k.drop(sync, 0))
        .p("no barrier after the ticket", "Race | Unwritten", |k| k.drop(sync, 1))
}
