//! Hardware resources of a block: spans of shared memory, barrier numbers, registers of roles.

use super::common::*;
use tilewright_codegen::Elem::{Bf16, F32};
use tilewright_codegen::thread::*;
use tilewright_sim::{Arg, FaultKind};

/// A tile of 256 bytes, two arrays of mbarriers after it, and shared memory of 512 bytes.
fn with_offsets(change: impl FnOnce(&mut Kernel)) -> Kernel {
    let mut b = Build::new(32);
    let tile = b.shared("tile", F32, 64, "");
    let (full, empty) = (b.mbarriers("full", 2, 1), b.mbarriers("empty", 2, 1));
    let (x, t) = (b.reg("x", F32, 1), b.thread());
    let mut body = [b.start(&[full, empty]), b.fill(x, 1, 1.0, F32)].concat();
    body.push(b.store(tile, t, x, 1));
    let mut kernel = b.done(body);
    kernel.launch.shared_bytes = 512;
    change(&mut kernel);
    kernel
}

/// The offset of the mbarriers of the second or third row.
fn at(kernel: &mut Kernel, bar: usize) -> &mut u32 {
    let Bar::Mbarriers { offset, .. } = &mut kernel.bars[bar] else { panic!("no mbarriers") };
    offset
}

#[track_caller]
fn refused(kernel: &Kernel, message: &str, help: &str) {
    let reported = fault(kernel, &[]);
    assert_eq!(reported.kind(), FaultKind::Malformed, "{reported}");
    assert_eq!((reported.message(), reported.help()), (message, help));
}

#[test]
fn mbarriers_have_places() {
    fine(&with_offsets(|_| {}), &[]);
    refused(
        &with_offsets(|k| *at(k, 1) = 248),
        "the mbarriers `full` (bytes 248 to 263 of shared memory) and the array `tile` (bytes 0 to 255) overlap in bytes 248 to 255",
        "give each of them bytes of its own",
    );
    refused(
        &with_offsets(|k| *at(k, 2) = 264),
        "the mbarriers `empty` (bytes 264 to 279 of shared memory) and the mbarriers `full` (bytes 256 to 271) overlap in bytes 264 to 271",
        "give each of them bytes of its own",
    );
    refused(
        &with_offsets(|k| *at(k, 2) = 276),
        "the mbarriers `empty` begin at byte 276 of shared memory, which is no multiple of 8",
        "begin mbarriers at multiples of 8 bytes",
    );
    refused(
        &with_offsets(|k| *at(k, 2) = 504),
        "the mbarriers `empty` take bytes 504 to 519 of shared memory, and a block has 512",
        "ask for more bytes of shared memory at launch",
    );
    refused(
        &with_offsets(|k| k.launch.shared_bytes = 240),
        "the array `tile` takes bytes 0 to 255 of shared memory, and a block has 240",
        "ask for more bytes of shared memory at launch",
    );
    refused(
        &with_offsets(|k| {
            let Bar::Mbarriers { count, .. } = &mut k.bars[1] else { panic!("no mbarriers") };
            *count = 0;
        }),
        "a phase of the mbarriers `full` takes 0 arrivals, and 1 is the least",
        "count the arrivals of a phase",
    );
}

/// The first warps synchronise at a named barrier.
fn named(id: u8, threads: u32) -> Kernel {
    let mut b = Build::new(96);
    let bar = b.bar(Bar::Named { id, threads });
    let meet = b.s(Op::sync(bar));
    let roles = vec![Role { name: "pair".into(), warps: (0, 2), registers: None, body: vec![meet] }];
    let body = vec![b.s(Op::Roles(roles))];
    b.done(body)
}

#[test]
fn named_barriers_have_numbers_and_whole_warps() {
    fine(&named(15, 64), &[]);
    let whole = "count whole warps: a multiple of 32";
    refused(&named(1, 33), "barrier 1 is for 33 threads, and barriers count whole warps of 32", whole);
    refused(&named(1, 48), "barrier 1 is for 48 threads, and barriers count whole warps of 32", whole);
    refused(&named(1, 0), "barrier 1 is for 0 threads, and barriers count whole warps of 32", whole);
    let number = "number the barriers of groups from 1 to 15";
    refused(&named(16, 64), "a barrier has the number 16, and a block has 16 barriers, from 0 to 15", number);
    refused(&named(0, 64), "a barrier has the number 0, which is that of the block's own barrier", number);
}

/// Two roles; the first loads 64 numbers, computes another from each, and stores them.
fn roles(asked: [Option<u32>; 2], warps: [(u32, u32); 2]) -> Kernel {
    const COUNT: i64 = 64;
    let mut b = Build::new(warps[1].1 * 32);
    b.k.launch.blocks_per_sm = 1;
    let (from, to) = (b.tensor("from", F32, false), b.tensor("to", F32, true));
    let (x, y) = (b.reg("x", F32, COUNT as u32), b.reg("y", F32, COUNT as u32));
    let t = b.thread();
    let mut work = Vec::new();
    for at in 0..COUNT {
        let (location, to) = (b.sum(&[(t, COUNT)], at), b.int(at));
        work.push(b.s(load_op(frag(x, to, 1), mem(from, location), None, 0.0)));
    }
    for at in 0..COUNT {
        let old = b.int(at);
        work.push(b.set(y, at, Val::Un(Un::Neg, Box::new(Val::Reg(x, old)))));
    }
    for at in 0..COUNT {
        let (location, from) = (b.sum(&[(t, COUNT)], at), b.int(at));
        work.push(b.s(Op::Store { to: mem(to, location), from: frag(y, from, 1), guard: None }));
    }
    let names = ["worker", "helper"].into_iter().zip(warps).zip(asked).zip([work, vec![]]);
    let all =
        names.map(|(((name, warps), registers), body)| Role { name: name.into(), warps, registers, body });
    let body = vec![b.s(Op::Roles(all.collect()))];
    b.done(body)
}

