//! Every kind of fault, with its text; and beside each the same program without it.

mod common;

use common::*;
use tilewright_codegen::Elem::{Bf16, F32};
use tilewright_codegen::index::Int;
use tilewright_codegen::thread::*;
use tilewright_sim::{Arg, FaultKind, Options, run_program};

/// Each thread copies an element, from `from` to `to`.
fn copy(shift: i64) -> Kernel {
    let mut b = Build::new(32);
    let (from, to) = (b.tensor("from", F32, false), b.tensor("to", F32, true));
    let x = b.reg("x", F32, 1);
    let t = b.thread();
    let at = b.sum(&[(t, 1)], shift);
    let body = vec![b.load(x, from, at, 1), b.store(to, t, x, 1)];
    b.done(body)
}

#[test]
fn beyond_a_tensor() {
    fine(&copy(0), &[Arg::tensor(&count(32), [32]), Arg::output::<f32>([32])]);
    check(
        &copy(2),
        &[Arg::tensor(&count(32), [32]), Arg::output::<f32>([32])],
        "
kernel `probe`: an access out of bounds
  element 32 of `from` does not exist: the tensor is (32) with strides (1)
  threads 30, 31 of block (0, 0, 0) read beyond `from`
    at probe.rs:1
help: check the layouts and tiles that this index is made of, and which guard it has
seen in variant 1, with seed 0",
    );
}

#[test]
fn between_columns() {
    let mut b = Build::new(32);
    let shape = vec![tilewright_layout::Value::Int(3), tilewright_layout::Value::Int(4)];
    let stride = vec![tilewright_layout::Value::Int(1), tilewright_layout::Value::Int(8)];
    let from = b.matrix("from", F32, false, shape, stride);
    let to = b.tensor("to", F32, true);
    let x = b.reg("x", F32, 1);
    let (t, three) = (b.thread(), b.int(3));
    let inside = b.e().lt(t, three);
    let body = vec![b.load(x, from, t, 1), b.store(to, t, x, 1)];
    let body = vec![b.if_(inside, body)];
    let good = b.done(body);
    let args = [Arg::tensor(&count(27), [3, 4]).strides([1, 8]), Arg::output::<f32>([3])];
    fine(&good, &args);
    let mut bad = good.clone();
    let four = bad.exprs.int(4);
    let thread = bad.exprs.leaf(tilewright_codegen::index::Int::Thread, 0, 31, 1, Scope::Thread);
    bad.body[0].op = match bad.body[0].op.clone() {
        Op::If { then, other, .. } => Op::If { cond: bad.exprs.lt(thread, four), then, other },
        op => op,
    };
    let text = fault(&bad, &args).to_string();
    assert!(
        text.contains(
            "element 3 of `from` does not exist: the tensor is (3, 4) with strides (1, 8); it lies between"
        ),
        "{text}"
    );
}

#[test]
fn beyond_shared_memory_and_registers() {
    let mut b = Build::new(32);
    let s = b.shared("s", F32, 31, "");
    let x = b.reg("x", F32, 1);
    let t = b.thread();
    let body = [b.fill(x, 1, 1.0, F32), vec![b.store(s, t, x, 1)]].concat();
    check(
        &b.done(body),
        &[],
        "
kernel `probe`: an access out of bounds
  element 31 of `s` does not exist: the array in shared memory has 31 elements
  thread 31 of block (0, 0, 0) writes beyond `s`
    at probe.rs:2
help: check the layouts and tiles that this index is made of, and which guard it has
seen in variant 1, with seed 0",
    );
    let mut b = Build::new(32);
    let x = b.reg("x", F32, 4);
    let body = vec![b.set(x, 4, Val::Lit(0.0, F32))];
    check(
        &b.done(body),
        &[],
        "
kernel `probe`: a program that cannot run
  elements 4 to 4 of the registers `x`, which are 4, at probe.rs:1
seen in variant 1, with seed 0",
    );
}

#[test]
fn misaligned() {
    let mut b = Build::new(32);
    let (from, to) = (b.tensor("from", F32, false), b.tensor("to", F32, true));
    let x = b.reg("x", F32, 4);
    let t = b.thread();
    let (source, target) = (b.sum(&[(t, 4)], 2), b.sum(&[(t, 4)], 0));
    let body = vec![b.load(x, from, source, 4), b.store(to, target, x, 4)];
    check(
        &b.done(body),
        &[Arg::tensor(&count(130), [130]), Arg::output::<f32>([128])],
        "
kernel `probe`: a misaligned access
  an access of 16 bytes begins 8 bytes past a multiple of 16
  thread 0 of block (0, 0, 0) reads 16 bytes at once from element 2 of `from` on
    at probe.rs:1
help: use a layout whose strides are multiples of the vector, or narrower vectors
seen in variant 1, with seed 0",
    );
}

