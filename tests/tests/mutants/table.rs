//! Every mutant: the kernel, the mutation, and the expected faults.

use tilewright_codegen::Elem;
use tilewright_codegen::index::Int;
use tilewright_codegen::thread::{Kernel, Op, Param, Scope, Space, Stmt, Val};

use crate::cut::*;

/// A mutated kernel.
pub(crate) struct Mutant {
    /// The name of the kernel.
    pub(crate) of: &'static str,
    /// The bug.
    pub(crate) name: &'static str,
    /// The mutation of the thread program.
    pub(crate) change: fn(&mut Kernel),
    /// The expected detection.
    pub(crate) says: Says,
}

/// How a bug is detected.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Says {
    /// By one of these kinds of faults, or by a `wrong result`.
    Shows(&'static str),
    /// It cannot be detected, and why.
    Missed(&'static str),
}

/// Mutants of one kernel.
struct Of(&'static str, Vec<Mutant>);

impl Of {
    fn m(mut self, name: &'static str, says: &'static str, change: fn(&mut Kernel)) -> Of {
        self.1.push(Mutant { of: self.0, name, change, says: Says::Shows(says) });
        self
    }

    fn missed(mut self, name: &'static str, why: &'static str, change: fn(&mut Kernel)) -> Of {
        self.1.push(Mutant { of: self.0, name, change, says: Says::Missed(why) });
        self
    }
}

pub(crate) fn all() -> Vec<Mutant> {
    let all = [
        tutorial(),
        multistage(),
        vectors(),
        sliced_k(),
        mma_sync(),
        wgmma_ring(),
        bulk_epilogue(),
        shared_tile(),
        softmax(),
        two_roles(),
        bulk_stores(),
        exchanges(),
    ];
    all.into_iter().flat_map(|of| of.1).collect()
}

/// One stage; cp.async of single elements; accumulators in registers.
fn tutorial() -> Of {
    Of("tutorial", vec![])
        .m("no barrier before the product", "Race | Unwritten | InFlight", |k| k.drop(sync, 0))
        .m("no barrier after the product", "Race | InFlight", |k| k.drop(sync, 1))
        .m("the first barrier is before the wait", "Race | InFlight", |k| k.earlier(sync, 0))
        .m("the first barrier is after the product", "Race | Unwritten | InFlight", |k| k.later(sync, 0))
        .m("the second barrier is before the product", "Race | InFlight", |k| k.earlier(sync, 1))
        .m("a barrier reached by some threads of a warp", "Divergence | Unwritten | InFlight", |k| {
            k.only_below(sync, 0, 200)
        })
        .m("a barrier reached by half of the warps", "Divergence | Unwritten | InFlight", |k| {
            k.only_below(sync, 0, 128)
        })
        .m("no wait", "InFlight", |k| k.drop(wait, 0))
        .m("the wait leaves a group in flight", "InFlight", |k| k.pending(0, 1))
        .m("no commit", "InFlight", |k| k.drop(commit, 0))
        .m("the commit is after the wait", "InFlight", |k| k.later(commit, 0))
        .m("A's tile is read with an offset of one row", "Unwritten", |k| k.shift(load_shared, 0, 1, 1))
        .m("a copy writes with an offset of one row", "Unwritten | Race | OutOfBounds", |k| {
            k.shift(atom, 0, 0, 1)
        })
        .m("a copy reads with an offset of one row", "OutOfBounds", |k| k.shift(atom, 0, 1, 1))
        .m("strides of a shared tile swapped", "wrong result", |k| k.swap_factors(load_shared, 0, 16, 129))
        .m("A's tile read without its padding", "Unwritten", |k| k.swap_factors(load_shared, 0, 129, 128))
        .m("A's row guard is <=", "OutOfBounds", |k| k.guard_by(atom, 0, Some(0), 1))
        .m("A's K guard is <=", "OutOfBounds", |k| k.guard_by(atom, 0, Some(1), 1))
        .m("B's copy has no guard", "OutOfBounds", |k| k.unguard(atom, 1))
        .m("the result's column guard is <=", "OutOfBounds", |k| k.guard_by(store, 0, Some(1), 1))
        .m("the result has no guard", "OutOfBounds", |k| k.unguard(store, 0))
        .m("the result's row guard is too strict", "NotWritten", |k| k.guard_by(store, 0, Some(0), -1))
        .m("one iteration too few", "wrong result", |k| k.iterations(2, 0, -1))
        .m("the first iteration is skipped", "wrong result", |k| k.iterations(2, 1, 0))
        .missed("one iteration too many", "beyond K, copies fill tiles with zeros", |k| {
            k.iterations(2, 0, 1);
        })
        .m("the last k-step of a tile is skipped", "wrong result", |k| k.iterations(5, 0, -1))
        .m("the product is done twice", "wrong result", |k| k.twice(repeat, 5))
        .m("uninitialised accumulators", "Unwritten", |k| k.drop(repeat, 0))
        .m("no result", "NotWritten", |k| k.drop(repeat, 10))
        .m("a result written twice", "WrittenTwice", |k| k.twice(repeat, 10))
        .m("a column of the result is skipped", "NotWritten", |k| k.iterations(10, 0, -1))
        .m("no copy of B", "Unwritten", |k| k.drop(repeat, 4))
        .m("half of the threads copy A", "Unwritten", |k| k.only_below(repeat, 3, 128))
        .m("B's copy writes into A's tile", "InFlight", |k| k.lands_in(1, 0))
        .m("threads are along the wrong mode of the result", "Race | WrittenTwice | OutOfBounds", |k| {
            k.replace(named(k, "tc_gc_at"), 0, &mut |e, at| match e.get(at).int {
                Int::Mul(x, _) => Some(x),
                _ => None,
            });
        })
}

/// Three stages, fragments double-buffered.
fn multistage() -> Of {
    Of("multistage", vec![])
        .m("no barrier before the first fragments", "Race | Unwritten | InFlight", |k| k.drop(sync, 0))
        .m("no barrier in the loop", "Race | Unwritten | InFlight", |k| k.drop(sync, 1))
        .m("no wait before the first fragments", "InFlight", |k| k.drop(wait, 0))
        .m("no wait in the loop", "InFlight", |k| k.drop(wait, 1))
        .m("the first wait leaves one more group", "InFlight", |k| k.pending(0, 1))
        .m("the loop's wait leaves one more group", "InFlight", |k| k.pending(1, 1))
        .m("the loop's wait is after the barrier", "Race | InFlight", |k| k.later(wait, 1))
        .m("no commit of the first stage", "InFlight", |k| k.drop(commit, 0))
        .m("no commit in the loop", "InFlight", |k| k.drop(commit, 2))
        .m("the next stage's fragment is read before the barrier", "Race | InFlight | Unwritten", |k| {
            k.later(sync, 1);
        })
        .m(
            "copies to a slot of two, reads from one of three",
            "Race | InFlight | Unwritten | wrong result",
            |k| {
                k.remainder(atom, 4, 3, 2);
            },
        )
        .m("two slots where three are needed", "Race | InFlight", |k| {
            for copy in [4, 5] {
                k.remainder(atom, copy, 3, 2);
            }
            // The slots of an iteration's fragments, and of the next one's.
            k.remainders_of_names("_now", 3, 2);
        })
        .m("the prefetched stage is off by one", "wrong result | Race | InFlight", |k| {
            k.shift(named(k, "k_ahead"), 0, 0, -1);
        })
        .m("a fragment overwrites the current one", "Unwritten", |k| k.shift(load_shared, 2, 0, -8))
        .m("a fragment of the next k-step", "InFlight", |k| k.shift(load_shared, 5, 1, 68))
        .m("the last stages are not copied", "wrong result | Unwritten", |k| {
            k.guard_by(condition, 1, None, -1)
        })
        .m("one stage too many is copied", "OutOfBounds", |k| k.guard_by(condition, 1, None, 1))
        .m("no second stage before the loop", "wrong result | Unwritten", |k| k.drop(condition, 0))
        .m("the barrier is only where a stage is copied", "Race | Unwritten | InFlight", |k| {
            // Moves it into the condition's branch, after the copies.
            let moved = std::cell::Cell::new(None);
            k.list(sync, 1, |_, list, at| moved.set(Some(list.remove(at))));
            k.op(condition, 1, |_, op| {
                if let (Op::If { then, .. }, Some(sync)) = (op, moved.take()) {
                    then.push(sync);
                }
            });
        })
}

/// The same with vectorised copies, for sizes that tiles divide.
fn vectors() -> Of {
    Of("multistage, vectorised", vec![])
        .m("a vector load from shared memory is off by one element", "Misaligned", |k| {
            k.shift(load_shared, 0, 1, 1)
        })
        .m("a copy of 16 bytes reads off by one element", "Misaligned", |k| k.shift(atom, 0, 1, 1))
        .m("a copy of 16 bytes writes off by two elements", "Misaligned", |k| k.shift(atom, 1, 0, 2))
        .m("a vector store of the result is off by two elements", "Misaligned", |k| k.shift(store, 0, 1, 2))
        .m("the second stage is copied out of bounds", "OutOfBounds", |k| k.always(0))
        .m("one stage too many is copied", "OutOfBounds", |k| k.guard_by(condition, 1, None, 1))
        .m("the last iteration reads a stage that is not copied", "Unwritten", |k| {
            k.replace(named(k, "k_next"), 0, &mut |e, at| match e.get(at).int {
                Int::Min(next, _) => Some(next),
                _ => None,
            });
        })
        .m("no barrier in the loop", "Race | Unwritten | InFlight", |k| k.drop(sync, 1))
        .m("the loop's wait leaves one more group", "InFlight", |k| k.pending(1, 1))
}

/// Sliced K: four groups of threads split each k-tile, and their sums are reduced through shared memory.
fn sliced_k() -> Of {
    Of("sliced K", vec![])
        .m("no barrier before the product", "Race | Unwritten | InFlight", |k| k.drop(sync, 0))
        .m("no barrier after the product", "Race | InFlight", |k| k.drop(sync, 1))
        .m("no barrier before the reduction of the groups", "Race | Unwritten", |k| k.drop(sync, 2))
        .m("the barrier is before the partial sums' writes", "Race | Unwritten", |k| k.earlier(sync, 2))
        .m("the barrier is after the first partial sum's read", "Race | Unwritten", |k| k.later(sync, 2))
        .m("groups write their partial sums to the same addresses", "Race", |k| {
            k.swap_factors(named(k, "tc_parts_at"), 0, 1152, 0)
        })
        .m("the first partial sum is added twice, the second not", "wrong result", |k| {
            k.shift(load_shared, 3, 1, -1152)
        })
        .m("the last partial sum is not added", "Unwritten", |k| k.drop(load_shared, 5))
        .m("all groups multiply the same k-steps", "wrong result", |k| {
            k.swap_factors(named(k, "tc_sa_at"), 0, 33, 0)
        })
        .m("strides of a partial sum swapped", "wrong result", |k| k.swap_factors(store_shared, 0, 8, 288))
        .m("a group writes no partial sum", "Unwritten", |k| k.only_below(repeat, 8, 192))
        .m("half of the threads write the result", "NotWritten", |k| k.only_below(repeat, 11, 128))
        .m("partial sums are read off by one element", "Unwritten", |k| k.shift(load_shared, 2, 1, 1))
        .m("the result's row guard is <=", "OutOfBounds", |k| k.guard_by(store, 1, Some(0), 1))
}

/// A two-stage cp.async pipeline, ldmatrix, mma.sync.
fn mma_sync() -> Of {
    Of("mma_sync", vec![])
        .m("no barrier before ldmatrix", "Race | Unwritten | InFlight", |k| k.drop(sync, 0))
        .m("no barrier after the product", "Race | InFlight", |k| k.drop(sync, 1))
        .m("the second barrier is before the product", "Race | InFlight", |k| {
            // Before the product and both ldmatrix.
            for _ in 0..3 {
                k.earlier(sync, 1);
            }
        })
        .m("no wait", "InFlight", |k| k.drop(wait, 0))
        .m("the wait leaves one more group", "InFlight", |k| k.pending(0, 1))
        .m("no commit in the loop", "InFlight", |k| k.drop(commit, 1))
        .m("the prefetched stage overwrites the slot that is read", "Race | InFlight", |k| {
            k.remainder(atom, 2, 2, 1)
        })
        .m("ldmatrix always reads the same slot", "Race | InFlight | wrong result", |k| {
            k.remainder(atom, 4, 2, 1)
        })
        .m("ldmatrix without the swizzle", "wrong result", |k| {
            k.replace(atom, 4, &mut |e, at| match e.get(at).int {
                Int::Xor(plain, _) => Some(plain),
                _ => None,
            });
        })
        .m("strides of ldmatrix swapped", "wrong result | OutOfBounds | Misaligned", |k| {
            k.swap_factors(named(k, "rows_a_at"), 0, 32, 512);
        })
        .m("ldmatrix is off by one element", "Misaligned", |k| k.shift(atom, 4, 1, 1))
        .m("mma.sync by some lanes of a warp", "Divergence | Malformed", |k| k.only_below(atom, 6, 112))
        .m("a warp does not multiply", "wrong result", |k| k.only_below(atom, 6, 96))
        .m("the K guard is off by one vector", "OutOfBounds", |k| k.guard_by(atom, 2, None, 8))
        .m("uninitialised accumulators", "Unwritten", |k| k.drop(repeat, 0))
        .m("one iteration too few", "wrong result", |k| k.iterations(5, 0, -1))
}

/// Warp specialisation, mbarriers, bulk copies, wgmma.
fn wgmma_ring() -> Of {
    Of("wgmma_ring", vec![])
        .m("no barrier after the initialisation", "Mbarrier | Race", |k| k.drop(sync, 0))
        .m("the initialisation is after the barrier", "Mbarrier | Race", |k| {
            k.earlier(sync, 0);
            k.earlier(sync, 0);
        })
        .m("no fence after the initialisation", "MissingFence | Mbarrier", |k| k.drop(fence, 0))
        .m("an array of mbarriers is not initialised", "Mbarrier", |k| k.drop(init, 1))
        .m("consumers do not wait for the copies", "InFlight | Race | MissingFence | Unwritten", |k| {
            k.drop(awaits, 0)
        })
        .m("consumers wait for the previous iteration", "InFlight | Race | Mbarrier | Unwritten", |k| {
            k.shift(awaits, 0, 1, -1)
        })
        .m("consumers wait for the next iteration", "Deadlock | Mbarrier", |k| k.shift(awaits, 0, 1, 1))
        .m("the producer does not wait for a free slot", "Race | Mbarrier | InFlight", |k| k.drop(awaits, 1))
        .m("the producer waits one iteration too early", "Race | Mbarrier | InFlight", |k| {
            k.shift(awaits, 1, 1, -1)
        })
        .m("the producer waits one iteration too late", "Deadlock | Mbarrier", |k| k.shift(awaits, 1, 1, 1))
        .m("no slot is released", "Deadlock", |k| k.drop(elect, 1))
        .m("one arrival for a warpgroup where warps are counted", "Deadlock", |k| {
            k.elects(1, Scope::Warpgroup)
        })
        .m("every thread releases", "Mbarrier", |k| k.unelect(1))
        .m("a slot is released before the product is waited for", "InFlight", |k| {
            // Before the syncwarp, the pin, and the wait.
            for _ in 0..3 {
                k.earlier(elect, 1);
            }
        })
        .m("a slot is released before the product", "InFlight", |k| {
            for _ in 0..5 {
                k.earlier(elect, 1);
            }
        })
        .m("the same slot is always released", "Deadlock | Mbarrier", |k| k.remainder(arrive, 0, 2, 1))
        .m("three warps free a slot", "InFlight | Mbarrier", |k| k.arrivals(2, 3))
        .m("five warps must free a slot", "Deadlock", |k| k.arrivals(2, 5))
        .m("two producers must arrive", "Deadlock", |k| k.arrivals(1, 2))
        .m("half of the bytes are expected", "Mbarrier | InFlight | Race", |k| k.announces(0, Some(8192)))
        .m("twice the bytes are expected", "Deadlock | Mbarrier", |k| k.announces(0, Some(32768)))
        .m("no bytes are expected", "Mbarrier | InFlight | Race", |k| k.announces(0, None))
        .m("no arrive.expect_tx", "Deadlock | Mbarrier", |k| k.drop(arrive, 1))
        .m("every lane executes arrive.expect_tx", "Mbarrier", |k| k.unelect_part(2, 0..1))
        .m("every lane copies", "InFlight | Mbarrier", |k| k.unelect_part(2, 1..usize::MAX))
        .m("no copy of B", "Deadlock", |k| k.drop(atom, 2))
        .m("copies write into the same slot", "Race | InFlight | MissingFence | Unwritten", |k| {
            k.remainder(atom, 1, 2, 1)
        })
        .m("a box is off by one column", "Misaligned", |k| k.shift(atom, 1, 1, 1))
        .m("a box is off by eight columns", "wrong result", |k| k.shift(atom, 1, 1, 8))
        .m("a box is off by one row", "wrong result", |k| k.shift(atom, 2, 2, 1))
        // In 32 bits it is the same coordinate.
        .m("a coordinate that 32 bits do not hold", "Malformed", |k| k.shift(atom, 1, 1, 1 << 32))
        .m("a tensor map with another swizzle", "wrong result | Malformed", |k| {
            for param in &mut k.params {
                if let Param::TensorMap { swizzle, .. } = param {
                    *swizzle = 0;
                }
            }
        })
        .m("a descriptor with another stride", "wrong result", |k| k.describes(0, |stride, _| *stride = 512))
        .m("a descriptor with another swizzle", "wrong result", |k| k.describes(0, |_, mode| *mode = 2))
        .m("products read the same slot", "InFlight | Race | wrong result | MissingFence", |k| {
            k.remainder(atom, 0, 2, 1)
        })
        .m("products reset the accumulator every time", "wrong result", |k| k.shift(atom, 0, 3, -1))
        .m("a product of three warps", "Divergence | Deadlock | Malformed", |k| k.only_below(repeat, 2, 96))
        .m("no fence before the products", "MissingFence", |k| k.drop(fence, 1))
        .m("no commit of the products", "InFlight | Locked", |k| k.drop(commit, 0))
        .m("no wait for the products", "InFlight | Locked", |k| k.drop(wait, 0))
        .m("accumulators are written while a product is in flight", "Locked", |k| {
            k.list(wait, 0, |e, list, at| {
                let (site, value) = (list[at].site, Val::lit(0.0, Elem::F32));
                list.insert(at, Stmt { site, op: Op::Assign { reg: 0, at: e.int(0), value } });
            });
        })
        .m("the wait leaves a product in flight", "InFlight | Locked", |k| k.pending(0, 1))
        .m("uninitialised accumulators", "Unwritten", |k| k.drop(repeat, 0))
        .m("consumers take one iteration too few", "wrong result | Race | InFlight", |k| {
            k.iterations(1, 0, -1)
        })
        .m("consumers take one iteration too many", "Deadlock", |k| k.iterations(1, 0, 1))
        .m("the producer takes one iteration too few", "Deadlock", |k| k.iterations(6, 0, -1))
        .m("the producer takes one iteration too many", "Race | InFlight", |k| k.iterations(6, 0, 1))
        .m("the result's row guard is <=", "OutOfBounds", |k| k.guard_by(store, 0, Some(0), 1))
}

/// One element of C per thread.
fn shared_tile() -> Of {
    Of("shared_tile", vec![])
        .m("no barrier before the product", "Race | Unwritten | InFlight", |k| k.drop(sync, 0))
        .m("no barrier after the product", "Race | InFlight", |k| k.drop(sync, 1))
        .m("the wait is after the barrier", "Race | InFlight", |k| k.later(wait, 0))
        .m("no commit", "InFlight", |k| k.drop(commit, 0))
        .m("B's tile is read along rows", "wrong result", |k| k.swap_factors(load_shared, 1, 32, 1))
        .m("A's tile is read with an offset of one row", "OutOfBounds", |k| k.shift(load_shared, 0, 1, 32))
        .m("A's K guard is <=", "OutOfBounds", |k| k.guard_by(atom, 0, Some(1), 1))
        .m("the result has no guard", "OutOfBounds", |k| k.unguard(store, 0))
        .m("an uninitialised accumulator", "Unwritten", |k| k.drop(assign, 0))
        .m("one k-step too many", "OutOfBounds", |k| k.iterations(1, 0, 1))
        .m("the trip count rounds K down to whole tiles", "wrong result", |k| {
            k.replace(repeat, 0, &mut |e, at| match e.get(at).int {
                Int::Add(extent, _) => Some(extent),
                _ => None,
            });
        })
}

/// Reductions over a block, by shuffles and through shared memory.
fn softmax() -> Of {
    Of("softmax", vec![])
        .m("no barrier in the maximum", "Race | Unwritten", |k| k.drop(sync, 0))
        .m("no barrier in the sum", "Race | Unwritten", |k| k.drop(sync, 1))
        .m("the barrier is before the warps' partial sums", "Race | Unwritten", |k| k.earlier(sync, 1))
        .m("both reductions use the same array", "Race", |k| {
            let swap = |op: &mut Op| {
                if let Op::Load { from: mem, .. } | Op::Store { to: mem, .. } = op {
                    mem.space = Space::Shared(0);
                }
            };
            k.op(store_shared, 1, |_, op| swap(op));
            k.op(load_shared, 2, |_, op| swap(op));
            k.op(load_shared, 3, |_, op| swap(op));
        })
        .m("every lane writes its warp's sum", "Race", |k| k.always(1))
        .m("no lane writes its warp's maximum", "Unwritten", |k| k.drop(condition, 0))
        .m("one warp's sum is skipped", "wrong result", |k| k.iterations(10, 0, -1))
        .missed("one warp's maximum is skipped", "any number near it gives the same quotient", |k| {
            k.iterations(4, 0, -1)
        })
        .m("one warp's sum too many", "OutOfBounds", |k| k.iterations(10, 0, 1))
        .m("a shuffle is skipped", "wrong result", |k| k.drop(assign, 24))
        .m("a shuffle by half of a warp", "Divergence | Malformed", |k| k.only_below(assign, 24, 16))
        .m("elements beyond the row are summed", "wrong result", |k| k.unmask(18))
        .m("a read's guard is <=", "OutOfBounds", |k| k.guard_by(load, 0, None, 1))
        .m("the result's guard is <=", "OutOfBounds", |k| k.guard_by(store, 2, None, 1))
        .m("the result's guard is too strict", "NotWritten", |k| k.guard_by(store, 2, None, -1))
}

/// Two roles, each with its own named barrier.
fn two_roles() -> Of {
    Of("two roles", vec![])
        .m("one role skips its barrier", "Race | Unwritten | InFlight", |k| k.drop(sync, 0))
        .m("the other role skips its barrier", "Race | Unwritten | InFlight", |k| k.drop(sync, 1))
        .m(
            "a role uses the other role's barrier",
            "Race | Unwritten | InFlight | Deadlock | Divergence",
            |k| k.joins(0, 2),
        )
        .m("a role uses the block's barrier", "Divergence", |k| k.joins(0, 0))
        .m("a barrier of twice as many threads", "Divergence", |k| k.arrivals(1, 128))
        .m("a barrier of half as many threads", "Race | Unwritten | InFlight | Divergence", |k| {
            k.arrivals(1, 32)
        })
        .m("only one warp of a role reaches its barrier", "InFlight | Unwritten | Divergence", |k| {
            k.only_below(sync, 0, 32)
        })
        .m("no wait in a role", "InFlight", |k| k.drop(wait, 1))
        .m("both roles write into the same array", "Race | Unwritten | InFlight", |k| k.lands_in(1, 0))
        .m("a tile read without its padding", "Unwritten | wrong result", |k| {
            k.swap_factors(nth_named(k, "upper_half_at", 1), 0, 17, 16);
        })
        .m("a role of one warp", "Divergence | InFlight", |k| {
            let Op::Roles(roles) = &mut k.body.last_mut().expect("roles").op else {
                panic!("roles come last")
            };
            roles[1].warps = (2, 3);
        })
        .m("both roles write the same half", "Race | WrittenTwice | Claim", |k| {
            k.shift(nth_named(k, "y_1", 1), 0, 0, -16);
        })
}

/// An epilogue through shared memory with bulk stores, in four parts through two buffers.
fn bulk_epilogue() -> Of {
    Of("bulk epilogue", vec![])
        .m("no fence before the bulk store", "MissingFence", |k| k.drop(proxy_fence, 0))
        .m("the fence is before the writes", "MissingFence", |k| k.earlier(proxy_fence, 0))
        .m("no barrier between the writes and the store", "Race | Unwritten | MissingFence", |k| {
            k.drop(sync, 2)
        })
        .m("no barrier between the wait and the writes", "Race | InFlight", |k| k.drop(sync, 1))
        .m("no wait until the store has read", "Race | InFlight", |k| k.drop(wait, 2))
        .m("the wait leaves one more store in flight", "Race | InFlight", |k| k.pending(2, 1))
        .m("the block exits while a store reads", "InFlight", |k| k.drop(wait, 3))
        .m("no commit", "Race | InFlight", |k| k.drop(commit, 1))
        .m(
            "one thread of each warp stores the warpgroup's part",
            "WrittenTwice | NotWritten | Race | InFlight",
            |k| k.elects(5, Scope::Warp),
        )
}

/// Ordinary stores to shared memory, then a bulk store.
fn bulk_stores() -> Of {
    Of("bulk stores", vec![])
        .m("no fence before the bulk store", "MissingFence", |k| k.drop(fence, 0))
        .m("no barrier before the bulk store", "Race | Unwritten | MissingFence", |k| k.drop(sync, 0))
        .m("no barrier after the bulk store", "Race | InFlight", |k| k.drop(sync, 1))
        .m("the fence is before the writes", "MissingFence", |k| k.earlier(fence, 0))
        .m("no wait until the store has read", "Race | InFlight", |k| k.drop(wait, 0))
        .m("the wait leaves a store in flight", "Race | InFlight", |k| k.pending(0, 1))
        .m("no commit", "Race | InFlight", |k| k.drop(commit, 0))
        .missed(
            "no wait for the last store",
            "it has read shared memory already, and its writes complete before the kernel ends",
            |k| k.drop(wait, 1),
        )
        .m("every thread issues the bulk store", "WrittenTwice | InFlight", |k| k.unelect(0))
        .m("one thread of each warp issues the bulk store", "WrittenTwice | InFlight", |k| {
            k.elects(0, Scope::Warp)
        })
        .m("half of the bytes are stored", "NotWritten", |k| k.shift(atom, 0, 2, -512))
        .m("twice the bytes are stored", "OutOfBounds", |k| k.shift(atom, 0, 2, 1024))
        .m("a bulk store reads off by one element", "Misaligned | OutOfBounds", |k| k.shift(atom, 0, 1, 1))
        .m("a write is off by one element", "OutOfBounds", |k| k.shift(store, 0, 1, 1))
}

/// Exchanges between the blocks of a cluster: two slots alternately, with an mbarrier each.
fn exchanges() -> Of {
    const WRONG: &str = "InFlight | Race | Unwritten | Mbarrier | Deadlock | wrong result";
    Of("exchanges", vec![])
        .m("no fence after the initialisation", "MissingFence | Mbarrier", |k| k.drop(fence, 0))
        .m("the mbarriers are not initialised", "Mbarrier", |k| k.drop(init, 0))
        .m("blocks do not meet before the first exchange", "Mbarrier", |k| k.drop(sync, 0))
        .m("no barrier before a result is sent", WRONG, |k| k.drop(sync, 6))
        .m("a result is not waited for", WRONG, |k| k.drop(awaits, 0))
        .m("the second one is not waited for", WRONG, |k| k.drop(awaits, 1))
        .m("a wait for the phase before", WRONG, |k| k.shift(awaits, 0, 1, -1))
        .m("a wait for the next phase", "Deadlock | Mbarrier", |k| k.shift(awaits, 0, 1, 1))
        .m("a wait for the other slot", WRONG, |k| {
            k.replace(awaits, 1, &mut |e, at| match e.get(at).int {
                Int::Var(_) => {
                    let one = e.int(1);
                    Some(e.sub(one, at))
                }
                _ => None,
            })
        })
        .m("all exchanges use one slot", WRONG, |k| k.remainders_of_names("exchange_slot", 2, 1))
        .m("too few bytes are expected", WRONG, |k| k.announces(0, Some(12)))
        .m("too many bytes are expected", "Deadlock | Mbarrier", |k| k.announces(0, Some(20)))
        .m("no bytes are expected", WRONG, |k| k.announces(0, None))
        .m("nobody expects bytes", "Deadlock | Mbarrier", |k| k.drop(arrive, 0))
        .m("every thread expects bytes", "Mbarrier", |k| k.unelect(1))
        .m("a phase takes two arrivals", "Deadlock | Mbarrier", |k| k.arrivals(1, 2))
        .m(
            "a result is sent to the next place",
            "OutOfBounds | InFlight | Race | Unwritten | wrong result",
            |k| k.shift(atom, 0, 0, 1),
        )
        .m("a result is not sent to the last block", "Deadlock", |k| {
            k.replace(condition_of_send, 0, &mut |e, at| {
                let Int::Lt(x, _) = e.get(at).int else { return None };
                let three = e.int(3);
                Some(e.lt(x, three))
            })
        })
        .m("results are sent to one block too many", "OutOfBounds", |k| {
            k.replace(condition_of_send, 0, &mut |e, at| {
                let Int::Lt(x, _) = e.get(at).int else { return None };
                let five = e.int(5);
                Some(e.lt(x, five))
            })
        })
        .m("a result is sent twice", WRONG, |k| k.twice(atom, 0))
        .m("exchanges are not counted", WRONG, |k| {
            k.drop(|op| matches!(op, Op::Set(..)), 0);
        })
        .m(
            "a block ends before the last results arrive",
            "InFlight | Race | Unwritten | Mbarrier | Deadlock | OutOfBounds",
            |k| k.drop(awaits, 2),
        )
}

/// The condition under which results are sent.
fn condition_of_send(op: &Op) -> bool {
    matches!(op, Op::If { then, .. } if then.iter().any(|stmt| matches!(&stmt.op, Op::Atom { row, .. } if row.name.starts_with("st_async"))))
}
