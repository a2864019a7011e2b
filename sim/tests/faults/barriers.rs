//! Divergent barriers, loop exits and shuffles.

use super::common::*;
use tilewright_codegen::Elem::{F32, I32, U32};
use tilewright_codegen::index::{Int, Ix};
use tilewright_codegen::thread::*;
use tilewright_sim::FaultKind;

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
    fine(&left_by(40, false), &[]);
    fine(&left_by(40, true), &[]);
}

#[test]
fn barriers_in_loops_that_not_all_leave() {
    let mut b = Build::new(64);
    let t = b.thread();
    let some = b.lt(t, 40);
    let looped = b.repeat(3, Unroll::No, |b, k| {
        let Int::Var(of) = b.e().get(k).int else { unreachable!() };
        vec![b.s(Op::Leave { of, cond: some }), b.sync()]
    });
    check(
        &b.done(vec![looped]),
        &[],
        "
kernel `probe`: divergent threads where all must arrive
  `bar.sync` takes all 32 lanes of a warp, and 24 execute it
  threads 40-63 of block (0, 0, 0) execute `bar.sync`
    at probe.rs:2
  threads 32-39 of block (0, 0, 0) of the same warp do not
    at probe.rs:2
help: keep it out of conditions that differ between threads
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
kernel `probe`: divergent threads where all must arrive
  `bar.sync` takes all 32 lanes of a warp, and 8 execute it
  threads 32-39 of block (0, 0, 0) execute `bar.sync`
    at probe.rs:1
  threads 40-63 of block (0, 0, 0) of the same warp do not
    at probe.rs:1
help: keep it out of conditions that differ between threads
seen in variant 1, with seed 0"
            .trim(),
    );
    let mut b = Build::new(64);
    let t = b.thread();
    let some = b.lt(t, 32);
    let sync = b.sync();
    let body = vec![b.if_(some, vec![sync])];
    let text = fault(&b.done(body), &[]).to_string();
    assert!(text.contains("threads 32-63 have ended, and the others wait forever"), "{text}");
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
        let pair = b.s(Op::sync(bar));
        let roles = vec![Role { name: "pair".into(), warps: (0, 2), registers: None, body: vec![pair] }];
        let body = vec![b.s(Op::Roles(roles)), b.sync()];
        b.done(body)
    };
    fine(&kernel(64), &[]);
    let reported = fault(&kernel(96), &[]);
    assert_eq!(reported.kind(), FaultKind::Deadlock, "{reported}");
    assert!(
        reported.to_string().contains("wait at barrier 1, where 64 of 96 threads have arrived"),
        "{reported}"
    );
}

#[test]
fn exchanges_take_whole_warps() {
    type Exchange = fn(Val, Ix) -> Val;
    let exchanges: [(&str, Exchange); 5] = [
        ("shfl.sync", |x, by| x.butterfly(by)),
        ("shfl.sync", |x, lane| Val::Shuffle(Box::new(x), Lane::InGroup(8, Box::new(lane.into())))),
        ("vote.sync", |x, _| Val::Vote(Vote::Ballot, Box::new(x))),
        ("match.sync", |x, _| Val::Vote(Vote::Match, Box::new(x))),
        ("redux.sync", |x, _| Val::Vote(Vote::All(Bin::Add), Box::new(x))),
    ];
    for (instruction, exchange) in exchanges {
        let mut b = Build::new(32);
        let (x, y, t, zero) = (b.reg("x", I32, 1), b.reg("y", U32, 1), b.thread(), b.int(0));
        let by = b.int(1);
        let mut body = b.fill(x, 1, 1.0, I32);
        let exchange = b.set(y, 0, exchange(Val::Reg(x, zero), by));
        let some = b.lt(t, 16);
        body.push(b.if_(some, vec![exchange]));
        let text = fault(&b.done(body), &[]).to_string();
        let wanted = format!("`{instruction}` takes all 32 lanes of a warp, and 16 execute it");
        assert!(text.contains(&wanted), "{text}");
    }
}

/// Two of four warps complete a barrier, whichever arrive first.
#[test]
fn a_named_barrier_to_which_others_come() {
    let mut b = Build::new(128);
    let bar = b.bar(Bar::Named { id: 1, threads: 64 });
    let body = vec![b.s(Op::sync(bar))];
    let reported = fault(&b.done(body), &[]);
    assert_eq!(reported.kind(), FaultKind::Divergence, "{reported}");
    assert_eq!(reported.message(), "barrier 1 is for 64 threads, and 96 arrive at it");
    assert_eq!(reported.parties()[1].doing, "arrived at it before");
    assert!(reported.help().contains("give each group of threads one of its own"), "{reported}");
}

/// A warp writes, arrives, and another reads; lanes that arrive after a phase is complete count in the next
/// one.
#[test]
fn arrivals_count_in_one_phase() {
    let kernel = |arrivals: u32, rounds: i64, back: bool| {
        let mut b = Build::new(64);
        let to = b.tensor("to", F32, true);
        let s = b.shared("s", F32, 32, "");
        let (full, empty, zero) = (b.mbarriers("full", 1, arrivals), b.mbarriers("empty", 1, 32), b.int(0));
        let (x, t) = (b.reg("x", F32, 1), b.thread());
        let mut write = b.fill(x, 1, 1.0, F32);
        write.push(b.repeat(rounds, Unroll::No, |b, iteration| {
            let before = b.sum(&[(iteration, 1)], -1);
            let mut body = Vec::new();
            body.extend(back.then(|| b.s(Op::Await { bar: empty, slot: zero, phase: before })));
            body.extend([b.store(s, t, x, 1)]);
            body.push(b.s(Op::Arrive { bar: full, slot: zero, peer: None, bytes: None }));
            body
        }));
        let read = b.repeat(rounds, Unroll::No, |b, iteration| {
            let (other, position) = (b.sum(&[(t, -1)], 63), b.sum(&[(t, 1), (iteration, 32)], -32));
            vec![
                b.s(Op::Await { bar: full, slot: zero, phase: iteration }),
                b.load(x, s, other, 1),
                b.store(to, position, x, 1),
                b.s(Op::Arrive { bar: empty, slot: zero, peer: None, bytes: None }),
            ]
        });
        let role =
            |name: &str, at, body| Role { name: name.into(), warps: (at, at + 1), registers: None, body };
        let mut body = b.start(&[full, empty]);
        body.push(b.s(Op::Roles(vec![role("writer", 0, write), role("reader", 1, vec![read])])));
        b.done(body)
    };
    let args = |rounds: usize| [tilewright_sim::Arg::output::<f32>([32 * rounds])];
    fine(&kernel(32, 2, true), &args(2));
    let late = "is complete, and nothing orders this arrival after it: it might count for phase 0";
    let reported = fault(&kernel(31, 1, true), &args(1));
    assert_eq!(reported.kind(), FaultKind::Mbarrier, "{reported}");
    assert!(reported.message().contains(late), "{reported}");
    assert_eq!(
        (&reported.parties()[0].threads[..], &*reported.parties()[0].doing),
        (&[31][..], "arrives at it, unordered with that completion")
    );
    // The writer may arrive before the previous phase is complete.
    let reported = fault(&kernel(32, 2, false), &args(2));
    assert!(matches!(reported.kind(), FaultKind::Mbarrier | FaultKind::Race), "{reported}");
}
