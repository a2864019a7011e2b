//! Accesses that are out of bounds, misaligned or uninitialised.

use super::common::*;
use tilewright_codegen::Elem::F32;
use tilewright_codegen::thread::*;
use tilewright_sim::{Arg, FaultKind, Options, run_program};

/// Each thread copies an element, from `from` to `to`.
pub(crate) fn copy(shift: i64) -> Kernel {
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
help: check the layouts and tiles of this index, and the predicate that guards the access
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
        Op::If { then, other, .. } => Op::If { cond: bad.exprs.lt(thread, four).into(), then, other },
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
help: check the layouts and tiles of this index, and the predicate that guards the access
seen in variant 1, with seed 0",
    );
    let mut b = Build::new(32);
    let x = b.reg("x", F32, 4);
    let body = vec![b.set(x, 4, Val::lit(0.0, F32))];
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
kernel `probe`: an element of the result written twice
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
kernel `probe`: an unwritten element of the result
  `to` at (0, 8), element 32 was never written
help: make the tiles cover the whole tensor, or pass it as `Arg::in_out`
seen in variant 1, with seed 0",
    );
}

#[test]
fn uninitialised_reads() {
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
kernel `probe`: an uninitialised read
  element 0 of `s` has not been written
  thread 0 of block (0, 0, 0) reads element 0 of `s`
    at probe.rs:1
help: write the whole tile before it is read
seen in variant 1, with seed 0",
    );
    let mut b = Build::new(32);
    let to = b.tensor("to", F32, true);
    let x = b.reg("x", F32, 2);
    let t = b.thread();
    let some = b.lt(t, 20);
    let set = b.set(x, 0, Val::lit(1.0, F32));
    let body = vec![b.if_(some, vec![set]), b.store(to, t, x, 1)];
    check(
        &b.done(body),
        &[Arg::output::<f32>([32])],
        "
kernel `probe`: an uninitialised read
  element 0 of the registers `x` has not been written
  threads 20-31 of block (0, 0, 0) read element 0 of the registers `x`
    at probe.rs:3
help: initialise the registers first, as registers_like(…, 0.0) does
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
help: this is a bug in the generator: 32 bits may not be enough for this index
seen in variant 1, with seed 0",
    );
}
