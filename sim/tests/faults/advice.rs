//! Help of faults: the missing synchronisation, and not what is already present.

use super::common::*;
use tilewright_codegen::Elem::F32;
use tilewright_codegen::thread::*;
use tilewright_sim::{Arg, FaultKind, Options, run_program};

#[track_caller]
fn advises(kernel: &Kernel, args: &[Arg], kind: FaultKind, help: &str) {
    for seed in 0..20 {
        let error = run_program(kernel, args, &Options { seed, ..options() }).expect_err("a fault");
        let reported = error.fault().expect("a fault").clone();
        assert_eq!(reported.kind(), kind, "{reported}");
        assert_eq!(reported.help(), help, "{reported}");
    }
}

/// Synchronisation between a bulk store and the next write of its array.
#[derive(Clone, Copy, PartialEq)]
enum Between {
    /// The storing thread waits, then a barrier.
    WaitAndBarrier,
    /// A barrier, and no wait.
    Barrier,
    /// The storing thread waits, and no barrier.
    Wait,
    /// A barrier, then the storing thread waits.
    BarrierAndWait,
}

/// A tile is stored in bulk and written again, by the storing thread alone or by all.
fn stored(threads: u32, between: Between, alone: bool) -> Kernel {
    let mut b = Build::new(threads);
    let to = b.tensor("to", F32, true);
    let tile = b.shared("tile", F32, threads, "");
    let (x, t, zero, size) = (b.reg("x", F32, 1), b.thread(), b.int(0), b.int(i64::from(threads) * 4));
    let mut body = b.fill(x, 1, 1.0, F32);
    body.extend([b.store(tile, t, x, 1), b.s(Op::Fence(Fence::ProxyAsync)), b.sync()]);
    let args = vec![AtomArg::At(mem(to, zero)), AtomArg::At(mem(tile, zero)), AtomArg::Int(size)];
    let store = vec![b.atom("bulk_store", args), b.s(Op::Commit(Queue::Bulk))];
    let wait = |b: &mut Build| {
        let wait = b.s(Op::WaitQueue { queue: Queue::BulkRead, pending: 0 });
        b.one(Scope::Block, vec![wait])
    };
    body.push(b.one(Scope::Block, store));
    if matches!(between, Between::Barrier | Between::BarrierAndWait) {
        body.push(b.sync());
    }
    if between != Between::Barrier {
        body.push(wait(&mut b));
    }
    if between == Between::WaitAndBarrier {
        body.push(b.sync());
    }
    let some = b.lt(t, if alone { 1 } else { i64::from(threads) });
    let again = b.store(tile, t, x, 1);
    body.push(b.if_(some, vec![again]));
    body.push(wait(&mut b));
    b.done(body)
}

#[test]
fn a_write_while_a_bulk_store_reads() {
    let args = [Arg::output::<f32>([64])];
    fine(&stored(64, Between::WaitAndBarrier, false), &args);
    fine(&stored(64, Between::Wait, true), &args);
    advises(
        &stored(64, Between::Barrier, true),
        &args,
        FaultKind::InFlight,
        "wait until the copy engine has read the source (cp.async.bulk.wait_group.read) before writing it again",
    );
    advises(
        &stored(64, Between::BarrierAndWait, false),
        &args,
        FaultKind::InFlight,
        "move the barrier after the wait: the storing thread waits until the copy engine has read the source (cp.async.bulk.wait_group.read), and then all threads synchronise, sync_threads()",
    );
    advises(
        &stored(32, Between::Wait, false),
        &[Arg::output::<f32>([32])],
        FaultKind::InFlight,
        "put a barrier, sync_threads(), after the wait for the store",
    );
    let reported = fault(&stored(64, Between::Barrier, true), &args);
    assert_eq!(reported.message(), "element 0 of `tile` is written while a bulk store may still read it");
    assert_eq!(
        reported.parties().iter().map(|party| (&party.threads[..], &*party.doing)).collect::<Vec<_>>(),
        [
            (&[0][..], "writes element 0 of `tile`"),
            (&[0][..], "reads it by a bulk store, and has not waited for it")
        ]
    );
}

