//! Arrays that overlap in shared memory.

use super::common::*;
use tilewright_codegen::Elem::{F32, I32};
use tilewright_codegen::thread::*;
use tilewright_sim::{Arg, FaultKind};

/// All write `a`, then `b`, which overlaps `a` by half, and read `a` or `b`.
fn overlapping(barrier: bool, reads_a: bool) -> Kernel {
    let mut b = Build::new(32);
    let to = b.tensor("to", F32, true);
    let (first, second) = (b.shared("a", F32, 32, ""), b.shared("b", I32, 32, ""));
    let (x, n, t) = (b.reg("x", F32, 1), b.reg("n", I32, 1), b.thread());
    let other = b.sum(&[(t, -1)], 31);
    let mut body = [b.fill(x, 1, 1.0, F32), b.fill(n, 1, 2.0, I32)].concat();
    body.push(b.store(first, other, x, 1));
    body.extend(barrier.then(|| b.sync()));
    body.extend([b.store(second, t, n, 1), b.sync()]);
    body.push(if reads_a { b.load(x, first, t, 1) } else { b.load(n, second, t, 1) });
    body.push(b.store(to, t, x, 1));
    let mut kernel = b.done(body);
    kernel.shared[1].offset = 64;
    kernel.launch.shared_bytes = 192;
    kernel
}

#[test]
fn arrays_that_overlap_are_named() {
    let args = [Arg::output::<f32>([32])];
    // One after the other is correct.
    fine(&overlapping(true, false), &args);
    check(
        &overlapping(false, false),
        &args,
        "
kernel `probe`: a race
  nothing orders two accesses to element 0 of `b`, which lies in the bytes of `a` as well: `b` is in bytes 64 to 191 of shared memory, `a` in bytes 0 to 127
  thread 0 of block (0, 0, 0) writes element 0 of `b`
    at probe.rs:4
  thread 15 of block (0, 0, 0) writes element 16 of `a`
    at probe.rs:3
help: put a barrier, sync_threads(), between the two, or give the arrays bytes of their own
seen in variant 1, with seed 0",
    );
    check(
        &overlapping(true, true),
        &args,
        "
kernel `probe`: a read of an array that another one has overwritten
  element 16 of `a` is read, and `b` was written there since: `a` is in bytes 0 to 127 of shared memory, `b` in bytes 64 to 191
  thread 16 of block (0, 0, 0) reads element 16 of `a`
    at probe.rs:7
  thread 0 of block (0, 0, 0) wrote element 0 of `b`
    at probe.rs:5
help: give the arrays bytes of their own, or write `a` again before it is read
seen in variant 1, with seed 0",
    );
    let reported = fault(&overlapping(true, true), &args);
    assert_eq!(reported.kind(), FaultKind::Overwritten);
}

/// A copy in flight into one array, and a read of the other.
#[test]
fn a_copy_into_an_array_that_overlaps() {
    let mut b = Build::new(32);
    let (from, to) = (b.tensor("from", F32, false), b.tensor("to", F32, true));
    let (first, second) = (b.shared("a", F32, 32, ""), b.shared("b", F32, 32, ""));
    let (x, t) = (b.reg("x", F32, 1), b.thread());
    let mut body = b.fill(x, 1, 1.0, F32);
    body.extend([b.store(first, t, x, 1), b.sync()]);
    body.push(b.atom("cp_async_4", vec![AtomArg::At(mem(second, t)), AtomArg::At(mem(from, t))]));
    body.extend([b.s(Op::Commit(Queue::CpAsync)), b.load(x, first, t, 1), b.store(to, t, x, 1)]);
    let mut kernel = b.done(body);
    kernel.shared[1].offset = 0;
    let reported = fault(&kernel, &[Arg::tensor(&count(32), [32]), Arg::output::<f32>([32])]);
    assert_eq!(reported.kind(), FaultKind::InFlight, "{reported}");
    assert!(
        reported.message().contains("`a` is in bytes 0 to 127 of shared memory, `b` in bytes 0 to 127"),
        "{reported}"
    );
    assert_eq!(reported.parties()[1].doing, "writes element 0 of `b` by an asynchronous copy", "{reported}");
}
