//! Copies and matrix products without a wait, and proxy fences.

use super::common::*;
use tilewright_codegen::Elem::{Bf16, F32};
use tilewright_codegen::thread::*;
use tilewright_layout::Value;
use tilewright_sim::{Arg, FaultKind, Options, run_program};

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
        let reported = fault(&asynchronous(waits, syncs), &args);
        assert!(
            matches!(reported.kind(), FaultKind::InFlight | FaultKind::Unwritten | FaultKind::Race),
            "{reported}"
        );
    }
    // The missing wait is also detected without race detection.
    let quick = Options { races: false, ..options() };
    let text = run_program(&asynchronous(false, true), &args, &quick).unwrap_err().to_string();
    assert!(text.contains("a copy into element 31 of `s` is in flight"), "{text}");
    assert!(
        text.contains("thread 31 of block (0, 0, 0) writes it by an asynchronous copy\n    at probe.rs:1"),
        "{text}"
    );
    assert!(text.contains("help: wait for the copy"), "{text}");
}

/// One box of a tensor through shared memory.
struct Boxes {
    bytes: u32,
    phase: i64,
    init: bool,
    fence: bool,
    waits: bool,
    arrivals: u32,
}

const RIGHT: Boxes = Boxes { bytes: 1024, phase: 0, init: true, fence: true, waits: true, arrivals: 1 };

fn boxes(how: &Boxes) -> Kernel {
    let mut b = Build::new(64);
    let (from, to) = (b.tensor("from", F32, false), b.tensor("to", F32, true));
    let tile = b.shared("tile", F32, 256, "");
    let (bar, zero, phase) = (b.mbarriers("full", 1, 1), b.int(0), b.int(how.phase));
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
        AtomArg::At(mem(tile, zero)),
        AtomArg::At(mem(from, zero)),
        AtomArg::Int(size),
        AtomArg::Barrier { bar, slot: zero },
    ];
    begin.push(b.atom("bulk_load", args));
    body.push(b.one(Scope::Block, begin));
    if how.waits {
        body.push(b.s(Op::Await { bar, slot: zero, phase }));
    }
    body.extend([b.load(x, tile, at, 4), b.store(to, at, x, 4)]);
    b.done(body)
}

fn boxed_args() -> [Arg; 2] {
    [Arg::tensor(&count(256), [256]), Arg::output::<f32>([256])]
}

/// Whether it has landed when the block ends depends on the seed; the missing wait does not.
#[test]
fn a_bulk_copy_without_a_wait() {
    let mut kernel = boxes(&RIGHT);
    // Up to the copy, then time for it to land with some seeds.
    kernel.body.truncate(3);
    let sync = kernel.body[1].clone();
    kernel.body.extend(vec![sync; 8]);
    let args = [Arg::tensor(&count(256), [256]), Arg::in_out(&count(256), [256])];
    let reported = fault(&kernel, &args);
    assert_eq!(reported.kind(), FaultKind::InFlight, "{reported}");
    assert_eq!(reported.message(), "block (0, 0, 0) ends, and a bulk copy still uses its shared memory");
    assert_eq!(reported.parties()[0].line.as_deref(), Some("probe.rs:6"), "{reported}");
}

#[test]
fn mbarriers() {
    let done = fine(&boxes(&RIGHT), &boxed_args());
    assert_eq!(done.get::<f32>("to").unwrap(), count(256));
    #[track_caller]
    fn check(how: Boxes, kind: FaultKind, part: &str) {
        let reported = fault(&boxes(&how), &boxed_args());
        assert!(reported.kind() == kind && reported.to_string().contains(part), "{reported}");
    }
    check(
        Boxes { bytes: 2048, ..RIGHT },
        FaultKind::Deadlock,
        "wait for phase 0 of `full[0]`, whose arrivals expect 1024 bytes more than copies have brought",
    );
    let reported = fault(&boxes(&Boxes { bytes: 2048, ..RIGHT }), &boxed_args());
    assert_eq!(
        reported.help(),
        "expect 1024 bytes fewer where `full[0]` expects them (mbarrier.arrive.expect_tx): as many as the copies of one phase bring; or issue the copies that are missing"
    );
    check(
        Boxes { bytes: 1008, ..RIGHT },
        FaultKind::Deadlock,
        "wait for phase 0 of `full[0]`, to which copies have brought 16 bytes more than its arrivals expect",
    );
    let reported = fault(&boxes(&Boxes { bytes: 1008, ..RIGHT }), &boxed_args());
    assert_eq!(
        reported.help(),
        "expect 16 bytes more where `full[0]` expects them (mbarrier.arrive.expect_tx): as many as the copies of one phase bring"
    );
    check(Boxes { init: false, ..RIGHT }, FaultKind::Mbarrier, "`full[0]` has not been initialised");
    check(
        Boxes { fence: false, ..RIGHT },
        FaultKind::MissingFence,
        "`full[0]` was initialised, and no fence makes that visible to the copy engine",
    );
    check(
        Boxes { phase: 1, ..RIGHT },
        FaultKind::Mbarrier,
        "a wait for phase 1 of `full[0]`, which has completed 0 phases: hardware tests the phase parity alone and lets the wait pass",
    );
    check(
        Boxes { arrivals: 2, ..RIGHT },
        FaultKind::Mbarrier,
        "`full[0]` takes 1 arrival in a phase, and another comes before the phase's 1024 bytes",
    );
    let reported = fault(&boxes(&Boxes { waits: false, ..RIGHT }), &boxed_args());
    assert!(matches!(reported.kind(), FaultKind::InFlight | FaultKind::Unwritten), "{reported}");
}