/// Thread `t` writes `s[t]`, then reads `s[t + 1]`, with what stands between.
fn neighbours(threads: u32, between: impl FnOnce(&mut Build) -> Vec<Stmt>) -> Kernel {
    let mut b = Build::new(threads);
    let to = b.tensor("to", F32, true);
    let s =
        b.shared("s", F32, threads, &format!("8x{}, (8,{}):({},1)", threads / 8, threads / 8, threads / 8));
    let x = b.reg("x", F32, 1);
    let (t, n) = (b.thread(), i64::from(threads));
    let next = b.sum(&[(t, 1)], 1);
    let next = b.e().rem(next, n);
    let mut body = b.fill(x, 1, 1.0, F32);
    body.push(b.store(s, t, x, 1));
    body.extend(between(&mut b));
    body.extend([b.load(x, s, next, 1), b.store(to, t, x, 1)]);
    b.done(body)
}

#[test]
fn races_in_shared_memory() {
    let args = [Arg::output::<f32>([64])];
    fine(&neighbours(64, |b| vec![b.sync()]), &args);
    let racing = fault(&neighbours(64, |_| vec![]), &args);
    // The other warp may not have come so far: then nobody has written it yet.
    assert!(matches!(racing.kind(), FaultKind::Race | FaultKind::Unwritten), "{racing}");
    // A barrier of one warp alone orders its lanes, and no others.
    let warp = neighbours(64, |b| vec![b.s(Op::Fence(Fence::Threads(Scope::Warp)))]);
    let kind = fault(&warp, &args).kind();
    assert!(matches!(kind, FaultKind::Race | FaultKind::Unwritten));
    fine(&neighbours(32, |b| vec![b.s(Op::Fence(Fence::Threads(Scope::Warp)))]), &[Arg::output::<f32>([32])]);
    check(
        &neighbours(32, |_| vec![]),
        &[Arg::output::<f32>([32])],
        "
kernel `probe`: a race
  nothing orders two accesses to `s` at (0, 1), element 1
  thread 0 of block (0, 0, 0) reads `s` at (0, 1), element 1
    at probe.rs:3
  thread 1 of block (0, 0, 0) writes it
    at probe.rs:2
help: put a barrier, sync_threads(), between the two
seen in variant 1, with seed 0",
    );
}

#[test]
fn a_read_before_the_next_turn_writes() {
    let racing = |barrier: bool| {
        let mut b = Build::new(64);
        let to = b.tensor("to", F32, true);
        let s = b.shared("s", F32, 64, "");
        let x = b.reg("x", F32, 1);
        let t = b.thread();
        let other = b.sum(&[(t, -1)], 63);
        let mut body = b.fill(x, 1, 1.0, F32);
        let turn = b.repeat(3, Unroll::No, |b, _| {
            let mut turn = vec![b.store(s, t, x, 1), b.sync(), b.load(x, s, other, 1)];
            turn.extend(barrier.then(|| b.sync()));
            turn
        });
        body.extend([turn, b.store(to, t, x, 1)]);
        b.done(body)
    };
    fine(&racing(true), &[Arg::output::<f32>([64])]);
    let found = fault(&racing(false), &[Arg::output::<f32>([64])]);
    assert_eq!(found.kind(), FaultKind::Race, "{found}");
    assert!(found.help().contains("sync_threads()"), "{found}");
}

#[test]
fn races_in_global_memory() {
    // Both blocks write the same elements.
    let mut b = Build::new(32).blocks(2);
    let to = b.tensor("to", F32, true);
    let x = b.reg("x", F32, 1);
    let t = b.thread();
    let body = [b.fill(x, 1, 1.0, F32), vec![b.store(to, t, x, 1)]].concat();
    check(
        &b.done(body),
        &[Arg::output::<f32>([32])],
        "
kernel `probe`: a race
  blocks do not wait for each other, and two of them touch `to` at (0), element 0
  thread 0 of block (0, 0, 0) writes `to` at (0), element 0
    at probe.rs:2
  thread 0 of block (1, 0, 0) writes `to` at (0), element 0
    at probe.rs:2
help: give every element of the result to one block, or add to it atomically
seen in variant 1, with seed 0",
    );
    // Two threads of a block write one element.
    let mut b = Build::new(32);
    let to = b.tensor("to", F32, true);
    let x = b.reg("x", F32, 1);
    let t = b.thread();
    let half = b.e().div(t, 2);
    let body = [b.fill(x, 1, 1.0, F32), vec![b.store(to, half, x, 1)]].concat();
    let found = fault(&b.done(body), &[Arg::output::<f32>([16])]);
    assert_eq!(found.kind(), FaultKind::Race, "{found}");
}

