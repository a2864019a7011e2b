//! Launches across streams, threads and graphs: the results show whether the order is kept.
#![allow(unsafe_code)]

use tilewright::prelude::*;

use super::stream;

#[kernel]
fn increment<const B: usize = 256>(from: &Tensor<f32, (M, N)>, to: &mut Tensor<f32, (M, N)>) {
    let (from, to) = (tile(from, (B, 1), (block.x, block.y)), tile(to, (B, 1), (block.x, block.y)));
    let threads = layout!((256, 1));
    let (from, to) = (parallelize(from, threads, thread.x), parallelize(to, threads, thread.x));
    copy(map(from, |x| x + 1.0), to);
}

const SHAPE: [usize; 2] = [1 << 16, 16];

fn zeros(stream: &Stream) -> DeviceTensor<f32, 2> {
    DeviceTensor::zeros(stream, SHAPE).unwrap()
}

fn all_are(tensor: &DeviceTensor<f32, 2>, value: f32) {
    let host = tensor.to_host().unwrap();
    let at = host.iter().position(|x| *x != value);
    assert_eq!(at.map(|at| (at, host[at])), None, "{value} is right");
}

/// A value circulates between tensors of three streams, launched on a fourth and a fifth.
#[test]
fn streams_wait_for_one_another() {
    let Some(first) = stream() else { return };
    let more: Vec<Stream> = (0..4).map(|_| first.device().stream().unwrap()).collect();
    let (mut a, mut b) = (zeros(&first), zeros(&more[0]));
    for iteration in 0..100 {
        let (from, to) = if iteration % 2 == 0 { (&a, &mut b) } else { (&b, &mut a) };
        increment().launch(&more[iteration % 4], from, to).unwrap();
    }
    all_are(&a, 100.0);
    all_are(&b, 99.0);
}

/// Tensors are dropped, and reallocated in the same memory, while kernels use them.
#[test]
fn memory_is_freed_after_its_last_use() {
    let Some(first) = stream() else { return };
    let mut kept = zeros(&first);
    for _ in 0..200 {
        let short = first.device().stream().unwrap();
        let mut between = DeviceTensor::poisoned(&short, SHAPE).unwrap();
        increment().launch(&first, &kept, &mut between).unwrap();
        increment().launch(&short, &between, &mut kept).unwrap();
        drop(short);
        drop(between);
        let _other = DeviceTensor::<f32, 2>::poisoned(&first.device().stream().unwrap(), SHAPE).unwrap();
    }
    all_are(&kept, 400.0);
}

#[test]
fn threads_share_a_stream_and_a_kernel() {
    let Some(stream) = stream() else { return };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let (mut a, mut b) = (zeros(&stream), zeros(&stream));
                for _ in 0..50 {
                    increment().launch(&stream, &a, &mut b).unwrap();
                    std::mem::swap(&mut a, &mut b);
                }
                all_are(&a, 50.0);
            });
        }
    });
}

#[test]
fn graphs_run_again() {
    let Some(stream) = stream() else { return };
    let (mut a, mut b) = (zeros(&stream), zeros(&stream));
    increment().compile_for(stream.device()).unwrap();
    // SAFETY: both tensors outlive the graph, and no one else uses them while it runs.
    let graph = unsafe {
        stream.capture(|| {
            increment().launch(&stream, &a, &mut b)?;
            increment().launch(&stream, &b, &mut a)?;
            Ok(())
        })
    }
    .unwrap();
    stream.synchronize().unwrap();
    all_are(&a, 0.0);
    for _ in 0..10 {
        graph.launch().unwrap();
    }
    all_are(&a, 20.0);
    drop(graph);
}

/// A launch on a stream captured by other code is refused: the graph could run after the tensors are freed.
#[test]
fn other_captures_are_refused() {
    use tilewright::cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
    let Some(stream) = stream() else { return };
    let (a, mut b) = (zeros(&stream), zeros(&stream));
    increment().launch(&stream, &a, &mut b).unwrap();
    stream.synchronize().unwrap();
    // SAFETY: not satisfied on purpose: the test checks that the violation is detected.
    let theirs = unsafe { stream.cuda_stream() };
    theirs.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    let refused = increment().launch(&stream, &a, &mut b).unwrap_err().to_string();
    let no_tensor = DeviceTensor::<f32, 2>::zeros(&stream, SHAPE).unwrap_err().to_string();
    let _ = theirs.end_capture(CUgraphInstantiate_flags(0));
    for refused in [refused, no_tensor] {
        assert!(refused.starts_with("the stream is being captured into a graph"), "{refused}");
    }
    increment().launch(&stream, &a, &mut b).unwrap();
    all_are(&b, 1.0);
}
