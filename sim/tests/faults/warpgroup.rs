//! A warpgroup is four warps: writes must be ordered before each of them, and each waits for its own part of
//! a product.

use super::common::*;
use tilewright_codegen::Elem::{Bf16, F32};
use tilewright_codegen::thread::*;
use tilewright_sim::{Arg, FaultKind};

/// `acc += tile · tileᵀ`, all four warps at once, and its commit group.
fn product(b: &mut Build, tile: Space, acc: Id) -> Vec<Stmt> {
    let (zero, one) = (b.int(0), b.int(1));
    let matrix = || AtomArg::Descriptor { at: mem(tile, zero), leading: 16, stride: 1024, mode: 1 };
    let ints = [one, zero, zero].map(AtomArg::Int);
    let args = [AtomArg::Frag(frag(acc, zero, 4)), matrix(), matrix()].into_iter().chain(ints).collect();
    vec![
        b.s(Op::Pin(acc)),
        b.s(Op::Fence(Fence::Products)),
        b.atom("wgmma_m64n8k16_bf16", args),
        b.s(Op::Commit(Queue::Products)),
        b.s(Op::WaitQueue { queue: Queue::Products, pending: 0 }),
        b.s(Op::Pin(acc)),
    ]
}

/// Each warp writes a quarter of the tile, they multiply it, and each writes its quarter again.
fn filled(before: bool, behind: bool) -> Kernel {
    let mut b = Build::new(128);
    let to = b.tensor("to", F32, true);
    let tile = b.shared("tile", Bf16, 64 * 64, "");
    let (acc, x) = (b.reg("acc", F32, 4), b.reg("x", Bf16, 8));
    let t = b.thread();
    let index = b.sum(&[(t, 4)], 0);
    let fill = |b: &mut Build| -> Vec<Stmt> {
        let part = |iteration| {
            let at = b.sum(&[(t, 8)], iteration * 1024);
            b.store(tile, at, x, 8)
        };
        [0i64, 1, 2, 3].map(part).into()
    };
    let mut body = [b.fill(x, 8, 1.0, Bf16), b.fill(acc, 4, 0.0, F32)].concat();
    body.extend(fill(&mut b));
    body.push(b.s(Op::Fence(Fence::ProxyAsync)));
    body.extend(before.then(|| b.sync()));
    body.extend(product(&mut b, tile, acc));
    body.extend(behind.then(|| b.sync()));
    body.extend(fill(&mut b));
    body.push(b.store(to, index, acc, 4));
    b.done(body)
}

#[test]
fn writes_are_ordered_before_every_warp_of_a_product() {
    let args = [Arg::output::<f32>([512])];
    assert_eq!(fine(&filled(true, true), &args).get::<f32>("to").unwrap(), vec![16.0; 512]);
    check(
        &filled(false, true),
        &args,
        "
kernel `probe`: a race
  nothing orders two accesses to element 0 of `tile`
  threads 32-127 of block (0, 0, 0) read element 0 of `tile` by a matrix product
    at probe.rs:20
  thread 0 of block (0, 0, 0) writes it
    at probe.rs:13
help: a matrix product reads for all four warps, and the writes must be ordered before each of them: put a barrier, sync_threads(), between the writes and the product
seen in variant 1, with seed 0",
    );
}

#[test]
fn a_wait_covers_one_warps_part_of_a_product() {
    let reported = fault(&filled(true, false), &[Arg::output::<f32>([512])]);
    assert_eq!(reported.kind(), FaultKind::InFlight, "{reported}");
    let text = reported.to_string();
    assert!(text.contains("read it by a matrix product"), "{text}");
    assert!(
        text.contains(
            "help: each warp waits for its own part of the product (wgmma.wait_group): the matrices may be overwritten after all four have waited and synchronised, by a barrier or by an arrival of each at an mbarrier"
        ),
        "{text}"
    );
}

/// A ring of one slot: a producer warp fills it, a warpgroup multiplies it and releases it.
struct Ring {
    /// Threads that wait for the copy.
    wait: i64,
    /// Does the warpgroup synchronise before it multiplies, and before it releases the slot?
    meet: [bool; 2],
    /// The threads that release the slot, and the arrival count.
    release: (Scope, u32),
}