#[test]
fn results_are_whole_and_written_once() {
    let mut b = Build::new(32);
    let to = b.tensor("to", F32, true);
    let x = b.reg("x", F32, 1);
    let t = b.thread();
    let body = [b.fill(x, 1, 1.0, F32), vec![b.store(to, t, x, 1), b.store(to, t, x, 1)]].concat();
    let kernel = b.done(body);
    check(
        &kernel,
        &[Arg::output::<f32>([32])],
        "
kernel `probe`: an element of the result that was written twice
  `to` at (0), element 0 is a result, and it is written twice
  thread 0 of block (0, 0, 0) writes `to` at (0), element 0
    at probe.rs:3
  thread 0 of block (0, 0, 0) wrote it before
    at probe.rs:2
help: give every element of the result to one thread, or pass the tensor as `Arg::in_out`
seen in variant 1, with seed 0",
    );
    fine(&kernel, &[Arg::in_out(&count(32), [32])]);
    let once = Options { written_once: false, ..options() };
    run_program(&kernel, &[Arg::output::<f32>([32])], &once).unwrap();
    let args = [Arg::output::<f32>([4, 9])];
    let mut b = Build::new(32);
    let shape = ["R", "C"].map(tilewright_layout::Value::symbol).to_vec();
    let to = b.matrix("to", F32, true, shape, vec![1.into(), tilewright_layout::Value::symbol("R")]);
    let x = b.reg("x", F32, 1);
    let t = b.thread();
    let body = [b.fill(x, 1, 1.0, F32), vec![b.store(to, t, x, 1)]].concat();
    check(
        &b.done(body),
        &args,
        "
kernel `probe`: an element of the result that nobody wrote
  nobody wrote `to` at (0, 8), element 32
help: let tiles cover the whole tensor, or pass it as `Arg::in_out`
seen in variant 1, with seed 0",
    );
}

#[test]
fn reads_of_what_nobody_wrote() {
    let mut b = Build::new(32);
    let to = b.tensor("to", F32, true);
    let s = b.shared("s", F32, 32, "");
    let x = b.reg("x", F32, 2);
    let t = b.thread();
    let body = vec![b.load(x, s, t, 1), b.store(to, t, x, 1)];
    check(
        &b.done(body),
        &[Arg::output::<f32>([32])],
        "
kernel `probe`: a read of what nobody wrote
  nobody has written element 0 of `s`
  thread 0 of block (0, 0, 0) reads element 0 of `s`
    at probe.rs:1
help: fill the whole tile before it is read
seen in variant 1, with seed 0",
    );
    let mut b = Build::new(32);
    let to = b.tensor("to", F32, true);
    let x = b.reg("x", F32, 2);
    let t = b.thread();
    let some = b.lt(t, 20);
    let set = b.set(x, 0, Val::Lit(1.0, F32));
    let body = vec![b.if_(some, vec![set]), b.store(to, t, x, 1)];
    check(
        &b.done(body),
        &[Arg::output::<f32>([32])],
        "
kernel `probe`: a read of what nobody wrote
  nobody has written element 0 of the registers `x`
  threads 20-31 of block (0, 0, 0) read element 0 of the registers `x`
    at probe.rs:3
help: give the registers a value first, as registers_like(…, 0.0) does
seen in variant 1, with seed 0",
    );
    let mut b = Build::new(32);
    let to = b.tensor("to", F32, true);
    let x = b.reg("x", F32, 1);
    let t = b.thread();
    let body = vec![b.load(x, to, t, 1), b.store(to, t, x, 1)];
    let kernel = b.done(body);
    assert_eq!(fault(&kernel, &[Arg::output::<f32>([32])]).kind(), FaultKind::Unwritten);
    fine(&kernel, &[Arg::in_out(&count(32), [32])]);
}

