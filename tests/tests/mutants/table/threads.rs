//! Barriers of groups, arrivals, atomic updates, arrays that share memory.

use super::*;

pub(super) fn members() -> Of {
    fn number(k: &mut Kernel, change: fn(&mut Exprs, Ix) -> Ix) {
        k.op(sync, 0, |e, op| {
            if let Op::Sync { member: Some(member), .. } = op {
                *member = change(e, *member);
            }
        });
    }
    const OTHERS: &[&str] = &["different barriers, or at one that does not exist"];
    Of::new("two groups with numbered barriers", programs::members)
        .p("the lanes of a warp at different barriers", "Divergence", |k| {
            number(k, |e, _| {
                let thread = e.leaf(Int::Thread, 0, 127, 1, Scope::Thread);
                e.rem(thread, 2)
            });
        })
        .says(OTHERS)
        .p("a barrier that does not exist", "Divergence", |k| {
            number(k, |e, member| {
                let more = e.int(8);
                e.add(member, more)
            });
        })
        .says(OTHERS)
        .p("the barrier of one group for both", "Divergence | Unwritten", |k| number(k, |e, _| e.int(0)))
}

pub(super) fn counts() -> Of {
    Of::new("blocks that count in global memory", programs::counts)
        .p("updates with the scope of the block", "Race", |k| k.scope_of_updates(Scope::Block))
        .p("updates with the scope of a cluster of one block", "Race", |k| k.scope_of_updates(Scope::Cluster))
        .p("updates with the scope of the block in a cluster of two", "Race", |k| {
            k.launch.cluster = [2, 1, 1];
            k.scope_of_updates(Scope::Block);
        })
}

pub(super) fn claims() -> Of {
    Of::new("a claim about elements out of bounds", programs::claims)
        .p("elements out of bounds are 1", "FalseClaim", |k| {
            k.op(
                |op| matches!(op, Op::Load { .. }),
                0,
                |_, op| {
                    if let Op::Load { fill, .. } = op {
                        *fill = 1.0.into();
                    }
                },
            );
        })
        .says(&["out-of-bounds elements are 0.0, and the one at (20) is 1.0"])
        .p("not-a-number is no number", "FalseClaim", |k| {
            k.op(
                |op| matches!(op, Op::Load { .. }),
                0,
                |_, op| {
                    if let Op::Load { fill, .. } = op {
                        *fill = f64::NAN.into();
                    }
                },
            );
        })
}

pub(super) fn pair() -> Of {
    const SHOWN: &str = "Race | Unwritten";
    Of::new("roles with named barriers", programs::pair)
        .p("a barrier of 33 threads", "Malformed", |k| k.names(1, 1, 33))
        .p("a barrier of 48 threads", "Malformed", |k| k.names(1, 1, 48))
        .p("a barrier of no threads", "Malformed", |k| k.names(2, 2, 0))
        .p("a named barrier with id 16", "Malformed", |k| k.names(1, 16, 128))
        .p("a named barrier with id 0", "Malformed", |k| k.names(1, 0, 128))
        .p("a barrier of one role only", "Divergence | Unwritten", |k| k.names(1, 1, 64))
        .p("a barrier of one role only after the read", "Divergence | Race", |k| k.names(2, 2, 64))
        .p("the readers skip the second barrier", "Deadlock | Divergence", |k| k.drop(sync, 3))
        .p("the writers reach the first barrier before they write", SHOWN, |k| k.earlier(sync, 0))
        .p("the readers read before the first barrier", SHOWN, |k| k.later(sync, 2))
        .p("syncwarp instead of the named barrier", "Race | Unwritten", |k| {
            k.becomes(sync, 0, syncwarp());
            k.becomes(sync, 1, syncwarp());
        })
}