fn ring(how: &Ring) -> Kernel {
    let mut b = Build::new(160);
    let (from, to) = (b.tensor("from", Bf16, false), b.tensor("to", F32, true));
    let tile = b.shared("tile", Bf16, 64 * 64, "");
    let (full, empty) = (b.mbarriers("full", 1, 1), b.mbarriers("empty", 1, how.release.1));
    let group = b.bar(Bar::Named { id: 1, threads: 128 });
    let (acc, t, zero, size) = (b.reg("acc", F32, 4), b.thread(), b.int(0), b.int(8192));
    let index = b.sum(&[(t, 4)], 0);
    let mut consume = b.fill(acc, 4, 0.0, F32);
    consume.push(b.repeat(3, Unroll::No, |b, iteration| {
        let mut body = Vec::new();
        let wait = b.s(Op::Await { bar: full, slot: zero, phase: iteration });
        let some = b.lt(t, how.wait);
        body.push(b.if_(some, vec![wait]));
        body.extend(how.meet[0].then(|| b.s(Op::sync(group))));
        body.extend(product(b, tile, acc));
        body.extend(how.meet[1].then(|| b.s(Op::sync(group))));
        let arrive = b.s(Op::Arrive { bar: empty, slot: zero, peer: None, bytes: None });
        body.push(b.one(how.release.0, vec![arrive]));
        body
    }));
    consume.push(b.store(to, index, acc, 4));
    let produce = b.repeat(3, Unroll::No, |b, iteration| {
        let before = b.sum(&[(iteration, 1)], -1);
        let args = vec![
            AtomArg::At(mem(tile, zero)),
            AtomArg::At(mem(from, zero)),
            AtomArg::Int(size),
            AtomArg::Barrier { bar: full, slot: zero },
        ];
        let body = vec![
            b.s(Op::Await { bar: empty, slot: zero, phase: before }),
            b.s(Op::Arrive { bar: full, slot: zero, peer: None, bytes: Some(8192) }),
            b.atom("bulk_load", args),
        ];
        vec![b.one(Scope::Block, body)]
    });
    let role = |name: &str, warps, body| Role { name: name.into(), warps, registers: None, body };
    let roles = vec![role("consumers", (0, 4), consume), role("producer", (4, 5), vec![produce])];
    let mut body = b.start(&[full, empty]);
    body.push(b.s(Op::Roles(roles)));
    b.done(body)
}

fn ring_args() -> [Arg; 2] {
    let ones = vec![tilewright_codegen::element::bf16::from_f32(1.0); 4096];
    [Arg::tensor(&ones, [4096]), Arg::output::<f32>([512])]
}

#[test]
fn every_warp_waits_for_what_its_product_reads() {
    let right = Ring { wait: 128, meet: [false; 2], release: (Scope::Warp, 4) };
    assert_eq!(fine(&ring(&right), &ring_args()).get::<f32>("to").unwrap(), vec![48.0; 512]);
    // One warp waits, then synchronises the others.
    fine(&ring(&Ring { wait: 32, meet: [true, false], ..right }), &ring_args());
    let reported = fault(&ring(&Ring { wait: 32, ..right }), &ring_args());
    assert_eq!(reported.kind(), FaultKind::InFlight, "{reported}");
    assert_eq!(reported.parties()[0].threads, (32..128).collect::<Vec<u32>>(), "{reported}");
    assert_eq!(
        reported.help(),
        "let every warp of the warpgroup wait for `full[0]`, or synchronise them after one of them has waited"
    );
}

#[test]
fn every_warp_releases_a_slot() {
    // One warp for all, after all have synchronised.
    fine(&ring(&Ring { wait: 128, meet: [false, true], release: (Scope::Warpgroup, 1) }), &ring_args());
    let reported =
        fault(&ring(&Ring { wait: 128, meet: [false; 2], release: (Scope::Warpgroup, 1) }), &ring_args());
    assert_eq!(reported.kind(), FaultKind::InFlight, "{reported}");
    assert!(reported.parties()[1].doing.contains("read it by a matrix product"), "{reported}");
}

#[test]
fn a_write_while_a_product_reads() {
    let mut kernel = filled(true, true);
    // The wait comes after the writes.
    let wait = kernel.body.iter().position(|stmt| matches!(stmt.op, Op::WaitQueue { .. })).unwrap();
    let wait = kernel.body.remove(wait);
    kernel.body.insert(kernel.body.len() - 1, wait);
    let reported = fault(&kernel, &[Arg::output::<f32>([512])]);
    assert_eq!(reported.kind(), FaultKind::InFlight, "{reported}");
    assert!(reported.help().starts_with("each warp waits for its own part of the product"), "{reported}");
}