/// Each thread copies four bytes asynchronously and reads its neighbour's.
fn asynchronous(waits: bool, syncs: bool) -> Kernel {
    let mut b = Build::new(64);
    let (from, to) = (b.tensor("from", F32, false), b.tensor("to", F32, true));
    let s = b.shared("s", F32, 64, "");
    let x = b.reg("x", F32, 1);
    let t = b.thread();
    let other = b.sum(&[(t, -1)], 63);
    let mut body = vec![
        b.atom("cp_async_4", vec![AtomArg::At(mem(s, t)), AtomArg::At(mem(from, t))]),
        b.s(Op::Commit(Queue::CpAsync)),
    ];
    if waits {
        body.push(b.s(Op::WaitQueue { queue: Queue::CpAsync, pending: 0 }));
    }
    if syncs {
        body.push(b.sync());
    }
    body.extend([b.load(x, s, other, 1), b.store(to, t, x, 1)]);
    b.done(body)
}

#[test]
fn copies_in_flight() {
    let args = [Arg::tensor(&count(64), [64]), Arg::output::<f32>([64])];
    let done = fine(&asynchronous(true, true), &args);
    let wanted: Vec<f32> = (0..64).rev().map(|x| x as f32).collect();
    assert_eq!(done.get::<f32>("to").unwrap(), wanted);
    for (waits, syncs) in [(false, true), (true, false), (false, false)] {
        let found = fault(&asynchronous(waits, syncs), &args);
        assert!(
            matches!(found.kind(), FaultKind::InFlight | FaultKind::Unwritten | FaultKind::Race),
            "{found}"
        );
    }
    // Without looking for races the missing wait is found all the same.
    let quick = Options { races: false, ..options() };
    let text = run_program(&asynchronous(false, true), &args, &quick).unwrap_err().to_string();
    assert!(text.contains("a copy into element 31 of `s` is in flight"), "{text}");
    assert!(
        text.contains("thread 31 of block (0, 0, 0) writes it by an asynchronous copy\n    at probe.rs:1"),
        "{text}"
    );
    assert!(text.contains("help: wait for the copy"), "{text}");
}

#[test]
fn loops_that_not_all_leave() {
    let left_by = |threads: i64, deep: bool| {
        let mut b = Build::new(64);
        let t = b.thread();
        let some = b.lt(t, threads);
        let looped = b.repeat(3, Unroll::No, |b, k| {
            let Int::Var(of) = b.e().get(k).int else { unreachable!() };
            let leave = b.s(Op::Leave { of, cond: some });
            if deep { vec![b.if_(some, vec![leave])] } else { vec![leave] }
        });
        b.done(vec![looped])
    };
    fine(&left_by(64, false), &[]);
    fine(&left_by(32, false), &[]);
    check(
        &left_by(40, false),
        &[],
        "
kernel `probe`: threads that do not arrive together
  only some threads of a warp leave a loop
  threads 32-39 of block (0, 0, 0) leave the loop
    at probe.rs:1
  threads 40-63 of block (0, 0, 0) of the same warp do not
    at probe.rs:1
help: leave loops where all threads do
seen in variant 1, with seed 0"
            .trim(),
    );
    check(
        &left_by(40, true),
        &[],
        "
kernel `probe`: a program that cannot run
  a loop is left from inside of a branch, at probe.rs:1
seen in variant 1, with seed 0"
            .trim(),
    );
}

#[test]
fn barriers_that_not_all_reach() {
    let mut b = Build::new(64);
    let t = b.thread();
    let some = b.lt(t, 40);
    let sync = b.sync();
    let body = vec![b.if_(some, vec![sync])];
    check(
        &b.done(body),
        &[],
        "
kernel `probe`: threads that do not arrive together
  only some threads of a warp come to a barrier
  threads 32-39 of block (0, 0, 0) arrive at the barrier
    at probe.rs:1
  threads 40-63 of block (0, 0, 0) of the same warp do not
    at probe.rs:1
help: keep barriers out of conditions that differ between threads
seen in variant 1, with seed 0"
            .trim(),
    );
    let mut b = Build::new(64);
    let t = b.thread();
    let some = b.lt(t, 32);
    let sync = b.sync();
    let body = vec![b.if_(some, vec![sync])];
    let text = fault(&b.done(body), &[]).to_string();
    assert!(text.contains("threads 32-63 have ended, and the others wait for ever"), "{text}");
    assert!(
        text.contains(
            "threads 0-31 of block (0, 0, 0) wait at the block's barrier, where 32 of 64 threads have arrived"
        ),
        "{text}"
    );
}