/// Threads fill a tile, and one of them stores it through the copy engine.
fn bulk_store(fence: bool, waits: bool) -> Kernel {
    let mut b = Build::new(64);
    let to = b.tensor("to", F32, true);
    let tile = b.shared("tile", F32, 64, "");
    let (x, t, zero, size) = (b.reg("x", F32, 1), b.thread(), b.int(0), b.int(256));
    let mut body = b.fill(x, 1, 1.0, F32);
    body.push(b.store(tile, t, x, 1));
    if fence {
        body.push(b.s(Op::Fence(Fence::ProxyAsync)));
    }
    body.push(b.sync());
    let args = vec![AtomArg::At(mem(to, zero)), AtomArg::At(mem(tile, zero)), AtomArg::Int(size)];
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
kernel `probe`: a missing fence
  an asynchronous access to element 0 of `tile` follows a generic-proxy one without a proxy fence in between
  thread 0 of block (0, 0, 0) reads element 0 of `tile` by a bulk store
    at probe.rs:4
  thread 0 of block (0, 0, 0) writes it
    at probe.rs:2
help: let each thread that accessed it execute a fence (fence.proxy.async) before the barrier
seen in variant 1, with seed 0",
    );
}

/// A bulk store of 32 elements, beginning at this element of a tensor of this extent.
fn bulk_store_at(extent: i64, begin: i64) -> Kernel {
    let mut b = Build::new(32);
    let to = b.matrix("to", F32, true, vec![Value::Int(extent)], vec![Value::Int(1)]);
    let map = b.map(to, &[32], &[0], 0);
    let tile = b.shared("tile", F32, 32, "");
    let (x, t, zero, begin) = (b.reg("x", F32, 1), b.thread(), b.int(0), b.int(begin));
    let mut body = b.fill(x, 1, 1.0, F32);
    body.push(b.store(tile, t, x, 1));
    body.extend([b.s(Op::Fence(Fence::ProxyAsync)), b.sync()]);
    let args = vec![AtomArg::Map { param: map, at: vec![begin] }, AtomArg::At(mem(tile, zero))];
    let mut one = vec![b.atom("bulk_store_1d", args), b.s(Op::Commit(Queue::Bulk))];
    one.push(b.s(Op::WaitQueue { queue: Queue::Bulk, pending: 0 }));
    body.push(b.one(Scope::Block, one));
    b.done(body)
}

/// A row that ends inside a group of 16 bytes, which a bulk store writes as a whole.
#[test]
fn bulk_stores_write_whole_groups() {
    let done = fine(&bulk_store_at(28, 0), &[Arg::output::<f32>([28])]);
    assert_eq!(done.get::<f32>("to").unwrap(), vec![1.0; 28]);
    check(
        &bulk_store_at(30, 0),
        &[Arg::output::<f32>([30])],
        "
kernel `probe`: an access out of bounds
  a bulk store writes groups of 16 bytes, 4 elements of `to`, and a row ends after 2 of one
  thread 0 of block (0, 0, 0) begins the copy
    at probe.rs:5
help: bulk stores need rows of a multiple of 16 bytes; store this tile by threads
seen in variant 1, with seed 0",
    );
}

/// Along the contiguous mode, the instruction takes coordinates at multiples of 16 bytes.
#[test]
fn bulk_copies_begin_with_a_group() {
    let before = vec![2.0f32; 64];
    let run = |begin: i64| fine(&bulk_store_at(64, begin), &[Arg::in_out(&before, [64])]);
    let written = |begin: i64| run(begin).get::<f32>("to").unwrap().iter().filter(|x| **x == 1.0).count();
    assert_eq!([0, 4, 36, -8, 1 << 30].map(written), [32, 32, 28, 24, 0]);
    check(
        &bulk_store_at(64, 33),
        &[Arg::in_out(&before, [64])],
        "
kernel `probe`: a misaligned access
  a bulk copy begins at 33 along the contiguous mode of `to`, and at multiples of 4 it can (16 bytes)
  thread 0 of block (0, 0, 0) begins the copy
    at probe.rs:5
help: copy a tile that begins at a multiple of 16 bytes, or copy it by threads
seen in variant 1, with seed 0",
    );
}

