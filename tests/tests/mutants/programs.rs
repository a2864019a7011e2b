//! Correct hand-written programs, one for each way in which threads synchronise and exchange data.

use tilewright_codegen::Elem::{Bf16, F32, I32};
use tilewright_codegen::element::bf16;
use tilewright_codegen::index::Ix;
use tilewright_codegen::thread::*;
use tilewright_sim::Arg;

use super::common::{Build, count, frag, load_op, mem};

/// A program, its arguments, and its expected results.
pub(crate) struct Program {
    pub(crate) kernel: Kernel,
    pub(crate) args: Vec<Arg>,
    pub(crate) wanted: Vec<(&'static str, Vec<f32>)>,
    /// Counts and flags after the run.
    pub(crate) counts: Vec<(&'static str, Vec<i32>)>,
}

fn program(kernel: Kernel, args: Vec<Arg>, to: Vec<f32>) -> Program {
    Program { kernel, args, wanted: vec![("to", to)], counts: Vec::new() }
}

fn role(name: &str, warps: (u32, u32), registers: Option<u32>, body: Vec<Stmt>) -> Role {
    Role { name: name.into(), warps, registers, body }
}

/// `acc += tile · tileᵀ` over the instruction's K, and the wait for it.
fn product(b: &mut Build, row: &str, tile: Space, at: Ix, (acc, len): (Id, u32)) -> Vec<Stmt> {
    let (zero, one) = (b.int(0), b.int(1));
    let matrix = || AtomArg::Descriptor { at: mem(tile, at), leading: 16, stride: 1024, mode: 1 };
    let ints = [one, zero, zero].map(AtomArg::Int);
    let args = [AtomArg::Frag(frag(acc, zero, len)), matrix(), matrix()].into_iter().chain(ints).collect();
    vec![
        b.s(Op::Pin(acc)),
        b.s(Op::Fence(Fence::Products)),
        b.atom(row, args),
        b.s(Op::Commit(Queue::Products)),
        b.s(Op::WaitQueue { queue: Queue::Products, pending: 0 }),
        b.s(Op::Pin(acc)),
    ]
}

/// A bulk load that completes an mbarrier, with the arrival that expects its bytes.
fn bulk_load(b: &mut Build, to: Mem, from: Mem, bytes: u32, (bar, slot): (Id, Ix)) -> Vec<Stmt> {
    let size = b.int(i64::from(bytes));
    let args = vec![AtomArg::At(to), AtomArg::At(from), AtomArg::Int(size), AtomArg::Barrier { bar, slot }];
    let arrive = b.s(Op::Arrive { bar, slot, peer: None, bytes: Some(bytes) });
    vec![arrive, b.atom("bulk_load", args)]
}

/// The slot of an iteration in a ring of two, its phase, and the previous phase.
fn slot_of(b: &mut Build, iteration: Ix) -> [Ix; 3] {
    let (slot, phase) = (b.e().rem(iteration, 2), b.e().div(iteration, 2));
    [slot, phase, b.sum(&[(phase, 1)], -1)]
}

/// A warp fills two slots by bulk copies, a warpgroup multiplies them; one lane of each warp releases a slot.
pub(crate) fn ring() -> Program {
    const ROUNDS: i64 = 4;
    const LEN: i64 = 64 * 64;
    let mut b = Build::new(160);
    b.k.launch.blocks_per_sm = 1;
    let (from, to) = (b.tensor("from", Bf16, false), b.tensor("to", F32, true));
    let tile = b.shared("tile", Bf16, 2 * LEN as u32, "");
    let (full, empty) = (b.mbarriers("full", 2, 1), b.mbarriers("empty", 2, 4));
    let (acc, t) = (b.reg("acc", F32, 32), b.thread());
    let mut consume = b.fill(acc, 32, 0.0, F32);
    consume.push(b.repeat(ROUNDS, Unroll::No, |b, iteration| {
        let [slot, phase, _] = slot_of(b, iteration);
        let at = b.sum(&[(slot, LEN)], 0);
        let mut body = vec![b.s(Op::Await { bar: full, slot, phase })];
        body.extend(product(b, "wgmma_m64n64k16_bf16", tile, at, (acc, 32)));
        let arrive = b.s(Op::Arrive { bar: empty, slot, peer: None, bytes: None });
        body.push(b.one(Scope::Warp, vec![arrive]));
        body
    }));
    for part in 0..8 {
        let (position, at) = (b.sum(&[(t, 32)], part * 4), b.int(part * 4));
        consume.push(b.s(Op::Store { to: mem(to, position), from: frag(acc, at, 4), guard: None }));
    }
    let produce = b.repeat(ROUNDS, Unroll::No, |b, iteration| {
        let [slot, _, before] = slot_of(b, iteration);
        let (position, origin) = (b.sum(&[(slot, LEN)], 0), b.sum(&[(iteration, LEN)], 0));
        let mut body = vec![b.s(Op::Await { bar: empty, slot, phase: before })];
        body.extend(bulk_load(b, mem(tile, position), mem(from, origin), 2 * LEN as u32, (full, slot)));
        vec![b.one(Scope::Block, body)]
    });
    let mut body = b.start(&[full, empty]);
    let roles =
        vec![role("consumers", (0, 4), Some(40), consume), role("producer", (4, 5), Some(24), vec![produce])];
    body.push(b.s(Op::Roles(roles)));
    let tiles: Vec<bf16> = (0..ROUNDS * LEN).map(|at| bf16::from_f32((at / LEN + 1) as f32)).collect();
    let sum = (1..=ROUNDS).map(|x| 16 * x * x).sum::<i64>() as f32;
    program(
        b.done(body),
        vec![Arg::tensor(&tiles, [tiles.len()]), Arg::output::<f32>([4096])],
        vec![sum; 4096],
    )
}

/// Four warps fill a tile by ordinary stores and multiply it, repeatedly.
pub(crate) fn filled() -> Program {
    let mut b = Build::new(128);
    let to = b.tensor("to", F32, true);
    let tile = b.shared("tile", Bf16, 64 * 64, "");
    let (acc, x, t, zero) = (b.reg("acc", F32, 4), b.reg("x", Bf16, 8), b.thread(), b.int(0));
    let position = b.sum(&[(t, 4)], 0);
    let mut body = [b.fill(x, 8, 1.0, Bf16), b.fill(acc, 4, 0.0, F32)].concat();
    body.push(b.repeat(3, Unroll::No, |b, _| {
        let part = |iteration: i64| {
            let at = b.sum(&[(t, 8)], iteration * 1024);
            b.store(tile, at, x, 8)
        };
        let mut body: Vec<Stmt> = [0, 1, 2, 3].map(part).into();
        body.extend([b.s(Op::Fence(Fence::ProxyAsync)), b.sync()]);
        body.extend(product(b, "wgmma_m64n8k16_bf16", tile, zero, (acc, 4)));
        body.push(b.sync());
        body
    }));
    body.push(b.store(to, position, acc, 4));
    program(b.done(body), vec![Arg::output::<f32>([512])], vec![48.0; 512])
}

/// Two warps write data that two others read; named barriers before and after the read.
pub(crate) fn pair() -> Program {
    let mut b = Build::new(128);
    let to = b.tensor("to", F32, true);
    let s = b.shared("s", F32, 64, "");
    let full = b.bar(Bar::Named { id: 1, threads: 128 });
    let free = b.bar(Bar::Named { id: 2, threads: 128 });
    let (x, y, t) = (b.reg("x", F32, 1), b.reg("y", F32, 1), b.thread());
    let write = b.repeat(3, Unroll::No, |b, iteration| {
        let at = b.sum(&[(iteration, 64), (t, 1)], 0);
        vec![b.set(x, 0, Val::Int(at, F32)), b.store(s, t, x, 1), b.s(Op::sync(full)), b.s(Op::sync(free))]
    });
    let read = b.repeat(3, Unroll::No, |b, iteration| {
        let (other, position) = (b.sum(&[(t, -1)], 127), b.sum(&[(iteration, 64), (t, -1)], 127));
        vec![b.s(Op::sync(full)), b.load(y, s, other, 1), b.store(to, position, y, 1), b.s(Op::sync(free))]
    });
    let roles = vec![role("writers", (0, 2), None, vec![write]), role("readers", (2, 4), None, vec![read])];
    let body = vec![b.s(Op::Roles(roles))];
    program(b.done(body), vec![Arg::output::<f32>([192])], count(192))
}

/// A warp passes two slots to another by ordinary stores; every lane arrives, and every lane waits.
pub(crate) fn arrivals() -> Program {
    let mut b = Build::new(64);
    let to = b.tensor("to", F32, true);
    let s = b.shared("s", F32, 64, "");
    let (full, empty) = (b.mbarriers("full", 2, 32), b.mbarriers("empty", 2, 32));
    let (x, y, t) = (b.reg("x", F32, 1), b.reg("y", F32, 1), b.thread());
    let arrive = |b: &mut Build, bar, slot| b.s(Op::Arrive { bar, slot, peer: None, bytes: None });
    let write = b.repeat(4, Unroll::No, |b, iteration| {
        let [slot, _, before] = slot_of(b, iteration);
        let (position, number) = (b.sum(&[(slot, 32), (t, 1)], 0), b.sum(&[(iteration, 32), (t, 1)], 0));
        vec![
            b.s(Op::Await { bar: empty, slot, phase: before }),
            b.set(x, 0, Val::Int(number, F32)),
            b.store(s, position, x, 1),
            arrive(b, full, slot),
        ]
    });
    let read = b.repeat(4, Unroll::No, |b, iteration| {
        let [slot, phase, _] = slot_of(b, iteration);
        // The element of another lane.
        let (position, number) = (b.sum(&[(slot, 32), (t, -1)], 63), b.sum(&[(iteration, 32), (t, -1)], 63));
        vec![
            b.s(Op::Await { bar: full, slot, phase }),
            b.load(y, s, position, 1),
            arrive(b, empty, slot),
            b.store(to, number, y, 1),
        ]
    });
    let mut body = b.start(&[full, empty]);
    let roles = vec![role("writer", (0, 1), None, vec![write]), role("reader", (1, 2), None, vec![read])];
    body.push(b.s(Op::Roles(roles)));
    program(b.done(body), vec![Arg::output::<f32>([128])], count(128))
}

/// A warp fills two slots by bulk copies, two others read them by ordinary loads; every thread releases a
/// slot.
pub(crate) fn copies() -> Program {
    let mut b = Build::new(96);
    let (from, to) = (b.tensor("from", F32, false), b.tensor("to", F32, true));
    let tile = b.shared("tile", F32, 128, "");
    let (full, empty) = (b.mbarriers("full", 2, 1), b.mbarriers("empty", 2, 64));
    let (x, t) = (b.reg("x", F32, 1), b.thread());
    let read = b.repeat(4, Unroll::No, |b, iteration| {
        let [slot, phase, _] = slot_of(b, iteration);
        let (position, number) = (b.sum(&[(slot, 64), (t, -1)], 63), b.sum(&[(iteration, 64), (t, -1)], 63));
        vec![
            b.s(Op::Await { bar: full, slot, phase }),
            b.load(x, tile, position, 1),
            b.s(Op::Fence(Fence::ProxyAsync)),
            b.s(Op::Arrive { bar: empty, slot, peer: None, bytes: None }),
            b.store(to, number, x, 1),
        ]
    });
    let copy = b.repeat(4, Unroll::No, |b, iteration| {
        let [slot, _, before] = slot_of(b, iteration);
        let (position, origin) = (b.sum(&[(slot, 64)], 0), b.sum(&[(iteration, 64)], 0));
        let mut body = vec![b.s(Op::Await { bar: empty, slot, phase: before })];
        body.extend(bulk_load(b, mem(tile, position), mem(from, origin), 256, (full, slot)));
        vec![b.one(Scope::Block, body)]
    });
    let mut body = b.start(&[full, empty]);
    let roles = vec![role("readers", (0, 2), None, vec![read]), role("copies", (2, 3), None, vec![copy])];
    body.push(b.s(Op::Roles(roles)));
    program(b.done(body), vec![Arg::tensor(&count(256), [256]), Arg::output::<f32>([256])], count(256))
}

/// All threads write a tile, one thread stores it in bulk, repeatedly.
pub(crate) fn stores() -> Program {
    let mut b = Build::new(64);
    let to = b.tensor("to", F32, true);
    let tile = b.shared("tile", F32, 64, "");
    let (x, t, zero, size) = (b.reg("x", F32, 1), b.thread(), b.int(0), b.int(256));
    let phase = b.repeat(3, Unroll::No, |b, iteration| {
        let (number, position) = (b.sum(&[(iteration, 64), (t, 1)], 0), b.sum(&[(iteration, 64)], 0));
        let args = vec![AtomArg::At(mem(to, position)), AtomArg::At(mem(tile, zero)), AtomArg::Int(size)];
        let store = vec![b.atom("bulk_store", args), b.s(Op::Commit(Queue::Bulk))];
        let wait = vec![b.s(Op::WaitQueue { queue: Queue::BulkRead, pending: 0 })];
        vec![
            b.set(x, 0, Val::Int(number, F32)),
            b.store(tile, t, x, 1),
            b.s(Op::Fence(Fence::ProxyAsync)),
            b.sync(),
            b.one(Scope::Block, store),
            b.one(Scope::Block, wait),
            b.sync(),
        ]
    });
    program(b.done(vec![phase]), vec![Arg::output::<f32>([192])], count(192))
}

/// Two blocks exchange multicast copies, write into each other's shared memory, and signal each other.
pub(crate) fn cluster() -> Program {
    let mut b = Build::new(64).cluster(2);
    let (from, to) = (b.tensor("from", F32, false), b.tensor("to", F32, true));
    let map = b.map(from, &[64], &[0], 0);
    let (tile, own) = (b.shared("tile", F32, 128, ""), b.shared("own", F32, 64, ""));
    let (full, ready) = (b.mbarriers("full", 1, 1), b.mbarriers("ready", 1, 64));
    let all = b.bar(Bar::Cluster);
    let (t, zero, rank, both) = (b.thread(), b.int(0), b.rank(), b.int(3));
    let other = b.sum(&[(rank, -1)], 1);
    let (x, y) = (b.reg("x", F32, 1), b.reg("y", F32, 1));
    let part = b.sum(&[(rank, 64)], 0);
    let init =
        vec![b.s(Op::InitBarriers(full)), b.s(Op::InitBarriers(ready)), b.s(Op::Fence(Fence::MbarrierInit))];
    let mut body = vec![b.one(Scope::Block, init), b.s(Op::sync(all))];
    let load = vec![
        AtomArg::At(mem(tile, part)),
        AtomArg::Map { param: map, at: vec![part] },
        AtomArg::Barrier { bar: full, slot: zero },
        AtomArg::Int(both),
    ];
    let arrive = b.s(Op::Arrive { bar: full, slot: zero, peer: None, bytes: Some(512) });
    let load = b.atom("bulk_load_1d_multicast", load);
    body.push(b.one(Scope::Block, vec![arrive, load]));
    // Each thread writes an element to its counterpart in the other block, and reads one that another thread
    // received.
    let far = b.sum(&[(other, 64), (t, 1)], 0);
    let (mirrored, out) = (b.sum(&[(t, -1)], 63), b.sum(&[(rank, 64), (t, -1)], 63));
    let peer = Mem { space: own, index: t, peer: Some(other) };
    body.extend([
        b.s(Op::Await { bar: full, slot: zero, phase: zero }),
        b.load(x, tile, far, 1),
        b.s(Op::Store { to: peer, from: frag(x, zero, 1), guard: None }),
        b.s(Op::Arrive { bar: ready, slot: zero, peer: Some(other), bytes: None }),
        b.s(Op::Await { bar: ready, slot: zero, phase: zero }),
        // The other block makes no access here any more: either block may exit first.
        b.load(y, own, mirrored, 1),
        b.store(to, out, y, 1),
    ]);
    program(b.done(body), vec![Arg::tensor(&count(128), [128]), Arg::output::<f32>([128])], count(128))
}

/// Two blocks fill both blocks' slot by multicast copies; all readers release it to both blocks.
pub(crate) fn multicast() -> Program {
    const ROUNDS: i64 = 3;
    let mut b = Build::new(64).cluster(2);
    let (from, to) = (b.tensor("from", F32, false), b.tensor("to", F32, true));
    let map = b.map(from, &[64], &[0], 0);
    let tile = b.shared("tile", F32, 128, "");
    let (full, empty) = (b.mbarriers("full", 1, 1), b.mbarriers("empty", 1, 64));
    let all = b.bar(Bar::Cluster);
    let (x, t, zero, rank, both) = (b.reg("x", F32, 4), b.thread(), b.int(0), b.rank(), b.int(3));
    let position = b.sum(&[(t, 4)], 0);
    let read = b.repeat(ROUNDS, Unroll::No, |b, iteration| {
        let out = b.sum(&[(rank, 128 * ROUNDS), (iteration, 128), (t, 4)], 0);
        let mut body = vec![
            b.s(Op::Await { bar: full, slot: zero, phase: iteration }),
            b.load(x, tile, position, 4),
            b.s(Op::Fence(Fence::ProxyAsync)),
        ];
        for block in 0..2 {
            let peer = Some(b.int(block));
            body.push(b.s(Op::Arrive { bar: empty, slot: zero, peer, bytes: None }));
        }
        body.push(b.store(to, out, x, 4));
        body
    });
    let copy = b.repeat(ROUNDS, Unroll::No, |b, iteration| {
        let (part, origin) = (b.sum(&[(rank, 64)], 0), b.sum(&[(iteration, 128), (rank, 64)], 0));
        let before = b.sum(&[(iteration, 1)], -1);
        let load = vec![
            AtomArg::At(mem(tile, part)),
            AtomArg::Map { param: map, at: vec![origin] },
            AtomArg::Barrier { bar: full, slot: zero },
            AtomArg::Int(both),
        ];
        let body = vec![
            b.s(Op::Await { bar: empty, slot: zero, phase: before }),
            b.s(Op::Arrive { bar: full, slot: zero, peer: None, bytes: Some(512) }),
            b.atom("bulk_load_1d_multicast", load),
        ];
        vec![b.one(Scope::Block, body)]
    });
    let init =
        vec![b.s(Op::InitBarriers(full)), b.s(Op::InitBarriers(empty)), b.s(Op::Fence(Fence::MbarrierInit))];
    let roles = vec![role("reader", (0, 1), None, vec![read]), role("copies", (1, 2), None, vec![copy])];
    let body = vec![b.one(Scope::Block, init), b.s(Op::sync(all)), b.s(Op::Roles(roles)), b.s(Op::sync(all))];
    let args = vec![Arg::tensor(&count(384), [384]), Arg::output::<f32>([768])];
    program(b.done(body), args, [count(384), count(384)].concat())
}

/// Blocks of a cluster read each other's shared memory between cluster barriers.
pub(crate) fn peers() -> Program {
    let mut b = Build::new(64).cluster(4);
    let to = b.tensor("to", F32, true);
    let own = b.shared("own", F32, 64, "");
    let all = b.bar(Bar::Cluster);
    let (x, t, zero, rank) = (b.reg("x", F32, 1), b.thread(), b.int(0), b.rank());
    let next = b.sum(&[(rank, 1)], 1);
    let next = b.e().rem(next, 4);
    let number = b.sum(&[(rank, 64), (t, 1)], 0);
    let (mirrored, out) = (b.sum(&[(t, -1)], 63), b.sum(&[(next, 64), (t, -1)], 63));
    let peer = Mem { space: own, index: mirrored, peer: Some(next) };
    let body = vec![
        b.set(x, 0, Val::Int(number, F32)),
        b.store(own, t, x, 1),
        b.s(Op::sync(all)),
        b.s(load_op(frag(x, zero, 1), peer, None, 0.0)),
        b.store(to, out, x, 1),
        b.s(Op::sync(all)),
    ];
    program(b.done(body), vec![Arg::output::<f32>([256])], count(256))
}

/// Threads count in shared memory by atomic updates.
pub(crate) fn sums() -> Program {
    let mut b = Build::new(96);
    let to = b.tensor("to", F32, true);
    let s = b.shared("s", I32, 4, "");
    let (n, one, x, t, zero) =
        (b.reg("n", I32, 1), b.reg("one", I32, 1), b.reg("x", F32, 1), b.thread(), b.int(0));
    let (bin, few) = (b.e().rem(t, 4), b.lt(t, 4));
    let mut body = [b.fill(n, 1, 0.0, I32), b.fill(one, 1, 1.0, I32)].concat();
    let clear = b.store(s, t, n, 1);
    body.extend([b.if_(few, vec![clear]), b.sync()]);
    body.push(b.s(Op::Atomic {
        to: mem(s, bin),
        op: Change::Add,
        value: Val::Reg(one, zero),
        guard: None,
        order: MemoryOrder::Relaxed,
        scope: Scope::Grid,
        old: None,
        expected: None,
    }));
    body.extend([
        b.sync(),
        b.load(n, s, bin, 1),
        b.set(x, 0, Val::Cast(F32, Box::new(Val::Reg(n, zero)))),
        b.store(to, t, x, 1),
    ]);
    program(b.done(body), vec![Arg::output::<f32>([96])], vec![24.0; 96])
}

/// Two arrays with disjoint lifetimes share bytes of the arena.
pub(crate) fn lifetimes() -> Program {
    let mut b = Build::new(64);
    let to = b.tensor("to", F32, true);
    let (first, second) = (b.shared("first", F32, 64, ""), b.shared("second", F32, 64, ""));
    let bar = b.mbarriers("done", 1, 1);
    let (x, y, t) = (b.reg("x", F32, 1), b.reg("y", F32, 1), b.thread());
    let (other, later) = (b.sum(&[(t, -1)], 63), b.sum(&[(t, 1)], 64));
    let mirrored = b.sum(&[(t, -1)], 127);
    let mut body = b.start(&[bar]);
    body.extend([
        b.set(x, 0, Val::Int(t, F32)),
        b.store(first, t, x, 1),
        b.sync(),
        b.load(y, first, other, 1),
        b.store(to, other, y, 1),
        b.sync(),
        b.set(x, 0, Val::Int(later, F32)),
        b.store(second, t, x, 1),
        b.sync(),
        b.load(y, second, other, 1),
        b.store(to, mirrored, y, 1),
    ]);
    let mut kernel = b.done(body);
    kernel.shared[1].offset = 128;
    program(kernel, vec![Arg::output::<f32>([128])], count(128))
}

/// Two warps alternate over counters that both read and write: an mbarrier phase admits one warp at a time.
pub(crate) fn order() -> Program {
    const ROUNDS: i64 = 4;
    let mut b = Build::new(64);
    let to = b.tensor("to", F32, true);
    let s = b.shared("s", F32, 32, "");
    let order = b.mbarriers("order", 2, 1);
    let (x, t) = (b.reg("x", F32, 1), b.thread());
    let (warp, lane, zero) = (b.e().div(t, 32), b.e().rem(t, 32), b.int(0));
    let (first, next) = (b.lt(warp, 1), b.sum(&[(warp, -1)], 1));
    let mut body = b.start(&[order]);
    let clear = [b.fill(x, 1, 0.0, F32), vec![b.store(s, lane, x, 1)]].concat();
    body.push(b.if_(first, clear));
    body.push(b.sync());
    body.push(b.repeat(ROUNDS, Unroll::No, |b, iteration| {
        // The first warp need not wait at the beginning.
        let phase = b.sum(&[(iteration, 1), (first, -1)], 0);
        let more = Val::Bin(Bin::Add, Box::new(Val::Reg(x, zero)), Box::new(Val::lit(1.0, F32)));
        let arrive = b.s(Op::Arrive { bar: order, slot: next, peer: None, bytes: None });
        vec![
            b.s(Op::Await { bar: order, slot: warp, phase }),
            b.load(x, s, lane, 1),
            b.set(x, 0, more),
            b.store(s, lane, x, 1),
            b.s(Op::Fence(Fence::Threads(Scope::Warp))),
            b.one(Scope::Warp, vec![arrive]),
        ]
    }));
    body.extend([b.sync(), b.load(x, s, lane, 1), b.store(to, t, x, 1)]);
    program(b.done(body), vec![Arg::output::<f32>([64])], vec![2.0 * ROUNDS as f32; 64])
}

/// A warpgroup gives registers back, and two others take them.
pub(crate) fn registers() -> Program {
    let mut b = Build::new(384);
    b.k.launch.blocks_per_sm = 1;
    let to = b.tensor("to", F32, true);
    let (x, t) = (b.reg("x", F32, 1), b.thread());
    let work = |b: &mut Build| vec![b.set(x, 0, Val::Int(t, F32)), b.store(to, t, x, 1)];
    let (consume, produce) = (work(&mut b), work(&mut b));
    let roles =
        vec![role("consumers", (0, 8), Some(232), consume), role("producer", (8, 12), Some(40), produce)];
    let body = vec![b.s(Op::Roles(roles))];
    program(b.done(body), vec![Arg::output::<f32>([384])], count(384))
}

/// Products of a tile that four warps fill, whose sums are read in between; the first one starts from zero in registers that
/// nothing has written.
pub(crate) fn sums_between() -> Program {
    let mut b = Build::new(128);
    let to = b.tensor("to", F32, true);
    let tile = b.shared("tile", Bf16, 64 * 64, "");
    let (acc, x, t, zero) = (b.reg("acc", F32, 4), b.reg("x", Bf16, 8), b.thread(), b.int(0));
    let mut body = b.fill(x, 8, 1.0, Bf16);
    for part in 0..4 {
        let at = b.sum(&[(t, 8)], part * 1024);
        body.push(b.store(tile, at, x, 8));
    }
    body.extend([b.s(Op::Fence(Fence::ProxyAsync)), b.sync()]);
    for iteration in 0..2 {
        let mut products = product(&mut b, "wgmma_m64n8k16_bf16", tile, zero, (acc, 4));
        if let Op::Atom { args, .. } = &mut products[2].op {
            args[3] = AtomArg::Int(b.int(iteration));
        }
        body.extend(products);
        let position = b.sum(&[(t, 4)], iteration * 512);
        body.push(b.store(to, position, acc, 4));
    }
    let sums = [vec![16.0; 512], vec![32.0; 512]].concat();
    program(b.done(body), vec![Arg::output::<f32>([1024])], sums)
}

/// Two groups of two warps, whose barriers are numbered by the groups.
pub(crate) fn members() -> Program {
    let mut b = Build::new(128);
    let to = b.tensor("to", F32, true);
    let s = b.shared("s", F32, 128, "");
    let (x, t) = (b.reg("x", F32, 1), b.thread());
    let [first, _] = [1, 2].map(|id| b.bar(Bar::Named { id, threads: 64 }));
    let member = b.e().div(t, 64);
    // Thread 0 of a group mirrors to thread 63.
    let other = b.sum(&[(t, -1), (member, 128)], 63);
    let body = vec![
        b.set(x, 0, Val::Int(t, F32)),
        b.store(s, t, x, 1),
        b.s(Op::Sync { bar: first, member: Some(member) }),
        b.load(x, s, other, 1),
        b.store(to, other, x, 1),
    ];
    program(b.done(body), vec![Arg::output::<f32>([128])], count(128))
}

/// Two blocks count in global memory by atomic updates.
pub(crate) fn counts() -> Program {
    let mut b = Build::new(64).blocks(2);
    let to = b.tensor("to", F32, true);
    let (one, t, zero) = (b.reg("one", F32, 1), b.thread(), b.int(0));
    let bin = b.e().rem(t, 4);
    let mut body = b.fill(one, 1, 1.0, F32);
    body.push(b.s(Op::Atomic {
        to: mem(to, bin),
        op: Change::Add,
        value: Val::Reg(one, zero),
        guard: None,
        order: MemoryOrder::Relaxed,
        scope: Scope::Grid,
        old: None,
        expected: None,
    }));
    program(b.done(body), vec![Arg::in_out(&[0.0f32; 4], [4])], vec![32.0; 4])
}

/// Each of two blocks writes its half and takes a ticket; the one that takes the last reads the other's half.
pub(crate) fn tickets() -> Program {
    let mut b = Build::new(64).blocks(2);
    let (to, work, tickets) =
        (b.tensor("to", F32, true), b.tensor("work", F32, true), b.tensor("tickets", I32, true));
    let last = b.shared("last", I32, 1, "");
    let (x, one, old, t, zero) =
        (b.reg("x", F32, 1), b.reg("one", I32, 1), b.reg("old", I32, 1), b.thread(), b.int(0));
    let block = b.block();
    let own = b.sum(&[(block, 64), (t, 1)], 0);
    let other = b.sum(&[(block, -64), (t, -1)], 127);
    let ticket = b.s(Op::Atomic {
        to: mem(tickets, zero),
        op: Change::Add,
        value: Val::Reg(one, zero),
        guard: None,
        order: MemoryOrder::Both,
        scope: Scope::Grid,
        old: Some(frag(old, zero, 1)),
        expected: None,
    });
    let passed = b.store(last, zero, old, 1);
    let read = vec![b.load(x, work, other, 1), b.store(to, t, x, 1)];
    let is_last = Val::Cmp(Cmp::Eq, Box::new(Val::Reg(old, zero)), Box::new(Val::lit(1, I32)));
    let mut body = [b.fill(x, 1, 1.0, F32), b.fill(one, 1, 1.0, I32)].concat();
    body.extend([
        b.store(work, own, x, 1),
        b.sync(),
        b.one(Scope::Block, vec![ticket, passed]),
        b.sync(),
        b.load(old, last, zero, 1),
        b.s(Op::If { cond: is_last, then: read, other: vec![] }),
    ]);
    let args = vec![Arg::output::<f32>([64]), Arg::in_out(&[0.0f32; 128], [128]), Arg::in_out(&[0i32], [1])];
    program(b.done(body), args, vec![1.0; 64])
}

/// A copy by a kernel that may start before the previous one has ended.
pub(crate) fn overlap() -> Program {
    let mut b = Build::new(64);
    b.k.launch.overlaps = true;
    let (from, to) = (b.tensor("from", F32, false), b.tensor("to", F32, true));
    let (x, t) = (b.reg("x", F32, 1), b.thread());
    let body = vec![b.s(Op::AwaitPrevious), b.load(x, from, t, 1), b.store(to, t, x, 1)];
    program(b.done(body), vec![Arg::tensor(&count(64), [64]), Arg::output::<f32>([64])], count(64))
}

/// A copy by a kernel that runs beside the previous one.
pub(crate) fn beside() -> Program {
    let mut overlap = overlap();
    overlap.kernel.launch.beside = true;
    overlap.kernel.body.rotate_left(1);
    overlap
}

/// A copy of 20 elements by 32 threads, whose author claims that elements out of bounds are 0, as they are filled.
pub(crate) fn claims() -> Program {
    let mut b = Build::new(32);
    let (from, to) = (b.tensor("from", F32, false), b.tensor("to", F32, true));
    let (x, t, zero, end) = (b.reg("x", F32, 1), b.thread(), b.int(0), b.int(20));
    let inside = b.e().lt(t, end);
    let claim = Claim { value: Val::Reg(x, zero), inside, number: 0.0.into(), at: vec![t], strict: false };
    let body = vec![
        b.s(load_op(frag(x, zero, 1), mem(from, t), Some(inside), 0.0)),
        b.s(Op::Claim(claim)),
        b.s(Op::Store { to: mem(to, t), from: frag(x, zero, 1), guard: Some(inside) }),
    ];
    program(b.done(body), vec![Arg::tensor(&count(20), [20]), Arg::output::<f32>([20])], count(20))
}