#[test]
fn named_barriers() {
    let kernel = |threads: u32| {
        let mut b = Build::new(96);
        let bar = b.bar(Bar::Named { id: 1, threads });
        let pair = b.s(Op::Sync(bar));
        let roles = vec![Role { name: "pair".into(), warps: (0, 2), registers: None, body: vec![pair] }];
        let body = vec![b.s(Op::Roles(roles)), b.sync()];
        b.done(body)
    };
    fine(&kernel(64), &[]);
    let found = fault(&kernel(96), &[]);
    assert_eq!(found.kind(), FaultKind::Deadlock, "{found}");
    assert!(found.to_string().contains("wait at barrier 1, where 64 of 96 threads have arrived"), "{found}");
}

/// One box of a tensor through shared memory.
struct Boxes {
    bytes: u32,
    turn: i64,
    init: bool,
    fence: bool,
    waits: bool,
    arrivals: u32,
}

const RIGHT: Boxes = Boxes { bytes: 1024, turn: 0, init: true, fence: true, waits: true, arrivals: 1 };

fn boxes(how: &Boxes) -> Kernel {
    let mut b = Build::new(64);
    let (from, to) = (b.tensor("from", F32, false), b.tensor("to", F32, true));
    let held = b.shared("held", F32, 256, "");
    let (bar, zero, turn) = (b.mbarriers("full", 1, 1), b.int(0), b.int(how.turn));
    let (x, t, size) = (b.reg("x", F32, 4), b.thread(), b.int(1024));
    let at = b.sum(&[(t, 4)], 0);
    let mut body = Vec::new();
    if how.init {
        let mut init = vec![b.s(Op::InitBarriers(bar))];
        if how.fence {
            init.push(b.s(Op::Fence(Fence::MbarrierInit)));
        }
        body.push(b.one(Scope::Block, init));
    }
    body.push(b.sync());
    let mut begin = vec![b.s(Op::Arrive { bar, slot: zero, peer: None, bytes: Some(how.bytes) })];
    for _ in 1..how.arrivals {
        begin.push(b.s(Op::Arrive { bar, slot: zero, peer: None, bytes: None }));
    }
    let args = vec![
        AtomArg::At(mem(held, zero)),
        AtomArg::At(mem(from, zero)),
        AtomArg::Int(size),
        AtomArg::Barrier { bar, slot: zero },
    ];
    begin.push(b.atom("bulk_load", args));
    body.push(b.one(Scope::Block, begin));
    if how.waits {
        body.push(b.s(Op::Await { bar, slot: zero, turn }));
    }
    body.extend([b.load(x, held, at, 4), b.store(to, at, x, 4)]);
    b.done(body)
}

fn boxed_args() -> [Arg; 2] {
    [Arg::tensor(&count(256), [256]), Arg::output::<f32>([256])]
}

/// Whether it has landed when the block ends is chance: that nobody waited is not.
#[test]
fn a_bulk_copy_that_nobody_waits_for() {
    let mut kernel = boxes(&RIGHT);
    // Up to the copy, and then time for it to land with some seeds.
    kernel.body.truncate(3);
    let sync = kernel.body[1].clone();
    kernel.body.extend(vec![sync; 8]);
    let args = [Arg::tensor(&count(256), [256]), Arg::in_out(&count(256), [256])];
    let found = fault(&kernel, &args);
    assert_eq!(found.kind(), FaultKind::InFlight, "{found}");
    assert_eq!(found.message(), "block (0, 0, 0) ends, and a bulk copy still uses its shared memory");
    assert_eq!(found.parties()[0].line.as_deref(), Some("probe.rs:6"), "{found}");
}

