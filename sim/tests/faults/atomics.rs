//! Atomic updates need no order among each other; other accesses need one with them.

use super::common::*;
use tilewright_codegen::Elem::I32;
use tilewright_codegen::thread::*;
use tilewright_sim::{Arg, FaultKind};

/// One element that is cleared, incremented by every thread, and read by all.
struct Sum {
    cleared: bool,
    added: bool,
    /// Does the first warp read it before it adds?
    looks: bool,
}

const RIGHT: Sum = Sum { cleared: true, added: true, looks: false };

fn sum(threads: u32, how: &Sum) -> Kernel {
    let mut b = Build::new(threads);
    let (to, s) = (b.tensor("to", I32, true), b.shared("s", I32, 1, ""));
    let (x, one, t, zero) = (b.reg("x", I32, 1), b.reg("one", I32, 1), b.thread(), b.int(0));
    let first = b.lt(t, 1);
    let mut body = [b.fill(x, 1, 0.0, I32), b.fill(one, 1, 1.0, I32)].concat();
    let clear = b.store(s, zero, x, 1);
    body.push(b.if_(first, vec![clear]));
    body.extend(how.cleared.then(|| b.sync()));
    if how.looks {
        let look = b.load(x, s, zero, 1);
        body.push(b.if_(first, vec![look]));
    }
    body.push(b.s(Op::Atomic {
        to: mem(s, zero),
        op: Change::Add,
        value: Val::Reg(one, zero),
        guard: None,
        order: MemoryOrder::Relaxed,
        scope: Scope::Grid,
        old: None,
        expected: None,
    }));
    body.extend(how.added.then(|| b.sync()));
    body.extend([b.load(x, s, zero, 1), b.store(to, t, x, 1)]);
    b.done(body)
}

#[test]
fn updates_are_not_forgotten() {
    let args = [Arg::output::<i32>([128])];
    assert_eq!(fine(&sum(128, &RIGHT), &args).get::<i32>("to").unwrap(), [128; 128]);
    for how in [Sum { added: false, ..RIGHT }, Sum { looks: true, ..RIGHT }] {
        let result = fault(&sum(128, &how), &args);
        assert_eq!(result.kind(), FaultKind::Race, "{result}");
    }
    let result = fault(&sum(128, &Sum { cleared: false, ..RIGHT }), &args);
    assert!(matches!(result.kind(), FaultKind::Race | FaultKind::Unwritten), "{result}");
}

/// Lanes of one warp in lockstep: an access of one lane does not order accesses of the others.
#[test]
fn an_update_hides_no_earlier_access_of_its_thread() {
    let args = [Arg::output::<i32>([32])];
    fine(&sum(32, &RIGHT), &args);
    check(
        &sum(32, &Sum { cleared: false, ..RIGHT }),
        &args,
        "
kernel `probe`: a race
  nothing orders two accesses to element 0 of `s`
  thread 1 of block (0, 0, 0) updates element 0 of `s`
    at probe.rs:5
  thread 0 of block (0, 0, 0) writes it
    at probe.rs:3
help: put a barrier, sync_threads(), between the two
seen in variant 1, with seed 0",
    );
    let result = fault(&sum(32, &Sum { looks: true, ..RIGHT }), &args);
    assert_eq!(result.parties()[1].doing, "reads it", "{result}");
}

/// Two warps add, each synchronises a third one with its own additions alone, and that one reads.
#[test]
fn every_update_that_is_not_ordered_is_kept() {
    let kernel = |tells: i64| {
        let mut b = Build::new(96);
        let (to, s) = (b.tensor("to", I32, true), b.shared("s", I32, 1, ""));
        let (x, one, t, zero) = (b.reg("x", I32, 1), b.reg("one", I32, 1), b.thread(), b.int(0));
        let pair = b.bar(Bar::Named { id: 1, threads: 32 * (tells as u32 + 1) });
        let first = b.lt(t, 1);
        let mut body = [b.fill(x, 1, 0.0, I32), b.fill(one, 1, 1.0, I32)].concat();
        let clear = b.store(s, zero, x, 1);
        body.extend([b.if_(first, vec![clear]), b.sync()]);
        let add = |b: &mut Build| {
            b.s(Op::Atomic {
                to: mem(s, zero),
                op: Change::Add,
                value: Val::Reg(one, zero),
                guard: None,
                order: MemoryOrder::Relaxed,
                scope: Scope::Grid,
                old: None,
                expected: None,
            })
        };
        let mut adds = vec![add(&mut b)];
        adds.push(b.s(Op::sync(pair)));
        let mut last = vec![add(&mut b)];
        last.extend((tells == 2).then(|| b.s(Op::sync(pair))));
        let index = b.sum(&[(t, 1)], -64);
        let reads = vec![b.s(Op::sync(pair)), b.load(x, s, zero, 1), b.store(to, index, x, 1)];
        let role =
            |name: &str, at, body| Role { name: name.into(), warps: (at, at + 1), registers: None, body };
        let roles = vec![role("adds", 0, adds), role("adds too", 1, last), role("reads", 2, reads)];
        body.push(b.s(Op::Roles(roles)));
        b.done(body)
    };
    let args = [Arg::output::<i32>([32])];
    assert_eq!(fine(&kernel(2), &args).get::<i32>("to").unwrap(), [64; 32]);
    // If the second warp adds after the read, its addition is reported.
    assert_eq!(fault(&kernel(1), &args).kind(), FaultKind::Race);
}
