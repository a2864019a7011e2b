//! Every planted bug: the program, the bug, and the kinds of faults that may show it.

use tilewright_codegen::Elem;
use tilewright_codegen::index::Int;
use tilewright_codegen::thread::{
    AtomArg, Bar, Fence, Kernel, MemoryOrder, Op, Queue, Role, Scope, Space, Stmt, Val,
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
    /// Kinds of faults; every seed must report one of them.
    pub(crate) kinds: &'static str,
    /// Parts of the fault's text, the cause and what to write; every seed must show one of them. If empty, any text will do.
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
            list[at].op = Op::If { cond, then: vec![stmt], other: vec![] };
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
    matches!(op, Op::Atomic { .. })
}

fn init_fence(op: &Op) -> bool {
    matches!(op, Op::Fence(Fence::MbarrierInit))
}

fn pin(op: &Op) -> bool {
    matches!(op, Op::Pin(_))
}

fn wgmma_fence(op: &Op) -> bool {
    matches!(op, Op::Fence(Fence::Wgmma))
}

fn syncwarp() -> Op {
    Op::Fence(Fence::Threads(Scope::Warp))
}

pub(crate) fn all() -> Vec<Of> {
    vec![
        ring(),
        filled(),
        pair(),
        arrivals(),
        copies(),
        stores(),
        cluster(),
        multicast(),
        peers(),
        sums(),
        lifetimes(),
        order(),
        flags(),
        registers(),
        sums_between(),
        groups(),
        counts(),
        tickets(),
        overlap(),
    ]
}