#[test]
fn mbarriers() {
    let done = fine(&boxes(&RIGHT), &boxed_args());
    assert_eq!(done.get::<f32>("to").unwrap(), count(256));
    #[track_caller]
    fn check(how: Boxes, kind: FaultKind, part: &str) {
        let found = fault(&boxes(&how), &boxed_args());
        assert!(found.kind() == kind && found.to_string().contains(part), "{found}");
    }
    check(
        Boxes { bytes: 2048, ..RIGHT },
        FaultKind::Deadlock,
        "wait for turn 0 of `full[0]`, which has completed 0 and lacks 0 of 1 arrivals and 1024 bytes",
    );
    check(Boxes { init: false, ..RIGHT }, FaultKind::Mbarrier, "`full[0]` has not been initialised");
    check(
        Boxes { fence: false, ..RIGHT },
        FaultKind::MissingFence,
        "`full[0]` was initialised, and no fence tells the copy engine",
    );
    check(
        Boxes { turn: 1, ..RIGHT },
        FaultKind::Mbarrier,
        "a wait for turn 1 of `full[0]`, which has completed 0 turns: hardware looks at the turn's parity alone and lets the wait pass",
    );
    check(
        Boxes { arrivals: 2, ..RIGHT },
        FaultKind::Mbarrier,
        "`full[0]` takes 1 arrivals in a phase, and another comes before the phase's 1024 bytes",
    );
    let found = fault(&boxes(&Boxes { waits: false, ..RIGHT }), &boxed_args());
    assert!(matches!(found.kind(), FaultKind::InFlight | FaultKind::Unwritten), "{found}");
}

/// Threads fill a tile, one of them stores it by the copy engine.
fn bulk_store(fence: bool, waits: bool) -> Kernel {
    let mut b = Build::new(64);
    let to = b.tensor("to", F32, true);
    let held = b.shared("held", F32, 64, "");
    let (x, t, zero, size) = (b.reg("x", F32, 1), b.thread(), b.int(0), b.int(256));
    let mut body = b.fill(x, 1, 1.0, F32);
    body.push(b.store(held, t, x, 1));
    if fence {
        body.push(b.s(Op::Fence(Fence::ProxyAsync)));
    }
    body.push(b.sync());
    let args = vec![AtomArg::At(mem(to, zero)), AtomArg::At(mem(held, zero)), AtomArg::Int(size)];
    let mut one = vec![b.atom("bulk_store", args), b.s(Op::Commit(Queue::Bulk))];
    if waits {
        one.push(b.s(Op::WaitQueue { queue: Queue::BulkRead, pending: 0 }));
    }
    body.push(b.one(Scope::Block, one));
    b.done(body)
}

#[test]
fn fences_between_proxies() {
    let args = [Arg::output::<f32>([64])];
    let done = fine(&bulk_store(true, true), &args);
    assert_eq!(done.get::<f32>("to").unwrap(), vec![1.0; 64]);
    check(
        &bulk_store(false, true),
        &args,
        "
kernel `probe`: a missing fence between ordinary and asynchronous accesses
  an asynchronous access to element 0 of `held` follows an ordinary one, and no fence tells it of that
  thread 0 of block (0, 0, 0) reads element 0 of `held` by a bulk store
    at probe.rs:4
  thread 0 of block (0, 0, 0) writes it
    at probe.rs:2
help: let each thread that touched it execute a fence (fence.proxy.async) before the barrier
seen in variant 1, with seed 0",
    );
}

#[test]
fn bulk_copies_end_before_their_block() {
    let kernel = bulk_store(true, false);
    let mut found = 0;
    for seed in 0..40 {
        if let Err(error) = run_program(&kernel, &[Arg::output::<f32>([64])], &Options { seed, ..options() })
        {
            let text = error.to_string();
            assert!(text.contains("a bulk copy still uses its shared memory"), "{text}");
            found += 1;
        }
    }
    assert!(found > 20, "{found} of 40 schedules showed it");
}

#[test]
fn a_generic_read_before_the_copy_engine_overwrites() {
    // Two rounds through one slot: everybody reads, arrives, and the slot is filled again.
    let kernel = |fence: bool| {
        let mut b = Build::new(32);
        let (from, to) = (b.tensor("from", F32, false), b.tensor("to", F32, true));
        let held = b.shared("held", F32, 32, "");
        let (bar, zero, size) = (b.mbarriers("full", 1, 1), b.int(0), b.int(128));
        let (x, t) = (b.reg("x", F32, 1), b.thread());
        let mut body = b.start(&[bar]);
        body.push(b.repeat(2, Unroll::No, |b, round| {
            let place = b.sum(&[(round, 32)], 0);
            let at = b.sum(&[(round, 32), (t, 1)], 0);
            let arrive = b.s(Op::Arrive { bar, slot: zero, peer: None, bytes: Some(128) });
            let args = vec![
                AtomArg::At(mem(held, zero)),
                AtomArg::At(mem(from, place)),
                AtomArg::Int(size),
                AtomArg::Barrier { bar, slot: zero },
            ];
            let copy = b.atom("bulk_load", args);
            let mut turn = vec![
                b.one(Scope::Block, vec![arrive, copy]),
                b.s(Op::Await { bar, slot: zero, turn: round }),
                b.load(x, held, t, 1),
                b.store(to, at, x, 1),
            ];
            if fence {
                turn.push(b.s(Op::Fence(Fence::ProxyAsync)));
            }
            turn.push(b.sync());
            turn
        }));
        b.done(body)
    };
    let args = [Arg::tensor(&count(64), [64]), Arg::output::<f32>([64])];
    assert_eq!(fine(&kernel(true), &args).get::<f32>("to").unwrap(), count(64));
    let found = fault(&kernel(false), &args);
    assert_eq!(found.kind(), FaultKind::MissingFence, "{found}");
    assert_eq!(found.parties()[1].doing, "reads it", "{found}");
}