/// Each thread copies an element and reads its neighbour's, with this synchronisation in between.
fn copied(threads: u32, between: impl FnOnce(&mut Build) -> Vec<Stmt>) -> Kernel {
    let mut b = Build::new(threads);
    let (from, to) = (b.tensor("from", F32, false), b.tensor("to", F32, true));
    let s = b.shared("s", F32, threads, "");
    let (x, t) = (b.reg("x", F32, 1), b.thread());
    let other = b.sum(&[(t, -1)], i64::from(threads) - 1);
    let mut body = vec![
        b.atom("cp_async_4", vec![AtomArg::At(mem(s, t)), AtomArg::At(mem(from, t))]),
        b.s(Op::Commit(Queue::CpAsync)),
    ];
    body.extend(between(&mut b));
    body.extend([b.load(x, s, other, 1), b.store(to, t, x, 1)]);
    b.done(body)
}

#[test]
fn a_wait_after_the_barrier() {
    let args = [Arg::tensor(&count(64), [64]), Arg::output::<f32>([64])];
    let wait = |b: &mut Build| b.s(Op::WaitQueue { queue: Queue::CpAsync, pending: 0 });
    fine(&copied(64, |b| vec![wait(b), b.sync()]), &args);
    advises(
        &copied(64, |b| vec![b.sync(), wait(b)]),
        &args,
        FaultKind::InFlight,
        "swap the barrier and the wait: each thread waits for its own copies first, cp_async_wait_all(), and then all threads synchronise, sync_threads()",
    );
    advises(
        &copied(64, |b| vec![b.sync()]),
        &args,
        FaultKind::InFlight,
        "wait for the copy, then synchronise the threads, before the tile is used: cp_async_wait_all(), sync_threads()",
    );
    advises(
        &copied(32, |b| vec![wait(b)]),
        &[Arg::tensor(&count(32), [32]), Arg::output::<f32>([32])],
        FaultKind::InFlight,
        "put a barrier after the wait: sync_threads() after cp_async_wait_all()",
    );
}

/// Blocks of a cluster read each other's shared memory and arrive at each other's mbarriers.
fn peers(peer_of: impl Fn(&mut Build) -> tilewright_codegen::index::Ix, arrives: bool) -> Kernel {
    let mut b = Build::new(32).cluster(2);
    let to = b.tensor("to", F32, true);
    let own = b.shared("own", F32, 32, "");
    let (bar, all, zero) = (b.mbarriers("ready", 1, 1), b.bar(Bar::Cluster), b.int(0));
    let (x, t, rank) = (b.reg("x", F32, 1), b.thread(), b.rank());
    let peer = peer_of(&mut b);
    let mut body = [b.start(&[bar]), b.fill(x, 1, 1.0, F32)].concat();
    body.extend([b.store(own, t, x, 1), b.s(Op::sync(all))]);
    if arrives {
        let arrive = b.s(Op::Arrive { bar, slot: zero, peer: Some(peer), bytes: None });
        body.extend([b.one(Scope::Block, vec![arrive]), b.s(Op::Await { bar, slot: zero, phase: zero })]);
    } else {
        body.push(b.s(load_op(frag(x, zero, 1), Mem { space: own, index: t, peer: Some(peer) }, None, 0.0)));
    }
    let out = b.sum(&[(rank, 32), (t, 1)], 0);
    body.extend([b.store(to, out, x, 1), b.s(Op::sync(all))]);
    b.done(body)
}

#[test]
fn a_peer_that_does_not_exist() {
    let args = [Arg::output::<f32>([64])];
    let other = |b: &mut Build| {
        let rank = b.rank();
        b.sum(&[(rank, -1)], 1)
    };
    let next = |b: &mut Build| {
        let rank = b.rank();
        b.sum(&[(rank, 1)], 1)
    };
    let help = "a cluster of 2 blocks has the ranks 0 to 1: take the peer's rank modulo 2, or launch larger clusters";
    for arrives in [false, true] {
        fine(&peers(other, arrives), &args);
        let reported = fault(&peers(next, arrives), &args);
        assert_eq!(reported.kind(), FaultKind::OutOfBounds, "{reported}");
        assert_eq!(reported.message(), "there is no block 2 in a cluster of 2", "{reported}");
        assert_eq!(reported.help(), help, "{reported}");
    }
}