fn order() -> Of {
    Of::new("warps that alternate", programs::order)
        .p("no wait", "Race | Mbarrier", |k| k.drop(awaits, 0))
        .p("one warp waits", "Race | Mbarrier | Deadlock", |k| k.only_below(awaits, 0, 32))
        .p("both start without waiting", "Race | Mbarrier", |k| {
            phase(k, |e, round| {
                let one = e.int(1);
                e.sub(round, one)
            })
        })
        .p("neither may start", "Deadlock", |k| phase(k, |_, round| round))
        .p("the other phase parity", "Race | Mbarrier | Deadlock", |k| {
            phase(k, |e, round| {
                let one = e.int(1);
                e.add(round, one)
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
    let mut round = None;
    k.op(
        |op| matches!(op, Op::For { .. }),
        0,
        |e, op| {
            if let Op::For { var, .. } = op {
                round = Some(e.leaf(tilewright_codegen::index::Int::Var(*var), 0, 3, 1, Scope::Block));
            }
        },
    );
    let round = round.expect("a loop");
    k.op(awaits, 0, |e, op| {
        if let Op::Await { phase, .. } = op {
            *phase = change(e, round);
        }
    });
}

fn flags() -> Of {
    const SHOWN: &str = "Race | Unwritten";
    Of::new("a block that waits for another's flag", programs::flags)
        .p("no wait", SHOWN, |k| k.drop(|op| matches!(op, Op::AwaitFlag { .. }), 0))
        .p("the flag is set by a relaxed update", SHOWN, |k| {
            update(k, |op| {
                if let Op::Atomic { order, .. } = op {
                    *order = MemoryOrder::Relaxed;
                }
            })
        })
        .says(&["the atomic update of `flag` at (0), element 0 between them releases nothing"])
        .p("the flag is set with block scope", "Race", |k| k.scope_of_updates(Scope::Block))
        .says(&[
            "the atomic update of `flag` at (0), element 0 between them has the scope of one block",
            "two blocks update `flag` at (0), element 0 atomically, and an update has a scope without the other block",
        ])
        .p("the flag is set before the write", SHOWN, |k| {
            k.earlier(elect, 0);
            k.earlier(elect, 0);
        })
        .p("no barrier before the flag is set", SHOWN, |k| k.drop(sync, 0))
        .p("no barrier after the wait", SHOWN, |k| k.drop(sync, 1))
        .p("a wait for a value that is never written", "Deadlock", |k| {
            k.op(
                |op| matches!(op, Op::AwaitFlag { .. }),
                0,
                |e, op| {
                    if let Op::AwaitFlag { least, .. } = op {
                        *least = e.int(2);
                    }
                },
            );
        })
}

fn overlap() -> Of {
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

fn tickets() -> Of {
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

fn update(k: &mut Kernel, change: fn(&mut Op)) {
    k.op(atomic, 0, |_, op| change(op));
}

fn ring() -> Of {
    Of::new("a ring of products", programs::ring)
        .p("one warp waits for the copies", "InFlight", |k| k.only_below(awaits, 0, 32))
        .p("three warps wait for the copies", "InFlight", |k| k.only_below(awaits, 0, 96))
        .p("one warp releases slots for all", "InFlight", |k| {
            k.elects(1, Scope::Warpgroup);
            k.arrivals(2, 1);
        })
        .p("slots are released before the wait for the product", "InFlight", |k| {
            // Before the pin, and the wait.
            k.earlier(elect, 1);
            k.earlier(elect, 1);
        })
        .p("a product is left in flight", "InFlight | Locked", |k| k.pending(0, 1))
        .p("slots are released before the wait for them", "Mbarrier | InFlight | Race", |k| {
            k.list(elect, 1, |_, list, at| {
                let stmt = list.remove(at);
                list.insert(0, stmt);
            });
        })
        .p("copies do not wait for a free slot", "Mbarrier | InFlight | Race", |k| k.drop(awaits, 1))
        .p("16 bytes too few are expected", "Deadlock", |k| k.announces(0, Some(8176)))
        .says(&[
            "to which copies have brought 16 bytes more than its arrivals expect",
            "help: expect 16 bytes more",
        ])
        .p("16 bytes too many are expected", "Deadlock", |k| k.announces(0, Some(8208)))
        .says(&["whose arrivals expect 16 bytes more than copies have brought"])
        .p("no bytes are expected", "Mbarrier | InFlight", |k| k.announces(0, None))
        .says(&["help: let an arrival of the phase expect the bytes of all its copies"])
        .p("consumers wait for the previous phase", "Unwritten | InFlight | Race | Mbarrier", |k| {
            k.shift(awaits, 0, 1, -1)
        })
        .says(&[
            "and the wait for phase -1 of `full[0]` passed at once: a new mbarrier counts as complete",
            "help: wait for phase 0 of `full[0]`, which this copy completes: the last wait was for phase -1",
            "a wait for phase -1 of `full[0]`, which has completed 1 phase:",
        ])
        .p("the copy lands in the other slot", "InFlight | Race", |k| {
            k.op(atom, 1, |e, op| {
                let Op::Atom { args, .. } = op else { return };
                let Some(AtomArg::At(mem)) = args.first_mut() else { panic!("no address first") };
                let last = e.int(64 * 64);
                mem.index = e.sub(last, mem.index);
            });
        })
        .p("mbarriers overlap the tile", "Malformed", |k| k.begins(1, 8192))
        .p("mbarriers overlap one another", "Malformed", |k| k.begins(2, 16392))
        .p("misaligned mbarriers", "Malformed", |k| k.begins(2, 16404))
        .p("shared memory is too small by one mbarrier", "Malformed", |k| k.launch.shared_bytes -= 8)
        .p("fewer accumulator registers than the product needs", "Malformed", |k| {
            k.role(0).registers = Some(24);
        })
        .p("setmaxnreg not a multiple of eight", "Malformed", |k| k.role(0).registers = Some(44))
        .p("setmaxnreg above the maximum", "Malformed", |k| k.role(0).registers = Some(264))
        .p("setmaxnreg below the minimum", "Malformed", |k| k.role(1).registers = Some(16))
        .p("setmaxnreg in half of a warpgroup", "Malformed", |k| {
            (k.role(0).warps, k.role(1).warps) = ((0, 3), (3, 5));
        })
}

fn filled() -> Of {
    Of::new("a tile that four warps fill", programs::filled)
        .p("no barrier before the product", "Race | Unwritten", |k| k.drop(sync, 0))
        .p("no barrier after the product", "InFlight", |k| k.drop(sync, 1))
        .p("syncwarp instead of syncthreads", "Race | Unwritten", |k| {
            k.becomes(sync, 0, syncwarp());
        })
        .p("syncwarp instead of syncthreads after the product", "InFlight", |k| {
            k.becomes(sync, 1, syncwarp())
        })
        .p("no proxy fence after the writes", "MissingFence", |k| k.drop(fence, 0))
        .p("only one warp executes the proxy fence", "MissingFence", |k| k.only_below(fence, 0, 32))
        .p("only one lane executes the proxy fence", "MissingFence", |k| k.elect(fence, 0, Scope::Warp))
        .p("the proxy fence is before the last write", "MissingFence", |k| k.earlier(fence, 0))
        .p("three warps fill the tile", "Unwritten", |k| k.only_below(store_shared, 0, 96))
        .p("one warp does not multiply", "Deadlock | Divergence | Locked", |k| k.only_below(atom, 0, 96))
        .p("no wait for the product", "InFlight | Locked", |k| k.drop(wait, 0))
        .p("one lane executes the wgmma.fence", "Divergence", |k| k.elect(wgmma_fence, 0, Scope::Warp))
        .p("half of a warp executes the wgmma.fence", "Divergence", |k| k.half_of_a_warp(wgmma_fence, 0))
        .p("one lane commits the product", "Divergence", |k| k.elect(commit, 0, Scope::Warp))
        .p("half of a warp commits the product", "Divergence", |k| k.half_of_a_warp(commit, 0))
        .p("one lane waits for the product", "Divergence", |k| k.elect(wait, 0, Scope::Warp))
        .p("half of a warp waits for the product", "Divergence", |k| k.half_of_a_warp(wait, 0))
        .p("half of a warp multiplies", "Divergence", |k| k.half_of_a_warp(atom, 0))
        .p("half of a warp arrives at the barrier", "Divergence", |k| k.half_of_a_warp(sync, 0))
        .p("no wgmma.fence", "MissingFence", |k| k.drop(wgmma_fence, 0))
        .says(&["a missing fence\n  element 0 of the registers `acc` has been written, and an asynchronous matrix product uses it without a fence in between"])
        .p("the wgmma.fence is after the product", "MissingFence", |k| k.later(wgmma_fence, 0))
        .p("no pin ahead of the wgmma.fence", "MissingFence", |k| k.drop(pin, 0))
        .says(&["element 0 of the registers `acc` is used ahead of the fence of a matrix product that writes it, and compilers may move that behind the fence"])
        .p("the pin is behind the wgmma.fence", "MissingFence", |k| k.later(pin, 0))
        .p("other registers are pinned", "MissingFence", |k| k.becomes(pin, 0, Op::Pin(1)))
        .p("no pin behind the wait", "MissingFence", |k| k.drop(pin, 1))
        .says(&["element 0 of the registers `acc` is read, and compilers may move that ahead of the wait for the matrix product that writes it"])
        .p("the pin is ahead of the wait", "MissingFence", |k| k.earlier(pin, 1))
        .p("launch bounds ask for more threads than a multiprocessor holds", "Malformed", |k| {
            k.launch.blocks_per_sm = 17;
        })
        .says(&["the launch bounds ask for 17 blocks of 128 threads on a multiprocessor, and none has room for them"])
        .p("launch bounds ask for more shared memory than a multiprocessor has", "Malformed", |k| {
            (k.launch.blocks_per_sm, k.launch.shared_bytes) = (2, 120 << 10);
        })
}

fn registers() -> Of {
    fn asks(k: &mut Kernel, nth: usize, registers: Option<u32>) {
        k.role(nth).registers = registers;
    }
    Of::new("roles that exchange registers", programs::registers)
        .p("the producer keeps 48 registers", "Deadlock", |k| asks(k, 1, Some(48)))
        .p("the producer gives no registers back", "Deadlock", |k| asks(k, 1, None))
        .p("consumers ask for 240 registers", "Deadlock", |k| asks(k, 0, Some(240)))
        .p("the producer gives registers back after half of a role", "Divergence", |k| {
            k.half_of_a_warp(|op| matches!(op, Op::Roles(_)), 0)
        })
        .p("two blocks for each multiprocessor", "Deadlock", |k| k.launch.blocks_per_sm = 2)
        .p("no launch bound", "Malformed", |k| k.launch.blocks_per_sm = 0)
}

fn sums_between() -> Of {
    Of::new("products whose sums are read in between", programs::sums_between)
        .p("no wgmma.fence before the first product", "MissingFence", |k| k.drop(wgmma_fence, 0))
        .says(&["no fence precedes the first matrix product, which uses element 0 of the registers `acc`"])
        .p("no wgmma.fence after the sums are read", "MissingFence", |k| k.drop(wgmma_fence, 1))
        .says(&["element 0 of the registers `acc` has been read, and an asynchronous matrix product uses it"])
        .p("the sums are read after the fence", "MissingFence", |k| {
            k.list(store, 4, |_, list, at| {
                let moved = list.remove(at);
                list.insert(at + 2, moved);
            });
        })
        .says(&["element 0 of the registers `acc` has been read, and an asynchronous matrix product uses it"])
        .p("the sums are read after the pin", "MissingFence", |k| {
            k.list(store, 4, |_, list, at| {
                let moved = list.remove(at);
                list.insert(at + 1, moved);
            });
        })
        .says(&["element 0 of the registers `acc` is used ahead of the fence"])
        .p("a product of another shape adds to the sums", "MissingFence", |k| {
            k.drop(wgmma_fence, 1);
            k.drop(store, 4);
            k.op(atom, 1, |_, op| {
                if let Op::Atom { row, args, .. } = op {
                    *row = tilewright_codegen::atoms::find("wgmma_m64n8k8_tf32").expect("a row");
                    args.truncate(row.operands.len());
                }
            });
        })
}

fn groups() -> Of {
    Of::new("two groups with a barrier each", programs::groups)
        .p("one barrier for both groups", "Divergence | Unwritten", |k| k.names(2, 1, 64))
        .p("the barrier of one group for both", "Divergence | Unwritten", |k| k.joins(1, 1))
}

fn counts() -> Of {
    Of::new("blocks that count in global memory", programs::counts)
        .p("updates with the scope of the block", "Race", |k| k.scope_of_updates(Scope::Block))
        .p("updates with the scope of a cluster of one block", "Race", |k| k.scope_of_updates(Scope::Cluster))
        .p("updates with the scope of the block in a cluster of two", "Race", |k| {
            k.launch.cluster = [2, 1, 1];
            k.scope_of_updates(Scope::Block);
        })
}

fn pair() -> Of {
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

fn arrivals() -> Of {
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

fn copies() -> Of {
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

fn stores() -> Of {
    const WAIT: Op = Op::WaitQueue { queue: Queue::BulkRead, pending: 0 };
    Of::new("bulk stores of what threads write", programs::stores)
        .p("no wait until the store has read", "InFlight", |k| k.drop(elect, 1))
        .p("the wait is after the barrier", "InFlight | Race", |k| k.later(elect, 1))
        .p("another thread waits", "InFlight", |k| {
            k.op(elect, 1, |e, op| {
                let thread = e.leaf(tilewright_codegen::index::Int::Thread, 0, 63, 1, Scope::Thread);
                let (one, body) = (e.int(1), vec![Stmt { site: 0, op: WAIT }]);
                let cond = e.eq(thread, one);
                *op = Op::If { cond, then: body, other: vec![] };
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

fn cluster() -> Of {
    Of::new("multicast copies", programs::cluster)
        .p("syncthreads instead of the cluster barrier after mbarrier.init", "Mbarrier", |k| {
            k.becomes(sync, 0, Op::Sync(0))
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

fn multicast() -> Of {
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
            k.becomes(sync, 1, Op::Sync(0));
        })
        .says(EXIT)
        .p("the fence after mbarrier.init is past the barrier", "MissingFence", |k| k.fences_late())
}

fn peers() -> Of {
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
            k.becomes(sync, 0, Op::Sync(0));
        })
        .p("no barrier after the read", "Race", |k| k.drop(sync, 1))
        .says(EXIT)
        .p("the barrier after the read is one of the block", "Race", |k| k.becomes(sync, 1, Op::Sync(0)))
        .p("half of a warp arrives at the cluster's barrier", "Divergence", |k| k.half_of_a_warp(sync, 0))
        .p("a rank beyond the cluster", "OutOfBounds", |k| ranks(k, |e| e.int(4)))
        .p("a rank below the cluster", "OutOfBounds", |k| ranks(k, |e| e.int(-1)))
}

fn sums() -> Of {
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
                let Op::Load { from: place, .. } = &load else { return };
                let store = Op::Store { to: place.clone(), from, guard };
                let site = list[at].site;
                list.splice(at..=at, [load, store].map(|op| Stmt { site, op }));
            });
        })
}

fn lifetimes() -> Of {
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