/// A product of a warpgroup, with what may be forgotten.
fn product(fence: bool, waits: bool, proxy: bool) -> Kernel {
    let mut b = Build::new(128);
    let to = b.tensor("to", F32, true);
    let tile = b.shared("tile", Bf16, 64 * 64, "");
    let (acc, x) = (b.reg("acc", F32, 4), b.reg("x", Bf16, 8));
    let (t, zero, one) = (b.thread(), b.int(0), b.int(1));
    let mut body = b.fill(x, 8, 1.0, Bf16);
    for round in 0..4 {
        let at = b.sum(&[(t, 8)], round * 1024);
        body.push(b.store(tile, at, x, 8));
    }
    body.extend(b.fill(acc, 4, 0.0, F32));
    if proxy {
        body.push(b.s(Op::Fence(Fence::ProxyAsync)));
    }
    body.push(b.sync());
    if fence {
        body.push(b.s(Op::Fence(Fence::Wgmma)));
    }
    let matrix = || AtomArg::Descriptor { at: mem(tile, zero), leading: 16, stride: 1024, mode: 1 };
    let args = vec![
        AtomArg::Frag(frag(acc, zero, 4)),
        matrix(),
        matrix(),
        AtomArg::Int(one),
        AtomArg::Int(zero),
        AtomArg::Int(zero),
    ];
    body.extend([b.atom("wgmma_m64n8k16_bf16", args), b.s(Op::Commit(Queue::Wgmma))]);
    if waits {
        body.push(b.s(Op::WaitQueue { queue: Queue::Wgmma, pending: 0 }));
    }
    let at = b.sum(&[(t, 4)], 0);
    body.push(b.store(to, at, acc, 4));
    b.done(body)
}

#[test]
fn matrix_products_in_flight() {
    let args = [Arg::output::<f32>([512])];
    let done = fine(&product(true, true, true), &args);
    assert_eq!(done.get::<f32>("to").unwrap(), vec![16.0; 512]);
    #[track_caller]
    fn check(kernel: &Kernel, kind: FaultKind, part: &str) {
        let found = fault(kernel, &[Arg::output::<f32>([512])]);
        assert!(found.kind() == kind && found.to_string().contains(part), "{found}");
    }
    check(
        &product(false, true, true),
        FaultKind::MissingFence,
        "element 0 of the registers `acc` has been written, and an asynchronous matrix product uses it without a fence between",
    );
    check(
        &product(true, false, true),
        FaultKind::Locked,
        "a matrix product in flight uses element 0 of the registers `acc`",
    );
    check(
        &product(true, true, false),
        FaultKind::MissingFence,
        "an asynchronous access to element 0 of `tile` follows an ordinary one",
    );
}

#[test]
fn products_take_whole_warps() {
    let mut b = Build::new(32);
    let (d, a, w) = (b.reg("d", F32, 4), b.reg("a", Bf16, 8), b.reg("w", Bf16, 4));
    let (t, zero) = (b.thread(), b.int(0));
    let some = b.lt(t, 16);
    let mut body = [b.fill(d, 4, 0.0, F32), b.fill(a, 8, 1.0, Bf16), b.fill(w, 4, 1.0, Bf16)].concat();
    let args = [(d, 4), (a, 8), (w, 4)].map(|(reg, len)| AtomArg::Frag(frag(reg, zero, len)));
    let mma = b.atom("mma_m16n8k16_bf16", args.to_vec());
    body.push(b.if_(some, vec![mma]));
    let text = fault(&b.done(body), &[]).to_string();
    assert!(text.contains("`mma_m16n8k16_bf16` takes all 32 lanes of a warp, and 16 come to it"), "{text}");
}