pub(super) fn arrivals() -> Of {
    Of::new("a producer warp and a consumer warp", programs::arrivals)
        .p("one lane arrives for the others", "Race", |k| {
            k.elect(arrive, 0, Scope::Warp);
            k.arrivals(1, 1);
        })
        .p("one lane waits for the others", "Race", |k| k.elect(awaits, 1, Scope::Warp))
        .p("one lane releases slots for the others", "Race", |k| {
            k.elect(arrive, 1, Scope::Warp);
            k.arrivals(2, 1);
        })
        .p("the reader does not wait", "Race | Unwritten | Mbarrier", |k| k.drop(awaits, 1))
        .p("the writer does not wait", "Race | Mbarrier", |k| k.drop(awaits, 0))
        .p("the writer arrives before it writes", "Race | Unwritten", |k| k.earlier(arrive, 0))
        .p("slots are released before they are read", "Race", |k| k.earlier(arrive, 1))
        .p("phases of 31 arrivals", "Mbarrier | Race | Unwritten", |k| k.arrivals(1, 31))
        .p("phases of 33 arrivals", "Deadlock", |k| k.arrivals(1, 33))
        .p("phases without arrivals", "Malformed", |k| k.arrivals(1, 0))
        .p("no barrier after the initialisation", "Mbarrier", |k| k.drop(sync, 0))
        .p("every wait is for the first phase", "Mbarrier | Race", |k| {
            k.op(awaits, 1, |e, op| {
                if let Op::Await { phase, .. } = op {
                    *phase = e.int(0);
                }
            });
        })
}

pub(super) fn sums() -> Of {
    Of::new("sums by atomic updates", programs::sums)
        .p("no barrier after the clearing", "Race | Unwritten", |k| k.drop(sync, 0))
        .p("no barrier before the sums are read", "Race", |k| k.drop(sync, 1))
        .p("syncwarp instead of syncthreads after the clearing", "Race | Unwritten", |k| {
            k.becomes(sync, 0, syncwarp());
        })
        .p("syncwarp instead of syncthreads before the sums are read", "Race", |k| {
            k.becomes(sync, 1, syncwarp())
        })
        .p("no clearing", "Unwritten", |k| k.drop(condition, 0))
        .p("one warp clears again after the barrier", "Race", |k| {
            k.list(condition, 0, |_, list, at| {
                let stmt = list[at].clone();
                list.insert(at + 2, stmt);
            });
        })
        .p("a sum is read before it is added to", "Race", |k| {
            k.list(load_shared, 0, |_, list, at| {
                let before = (0..at).find(|&at| atomic(&list[at].op)).expect("the update");
                let stmt = list[at].clone();
                list.insert(before, stmt);
            });
        })
        .p("plain loads and stores instead of atomic updates", "Race", |k| {
            let (mut load, mut store) = (None, None);
            k.op(load_shared, 0, |_, op| load = Some(op.clone()));
            k.op(store_shared, 0, |_, op| store = Some(op.clone()));
            k.list(atomic, 0, |_, list, at| {
                let (Some(load), Some(Op::Store { from, guard, .. })) = (load, store) else { return };
                let Op::Load { from: index, .. } = &load else { return };
                let store = Op::Store { to: index.clone(), from, guard };
                let site = list[at].site;
                list.splice(at..=at, [load, store].map(|op| Stmt { site, op }));
            });
        })
}

pub(super) fn lifetimes() -> Of {
    Of::new("aliased arrays in the arena", programs::lifetimes)
        .p("the first array is read after the second's writes", "Overwritten", |k| {
            k.reads_from(1, Space::Shared(0));
        })
        .p("no barrier between the two", "Race | Overwritten", |k| k.drop(sync, 2))
        .p("the barrier is before the first array's reads", "Race | Overwritten", |k| {
            k.earlier(sync, 2);
            k.earlier(sync, 2);
        })
        .p("the second array overlaps an mbarrier", "Malformed", |k| k.shared[1].offset += 1024)
        .p("the second array is beyond shared memory", "Malformed", |k| k.shared[1].offset = 1 << 16)
}
