//! Asynchronous products, their rings and registers.

use super::*;

pub(super) fn ring() -> Of {
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

pub(super) fn filled() -> Of {
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

pub(super) fn registers() -> Of {
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

pub(super) fn sums_between() -> Of {
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
                    *row = tilewright_codegen::isa::find("wgmma_m64n8k8_tf32").expect("a row");
                    args.truncate(row.operands.len());
                }
            });
        })
}