#[test]
fn bulk_copies_end_before_their_block() {
    let kernel = bulk_store(true, false);
    let mut reported = 0;
    for seed in 0..40 {
        if let Err(error) = run_program(&kernel, &[Arg::output::<f32>([64])], &Options { seed, ..options() })
        {
            let text = error.to_string();
            assert!(text.contains("a bulk copy still uses its shared memory"), "{text}");
            reported += 1;
        }
    }
    assert!(reported > 20, "{reported} of 40 schedules showed it");
}

#[test]
fn a_generic_read_before_the_copy_engine_overwrites() {
    // Two iterations with one slot: every thread reads and arrives, and the slot is filled again.
    let kernel = |fence: bool| {
        let mut b = Build::new(32);
        let (from, to) = (b.tensor("from", F32, false), b.tensor("to", F32, true));
        let tile = b.shared("tile", F32, 32, "");
        let (bar, zero, size) = (b.mbarriers("full", 1, 1), b.int(0), b.int(128));
        let (x, t) = (b.reg("x", F32, 1), b.thread());
        let mut body = b.start(&[bar]);
        body.push(b.repeat(2, Unroll::No, |b, iteration| {
            let index = b.sum(&[(iteration, 32)], 0);
            let at = b.sum(&[(iteration, 32), (t, 1)], 0);
            let arrive = b.s(Op::Arrive { bar, slot: zero, peer: None, bytes: Some(128) });
            let args = vec![
                AtomArg::At(mem(tile, zero)),
                AtomArg::At(mem(from, index)),
                AtomArg::Int(size),
                AtomArg::Barrier { bar, slot: zero },
            ];
            let copy = b.atom("bulk_load", args);
            let mut phase = vec![
                b.one(Scope::Block, vec![arrive, copy]),
                b.s(Op::Await { bar, slot: zero, phase: iteration }),
                b.load(x, tile, t, 1),
                b.store(to, at, x, 1),
            ];
            if fence {
                phase.push(b.s(Op::Fence(Fence::ProxyAsync)));
            }
            phase.push(b.sync());
            phase
        }));
        b.done(body)
    };
    let args = [Arg::tensor(&count(64), [64]), Arg::output::<f32>([64])];
    assert_eq!(fine(&kernel(true), &args).get::<f32>("to").unwrap(), count(64));
    let reported = fault(&kernel(false), &args);
    assert_eq!(reported.kind(), FaultKind::MissingFence, "{reported}");
    assert_eq!(reported.parties()[1].doing, "reads it", "{reported}");
}

/// A product of a warpgroup, with optional synchronisation.
fn product(fence: bool, waits: bool, proxy: bool) -> Kernel {
    let mut b = Build::new(128);
    let to = b.tensor("to", F32, true);
    let tile = b.shared("tile", Bf16, 64 * 64, "");
    let (acc, x) = (b.reg("acc", F32, 4), b.reg("x", Bf16, 8));
    let (t, zero, one) = (b.thread(), b.int(0), b.int(1));
    let mut body = b.fill(x, 8, 1.0, Bf16);
    for iteration in 0..4 {
        let at = b.sum(&[(t, 8)], iteration * 1024);
        body.push(b.store(tile, at, x, 8));
    }
    body.extend(b.fill(acc, 4, 0.0, F32));
    if proxy {
        body.push(b.s(Op::Fence(Fence::ProxyAsync)));
    }
    body.push(b.sync());
    if fence {
        body.extend([b.s(Op::Pin(acc)), b.s(Op::Fence(Fence::Products))]);
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
    body.extend([b.atom("wgmma_m64n8k16_bf16", args), b.s(Op::Commit(Queue::Products))]);
    if waits {
        body.extend([b.s(Op::WaitQueue { queue: Queue::Products, pending: 0 }), b.s(Op::Pin(acc))]);
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
        let reported = fault(kernel, &[Arg::output::<f32>([512])]);
        assert!(reported.kind() == kind && reported.to_string().contains(part), "{reported}");
    }
    check(
        &product(false, true, true),
        FaultKind::MissingFence,
        "element 0 of the registers `acc` has been written, and an asynchronous matrix product uses it without a fence in between",
    );
    check(
        &product(true, false, true),
        FaultKind::Locked,
        "a matrix product in flight uses element 0 of the registers `acc`",
    );
    check(
        &product(true, true, false),
        FaultKind::MissingFence,
        "an asynchronous access to element 0 of `tile` follows a generic-proxy one",
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
    assert!(text.contains("`mma_m16n8k16_bf16` takes all 32 lanes of a warp, and 16 execute it"), "{text}");
}
