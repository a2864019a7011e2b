//! The host's work for launches: allocations, and queries to the driver.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crate::MATMUL;
use tilewright::prelude::*;
use tilewright_runtime::{Built, Device, DeviceTensor, LaunchMatmul, Stored, Stream};
use tilewright_sim::{Arg, Options};
use tilewright_tests::gallery;

use crate::harness::{Fake, Run, mark};

/// The system's allocator, which counts.
struct Counting;

thread_local! {
    /// Allocations of this thread.
    static COUNT: Cell<usize> = const { Cell::new(0) };
    /// The bytes that this thread has allocated and not freed, and the most so far.
    static BYTES: Cell<(i64, i64)> = const { Cell::new((0, 0)) };
}

fn count(bytes: i64) {
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
    hold(bytes);
}

fn hold(bytes: i64) {
    let _ = BYTES.try_with(|all| {
        let (now, most) = all.get();
        all.set((now + bytes, most.max(now + bytes)));
    });
}

// SAFETY: everything is the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        hold(-(layout.size() as i64));
        // SAFETY: the caller's.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: the caller's.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn stream() -> Stream {
    Device::open(0).unwrap().stream().unwrap()
}

/// Allocations of a launch after several of the same shape.
fn again<T: Stored<Elem = T> + tilewright_codegen::element::Element>(
    keys: &str,
    [m, n, k]: [usize; 3],
) -> usize {
    // SAFETY: the kernel was generated from keys.
    let kernel = unsafe { Built::new(gallery::matmul(keys).kernel.unwrap()) };
    let stream = stream();
    let zeros = |extents| DeviceTensor::<T, 2>::zeros(&stream, extents).unwrap();
    let (a, b, mut c) = (zeros([m, k]), zeros([n, k]), zeros([m, n]));
    let mut launch = || {
        let (a, b, c) = (a.view(), b.view(), c.view_mut());
        let (a, b) = if keys.contains("k_major") { (a.row_major(), b.row_major()) } else { (a, b) };
        let given = &mut [a.into(), b.into(), c.into()];
        let before = COUNT.get();
        let launched = kernel.launch_with(&stream, given).unwrap();
        drop(launched);
        COUNT.get() - before
    };
    assert!(launch() > 0);
    launch();
    launch()
}

#[test]
fn a_launch_again_allocates_nothing() {
    let run = Fake::new().run(|| {
        const ALTERNATIVES: &str = "dtype=bf16 arch=90 a=k_major b=k_major";
        assert_eq!(again::<f32>("schedule=(vec=4) bk=16 stages=3", [256, 128, 64]), 0);
        assert_eq!(again::<bf16>(ALTERNATIVES, [256, 128, 64]), 0);
        // Two operands are packed.
        assert_eq!(again::<bf16>(ALTERNATIVES, [256, 128, 71]), 0);
    });
    run.sound();
}

/// Launches on a stream between two marks.
fn marked(stream: &Stream) {
    let zeros = |extents| DeviceTensor::<f32, 2>::zeros(stream, extents).unwrap();
    let (a, b, mut c) = (zeros([128, 8]), zeros([128, 8]), zeros([128, 128]));
    let mut launch = || MATMUL.launch(stream, &a, &b, &mut c).unwrap();
    launch();
    mark(stream.device());
    launch();
    mark(stream.device());
}

#[track_caller]
fn asks(run: Run, times: usize) {
    let run = run.sound();
    assert_eq!(run.marked().filter(|(_, call)| call.name == "cuStreamIsCapturing").count(), times);
    assert_eq!(run.marked().filter(|(_, call)| call.is_launch()).count(), 1);
}

#[test]
fn a_launch_does_not_ask_whether_a_private_stream_is_captured() {
    asks(Fake::new().run(|| marked(&stream())), 0);
}

#[test]
fn a_launch_asks_before_and_after_whether_a_shared_stream_is_captured() {
    let run = Fake::new().run(|| {
        let stream = stream();
        // SAFETY: no work is submitted to it.
        let _ = unsafe { stream.cuda_stream() };
        marked(&stream);
    });
    asks(run, 2);
}

/// Sums of products that several blocks of a last wave compute, added to `c`.
#[kernel(arch = 80, threads = 128)]
fn added(
    a: &Tensor<f16, (M, K), (lda, _1)>,
    b: &Tensor<f16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    persistent();
    let (ga, gb) = (tile(a, (64, 32), (block.x, _)), tile(b, (32, 32), (block.y, _)));
    let (sa, sb) = (shared::<f16>((64, 32)), shared::<f16>((32, 32)));
    let mut acc = tiled_mma::<f16, f32>().accumulators((64, 32), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2, split = blocks(4)) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (64, 32), (block.x, block.y)), how = "atomic_add");
}

/// Each sum had the clocks of all threads: 9 GB for a product of usual size.
#[test]
fn the_simulator_keeps_no_clocks_of_sums() {
    let (m, n, k) = (128, 64, 256);
    let ones = |count| vec![f16::from_f32(1.0); count];
    let (a, b) = (ones(m * k), ones(n * k));
    let args = [
        Arg::tensor(&a, [m, k]).strides([k, 1]),
        Arg::tensor(&b, [n, k]).strides([k, 1]),
        Arg::in_out(&vec![1.0f32; m * n], [m, n]).strides([n, 1]),
    ];
    let kernel = added().def().generate().unwrap();
    let (before, _) = BYTES.get();
    BYTES.set((before, before));
    let options = Options { threads: 1, ..Options::default() };
    let outcome = tilewright_sim::run(&kernel, &args, &options).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.get::<f32>("c").unwrap(), vec![1.0 + k as f32; m * n]);
    let megabytes = (BYTES.get().1 - before) / 1_000_000;
    assert!(outcome.grid()[0] > 4 && megabytes < 40, "{megabytes} MB by {:?} blocks", outcome.grid());
}
