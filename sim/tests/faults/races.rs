//! Unsynchronised accesses to the same element.

use super::common::*;
use tilewright_codegen::Elem::F32;
use tilewright_codegen::thread::*;
use tilewright_sim::{Arg, FaultKind, Options, run_program};

/// Thread `t` writes `s[t]`, then reads `s[t + 1]`, with this synchronisation in between.
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
    // If the other warp has not written yet, the read is uninitialised.
    assert!(matches!(racing.kind(), FaultKind::Race | FaultKind::Unwritten), "{racing}");
    // A barrier of one warp alone orders its lanes, and no other warps.
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
fn a_read_before_the_next_iteration_writes() {
    let racing = |barrier: bool| {
        let mut b = Build::new(64);
        let to = b.tensor("to", F32, true);
        let s = b.shared("s", F32, 64, "");
        let x = b.reg("x", F32, 1);
        let t = b.thread();
        let other = b.sum(&[(t, -1)], 63);
        let mut body = b.fill(x, 1, 1.0, F32);
        let iteration = b.repeat(3, Unroll::No, |b, _| {
            let mut iteration = vec![b.store(s, t, x, 1), b.sync(), b.load(x, s, other, 1)];
            iteration.extend(barrier.then(|| b.sync()));
            iteration
        });
        body.extend([iteration, b.store(to, t, x, 1)]);
        b.done(body)
    };
    fine(&racing(true), &[Arg::output::<f32>([64])]);
    let reported = fault(&racing(false), &[Arg::output::<f32>([64])]);
    assert_eq!(reported.kind(), FaultKind::Race, "{reported}");
    assert!(reported.help().contains("sync_threads()"), "{reported}");
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
  blocks do not wait for each other, and two of them access `to` at (0), element 0
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
    let reported = fault(&b.done(body), &[Arg::output::<f32>([16])]);
    assert_eq!(reported.kind(), FaultKind::Race, "{reported}");
}

#[test]
fn results_that_depend_on_the_schedule() {
    // The last warp wins, and race detection is off.
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