#[test]
fn arguments_are_refused_before_anything_runs() {
    let kernel = copy(0);
    #[track_caller]
    fn check(kernel: &Kernel, args: &[Arg], part: &str) {
        let text = run_program(kernel, args, &options()).unwrap_err().to_string();
        assert!(text.contains(part), "{text}");
    }
    let from = || Arg::tensor(&count(32), [32]);
    check(&kernel, &[from()], "argument `to`: it is missing");
    check(
        &kernel,
        &[from(), from()],
        "argument `to`: the kernel writes it, and it was lent for reading only",
    );
    check(
        &kernel,
        &[Arg::number(1.0f32), from()],
        "argument `from`: it is a tensor, and a number of type f32",
    );
    check(&kernel, &[Arg::tensor(&[1.0f64; 32], [32]), from()], "its elements are f32, and f64 were given");
    check(&kernel, &[Arg::tensor(&count(31), [32]), Arg::output::<f32>([32])], "and there are 31");
    check(&kernel, &[from(), Arg::output::<f32>([usize::MAX])], "coordinates have 32 bits");
    let mut none = kernel.clone();
    none.launch.grid = [vec![tilewright_layout::Value::Int(0)], vec![], vec![]];
    check(
        &none,
        &[from(), Arg::output::<f32>([32])],
        "there is nothing to run: the grid has 0 x 1 x 1 blocks",
    );
}

#[test]
fn results_are_asked_for_by_name_and_type() {
    let done = fine(&copy(0), &[Arg::tensor(&count(32), [32]), Arg::output::<f32>([32])]);
    let text = |error: tilewright_sim::Error| error.to_string();
    assert_eq!(text(done.get::<f32>("c").unwrap_err()), "the kernel writes no tensor `c`; it writes `to`");
    assert_eq!(
        text(done.get::<f64>("to").unwrap_err()),
        "argument `to`: its elements are f32, and f64 are asked for\nhelp: write `get::<f32>(\"to\")`"
    );
}

#[test]
fn indices_outside_of_their_claims() {
    let mut b = Build::new(32);
    let (from, to) = (b.tensor("from", F32, false), b.tensor("to", F32, true));
    let (x, t) = (b.reg("x", F32, 1), b.thread());
    let at = b.sum(&[(t, 2)], 0);
    b.e().assume(at, 0, 40);
    let body = vec![b.load(x, from, at, 1), b.store(to, t, x, 1)];
    check(
        &b.done(body),
        &[Arg::tensor(&count(64), [64]), Arg::output::<f32>([32])],
        "
kernel `probe`: an index outside of its claimed range
  an index into `from` is 42, and the program was generated for 0 to 40
  thread 21 of block (0, 0, 0) uses element 42 of `from`
    at probe.rs:1
help: this is a mistake of the generator: 32 bits may not be enough for this index
seen in variant 1, with seed 0",
    );
}

#[test]
fn results_that_depend_on_the_schedule() {
    // The last warp wins, and races are not looked for.
    let mut b = Build::new(128);
    let (to, s) = (b.tensor("to", F32, true), b.shared("s", F32, 1, ""));
    let (x, t, zero) = (b.reg("x", F32, 1), b.thread(), b.int(0));
    let warp = b.e().div(t, 32);
    let number = b.set(x, 0, Val::Int(warp, F32));
    let put = b.store(s, zero, x, 1);
    let body = vec![b.sync(), number, put, b.sync(), b.load(x, s, zero, 1), b.store(to, t, x, 1)];
    let kernel = b.done(body);
    let options = Options { races: false, schedules: 20, ..options() };
    let text = run_program(&kernel, &[Arg::output::<f32>([128])], &options).unwrap_err().to_string();
    assert!(text.contains("`to` at (0), element 0 is not the same with seed 0"), "{text}");
    assert_eq!(fault(&kernel, &[Arg::output::<f32>([128])]).kind(), FaultKind::Race);
}

#[test]
fn shuffles_take_whole_warps() {
    let mut b = Build::new(32);
    let (x, t, zero) = (b.reg("x", F32, 1), b.thread(), b.int(0));
    let by = b.int(1);
    let mut body = b.fill(x, 1, 1.0, F32);
    let exchange = b.set(x, 0, Val::ShuffleXor(Box::new(Val::Reg(x, zero)), by));
    let some = b.lt(t, 16);
    body.push(b.if_(some, vec![exchange]));
    let text = fault(&b.done(body), &[]).to_string();
    assert!(
        text.contains("16 of the warp's 32 lanes come to an exchange of values between all of them"),
        "{text}"
    );
}