#[test]
fn roles_request_available_registers() {
    const HALVES: [(u32, u32); 2] = [(0, 4), (4, 8)];
    let args = || {
        let numbers = vec![0.0f32; 8 * 32 * 64];
        [Arg::tensor(&numbers, [numbers.len()]), Arg::in_out(&numbers, [numbers.len()])]
    };
    #[track_caller]
    fn refused(kernel: &Kernel, args: &[Arg], message: &str, help: &str) {
        let reported = fault(kernel, args);
        assert_eq!(reported.kind(), FaultKind::Malformed, "{reported}");
        assert!(reported.message().starts_with(message), "{reported}");
        assert_eq!(reported.help(), help);
    }
    // An elementwise computation needs registers for one of the two arrays.
    fine(&roles([Some(64), Some(24)], HALVES), &args());
    fine(&roles([None, None], HALVES), &args());
    for asked in [16, 100, 264] {
        refused(
            &roles([Some(asked), None], HALVES),
            &args(),
            &format!(
                "the role `worker` asks for {asked} registers, and a thread can have 24 to 256 in steps of 8, at probe.rs:"
            ),
            "ask for a multiple of 8 from 24 to 256, or leave it unset",
        );
    }
    refused(
        &roles([Some(56), None], HALVES),
        &args(),
        "the role `worker` asks for 56 registers, and its arrays need 64 at once, at probe.rs:",
        "ask for more registers, or use smaller register tiles",
    );
    refused(
        &roles([None, Some(40)], [(0, 6), (6, 8)]),
        &args(),
        "the role `helper` asks for registers, and its warps 6 to 7 are no whole warpgroups, at probe.rs:",
        "begin and end roles that request registers at multiples of four warps",
    );
}

/// The registers of a block are those that its threads have when it starts: 65,536 of a multiprocessor divided by 384 threads
/// are 168, and 168 x 384 are 64,512.
#[test]
fn roles_take_registers_that_others_give_back() {
    let args = || {
        let numbers = vec![0.0f32; 12 * 32 * 64];
        [Arg::tensor(&numbers, [numbers.len()]), Arg::in_out(&numbers, [numbers.len()])]
    };
    const ROLES: [(u32, u32); 2] = [(0, 8), (8, 12)];
    fine(&roles([Some(232), Some(40)], ROLES), &args());
    fine(&roles([Some(240), Some(24)], ROLES), &args());
    let reported = fault(&roles([Some(232), Some(48)], ROLES), &args());
    assert_eq!(reported.kind(), FaultKind::Deadlock, "{reported}");
    let waits = reported.parties().last().expect("who waits");
    assert_eq!(
        waits.doing,
        "wait for 64 more registers a thread (setmaxnreg): the block has 168 x 384 registers, of which 1024 are free"
    );
    assert_eq!(
        reported.help(),
        "roles take registers that others have given back: let all of them together ask for no more than the block has when it starts"
    );
    // A role that gives none back.
    let reported = fault(&roles([Some(232), None], ROLES), &args());
    assert_eq!(reported.kind(), FaultKind::Deadlock, "{reported}");
    let mut unbounded = roles([Some(232), Some(40)], ROLES);
    unbounded.launch.blocks_per_sm = 0;
    let reported = fault(&unbounded, &args());
    assert_eq!(reported.kind(), FaultKind::Malformed, "{reported}");
    assert!(
        reported.message().starts_with(
            "the role `worker` asks for registers, and the kernel has no launch bound of blocks for each multiprocessor: without one the compiler ignores setmaxnreg"
        ),
        "{reported}"
    );
}

/// Accumulators in flight stay in registers, which launch bounds limit.
#[test]
fn accumulators_fit_launch_bounds() {
    let with = |blocks: u32| {
        let mut b = Build::new(128);
        let to = b.tensor("to", F32, true);
        let tile = b.shared("tile", Bf16, 256 * 64, "");
        let (acc, zero, one) = (b.reg("acc", F32, 128), b.int(0), b.int(1));
        let matrix = || AtomArg::Descriptor { at: mem(tile, zero), leading: 16, stride: 1024, mode: 1 };
        let ints = [one, zero, zero].map(AtomArg::Int);
        let args =
            [AtomArg::Frag(frag(acc, zero, 128)), matrix(), matrix()].into_iter().chain(ints).collect();
        let mut body = b.fill(acc, 128, 0.0, F32);
        body.extend([b.s(Op::Pin(acc)), b.s(Op::Fence(Fence::Products))]);
        body.extend([b.atom("wgmma_m64n256k16_bf16", args), b.s(Op::Commit(Queue::Products))]);
        body.extend([b.s(Op::WaitQueue { queue: Queue::Products, pending: 0 }), b.s(Op::Pin(acc))]);
        body.push(b.store(to, zero, acc, 4));
        let mut kernel = b.done(body);
        kernel.launch.blocks_per_sm = blocks;
        kernel.launch.shared_bytes = 40 << 10;
        kernel
    };
    let args = [Arg::output::<f32>([4])];
    assert_ne!(fault(&with(3), &args).kind(), FaultKind::Malformed);
    let reported = fault(&with(5), &args);
    assert_eq!(reported.kind(), FaultKind::Malformed, "{reported}");
    assert_eq!(
        (reported.message(), reported.help()),
        (
            "launch bounds allow each thread 96 registers, and arrays around asynchronous products need 128 at once",
            "lower `blocks_per_sm`, or use smaller register tiles"
        )
    );
}
