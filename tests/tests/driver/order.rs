//! Launches and drops in every order: no memory is freed or overwritten while a kernel may run.

use crate::MATMUL;
use tilewright::prelude::*;
use tilewright_codegen::element::{Element, bf16, f16};
use tilewright_runtime::cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use tilewright_runtime::{
    Device, DeviceTensor, Launch, LaunchMatmul, Plain, Stored, Stream, TensorMut, TensorRef,
};

use crate::harness::{Fake, mark};

type Matrix = DeviceTensor<f32, 2>;

fn device() -> Device {
    Device::open(0).unwrap()
}

fn zeros(stream: &Stream, extents: [usize; 2]) -> Matrix {
    Matrix::zeros(stream, extents).unwrap()
}

/// Both kinds of allocation: stream-ordered from a memory pool, and synchronous.
fn both(check: impl Fn(&Fake)) {
    check(&Fake::new());
    check(&Fake::new().set("FAKE_ATTRIBUTES", "115:0"));
}

#[test]
fn the_launch_stream_is_dropped_while_its_kernel_runs() {
    both(|fake| {
        let run = fake.run(|| {
            let device = device();
            let own = device.stream().unwrap();
            let (a, b, mut c) = (zeros(&own, [128, 8]), zeros(&own, [128, 8]), zeros(&own, [128, 128]));
            let stream = device.stream().unwrap();
            MATMUL.launch(&stream, &a, &b, &mut c).unwrap();
            drop(stream);
            drop((a, b, c));
            drop(own);
        });
        let run = run.sound();
        let index = |name: &str| run.calls.iter().position(|call| call.name == name && call.status == 0);
        // The buffers' stream waits for the kernel before anything is freed on it.
        let launch = index("cuLaunchKernel").unwrap();
        let waits =
            run.calls[launch..].iter().position(|call| call.name == "cuStreamWaitEvent").unwrap() + launch;
        let frees = |call: &&str| call.starts_with("cuMemFree");
        let freed = run.calls.iter().position(|call| frees(&&*call.name)).unwrap();
        let destroyed = index("cuStreamDestroy_v2").unwrap();
        run.check(launch < waits && waits < destroyed && waits < freed, "launch, wait, then the rest");
    });
}

#[test]
fn every_buffer_on_a_stream_of_its_own_and_every_order_of_drops() {
    both(|fake| {
        let run = fake.run(|| {
            let device = device();
            for first in 0..5 {
                let mut streams: Vec<Option<Stream>> = (0..4).map(|_| device.stream().ok()).collect();
                let on = |n: usize| streams[n].as_ref().unwrap();
                let (a, b, mut c) =
                    (zeros(on(0), [128, 8]), zeros(on(1), [128, 8]), zeros(on(2), [128, 128]));
                MATMUL.launch(on(3), &a, &b, &mut c).unwrap();
                // One of them is dropped first; the rest in the order of declaration, or in reverse.
                if let Some(stream) = streams.get_mut(first) {
                    *stream = None;
                }
                let mut left: Vec<Matrix> = vec![a, b, c];
                left.rotate_left(first % 3);
                drop(left);
                drop(streams);
            }
        });
        run.sound();
    });
}

/// Slices of cudarc on the default stream alone: cudarc then records no events.
#[test]
fn lent_slices_of_the_default_stream() {
    both(|fake| {
        let run = fake.run(|| {
            let device = device();
            let default = device.context().default_stream();
            let slice = |len| default.alloc_zeros::<f32>(len).unwrap();
            let (a, b, mut c) = (slice(128 * 8), slice(128 * 8), slice(128 * 128));
            let stream = device.stream().unwrap();
            let launched = {
                let (a, b) = (TensorRef::new(&a, [128, 8]), TensorRef::new(&b, [128, 8]));
                MATMUL.launch(&stream, a, b, TensorMut::new(&mut c, [128, 128])).unwrap()
            };
            assert!(launched.waited, "nothing else keeps them");
            drop(stream);
            drop((a, b, c));
        });
        run.sound();
    });
}

#[test]
fn lent_slices_and_views_of_other_streams() {
    both(|fake| {
        let run = fake.run(|| {
            let device = device();
            let context = device.context().clone();
            let stream = device.stream().unwrap();
            for views in [false, true] {
                let own: Vec<_> = (0..3).map(|_| context.new_stream().unwrap()).collect();
                let slice = |n: usize, len| -> CudaSlice<f32> { own[n].alloc_zeros(len).unwrap() };
                let (a, b, mut c) = (slice(0, 4096), slice(1, 1024), slice(2, 128 * 128));
                if views {
                    let (a, b, mut c) = (a.slice(1024..2048), b.as_view(), c.as_view_mut());
                    let (a, b) = (TensorRef::new(&a, [128, 8]), TensorRef::new(&b, [128, 8]));
                    let launched = MATMUL.launch(&stream, a, b, TensorMut::new(&mut c, [128, 128])).unwrap();
                    // A synchronous free is not ordered by any stream, so the launch waits.
                    assert_eq!(launched.waited, std::env::var_os("FAKE_ATTRIBUTES").is_some());
                } else {
                    let (a, b) = (TensorRef::new(&a, [128, 8]), TensorRef::new(&b, [128, 8]));
                    MATMUL.launch(&stream, a, b, TensorMut::new(&mut c, [128, 128])).unwrap();
                }
                // cudarc continues to use them, on their streams and on others.
                own[2].memset_zeros(&mut c).unwrap();
                context.default_stream().memset_zeros(&mut c).unwrap();
                drop(own);
                drop((c, a, b));
            }
            drop(stream);
        });
        run.sound();
    });
}

/// A slice is converted to a tensor, used in a launch, and converted back to a slice, which cudarc uses and
/// frees.
#[test]
fn tensors_from_slices_and_back() {
    both(|fake| {
        let run = fake.run(|| {
            let device = device();
            let context = device.context().clone();
            let streams: Vec<Stream> = (0..2).map(|_| device.stream().unwrap()).collect();
            for own in [context.default_stream(), context.new_stream().unwrap()] {
                let slice = own.alloc_zeros::<f32>(128 * 128).unwrap();
                let mut c = Matrix::from_slice(slice, [128, 128]).unwrap();
                let (a, b) = (zeros(&streams[0], [128, 8]), zeros(&streams[1], [128, 8]));
                MATMUL.launch(&streams[0], &a, &b, &mut c).unwrap();
                MATMUL.launch(&streams[1], &b, &a, &mut c).unwrap();
                let mut slice: CudaSlice<f32> = c.into_slice().unwrap();
                let other = context.new_stream().unwrap();
                other.memset_zeros(&mut slice).unwrap();
                drop(other);
                drop(slice);
            }
        });
        run.sound();
    });
}

macro_rules! copies {
    ($($name:ident: $ty:ident,)*) => {$(
        #[kernel]
        fn $name<const B: usize = 128>(x: &Tensor<$ty, N>, y: &mut Tensor<$ty, N>) {
            let (x, y) = (tile(x, B, block.x), tile(y, B, block.x));
            copy(parallelize(x, layout!(B), thread.x), parallelize(y, layout!(B), thread.x));
        }
    )*};
}
copies! {
    copies_f32: f32,
    copies_f16: f16,
    copies_bf16: bf16,
}

/// A buffer that a kernel may still use becomes a slice, which cudarc overwrites on other streams.
fn overwritten<T: Element + Plain + Stored<Elem = T>>(copies: &impl Launch) {
    let device = device();
    let stream = device.stream().unwrap();
    let zeros = || DeviceTensor::<T, 1>::zeros(&stream, [1024]).unwrap();
    let (x, mut y, from) = (zeros(), zeros(), zeros());
    // A slice of cudarc that was a tensor before.
    let mut taken = DeviceTensor::<T, 1>::from_slice(zeros().into_slice::<T>().unwrap(), [1024]).unwrap();
    copies.launch_with(&stream, &mut [(&x).into(), (&mut y).into()]).unwrap();
    copies.launch_with(&stream, &mut [(&x).into(), (&mut taken).into()]).unwrap();
    let from: CudaSlice<T> = from.into_slice().unwrap();
    let other = device.context().new_stream().unwrap();
    for tensor in [y, x, taken] {
        let mut slice: CudaSlice<T> = tensor.into_slice().unwrap();
        other.memcpy_dtod(&from, &mut slice).unwrap();
    }
}

#[test]
fn slices_of_every_type_come_after_the_kernel() {
    both(|fake| {
        let run = fake.run(|| {
            overwritten::<f32>(&copies_f32());
            overwritten::<f16>(&copies_f16());
            overwritten::<bf16>(&copies_bf16());
        });
        run.sound();
    });
}

/// cudarc can have several values of one context, and each records the errors of its own streams.
#[test]
fn errors_in_another_value_of_the_context() {
    let run = |failure: &str| {
        Fake::new().set("FAKE_FAIL", failure).run(|| {
            let device = device();
            let second = CudaContext::new(0).unwrap();
            let stream = device.stream().unwrap();
            let (own, other) = (second.new_stream().unwrap(), second.new_stream().unwrap());
            let (a, mut c) =
                (own.alloc_zeros::<f32>(1024).unwrap(), own.alloc_zeros::<f32>(128 * 128).unwrap());
            other.memset_zeros(&mut c).unwrap();
            mark(&device);
            let lent = TensorRef::new(&a, [128, 8]);
            let outcome = MATMUL.launch(&stream, lent.clone(), lent, TensorMut::new(&mut c, [128, 128]));
            mark(&device);
            println!("outcome: {}", outcome.map_or_else(|why| why.to_string(), |_| "fine".into()));
            other.memset_zeros(&mut c).unwrap();
        })
    };
    let right = run("none:1:1").sound();
    assert_eq!(right.line("outcome: "), "fine");
    for (number, call) in right
        .marked()
        .filter(|(_, call)| call.name.starts_with("cuEvent") || call.name.starts_with("cuStream"))
    {
        let failed = run(&format!("*:{number}:1")).sound();
        let reported = failed.line("outcome: ").starts_with("the driver failed while ");
        // A failure of a mere cleanup is ignored.
        failed.check(reported || call.name == "cuEventDestroy_v2", format!("call {number}, {}", call.name));
    }
}

#[test]
fn results_are_read_and_written_after_the_kernel() {
    both(|fake| {
        let run = fake.run(|| {
            let device = device();
            let (own, stream) = (device.stream().unwrap(), device.stream().unwrap());
            let (mut a, b, mut c) = (zeros(&own, [128, 8]), zeros(&own, [128, 8]), zeros(&own, [128, 128]));
            for n in 0..3 {
                MATMUL.launch(&stream, &a, &b, &mut c).unwrap();
                a.write(&[n as f32; 1024]).unwrap();
                assert_eq!(a.to_host().unwrap(), [n as f32; 1024]);
                MATMUL.launch(&own, &a, &b, &mut c).unwrap();
                assert_eq!(c.to_host().unwrap().len(), 128 * 128);
            }
            // A chain of products, each reading the previous result.
            let mut d = zeros(&stream, [128, 128]);
            MATMUL.launch(&own, &c, &c, &mut d).unwrap();
            MATMUL.launch(&stream, &d, &d, &mut c).unwrap();
        });
        let run = run.sound();
        assert_eq!(run.launches(), 8);
        // Host memory is borrowed until its copy is complete.
        let calls: Vec<_> = run.calls.iter().filter(|call| !call.name.starts_with("cuCtx")).collect();
        for pair in
            calls.windows(2).filter(|pair| pair[0].name.contains("HtoD") || pair[0].name.contains("DtoH"))
        {
            let waits =
                pair[1].name == "cuStreamSynchronize" && pair[1].get("stream") == pair[0].get("stream");
            run.check(waits, format!("{:?} is not waited for", pair[0]));
        }
    });
}

#[test]
fn two_devices() {
    both(|fake| {
        let run = fake.clone().set("FAKE_DEVICES", 2).set("FAKE_ARCH", "90,80").run(|| {
            let devices = Device::all().unwrap();
            let streams: Vec<Stream> = devices.iter().map(|device| device.stream().unwrap()).collect();
            let mut all = Vec::new();
            for iteration in 0..4 {
                let stream = &streams[iteration % 2];
                let (a, b) = (zeros(stream, [128, 8]), zeros(stream, [128, 8]));
                let mut c = zeros(stream, [128, 128]);
                MATMUL.launch(stream, &a, &b, &mut c).unwrap();
                all.extend([a, b, c]);
            }
            // While the other device is current.
            for matrix in all {
                devices[0].context().bind_to_thread().unwrap();
                drop(matrix);
            }
        });
        let run = run.sound();
        assert_eq!(run.launches(), 4);
        assert_eq!(run.count("nvrtcCompileProgram"), 2, "each device has a binary of its own");
    });
}

/// The default stream has the same handle on every device.
#[test]
fn tensors_on_the_default_streams_of_two_devices() {
    both(|fake| {
        let run = fake.clone().set("FAKE_DEVICES", 2).run(|| {
            let matrix = |context: &std::sync::Arc<CudaContext>| {
                Matrix::from_slice(context.default_stream().alloc_zeros::<f32>(64).unwrap(), [8, 8]).unwrap()
            };
            let devices = Device::all().unwrap();
            let contexts: Vec<_> = devices.iter().map(|device| device.context().clone()).collect();
            let (one, two) = (matrix(&contexts[0]), matrix(&contexts[1]));
            contexts[1].bind_to_thread().unwrap();
            drop(one);
            contexts[0].bind_to_thread().unwrap();
            drop(two);
        });
        run.sound();
    });
}

#[test]
fn threads_launch_at_once() {
    both(|fake| {
        let run = fake.run(|| {
            let device = device();
            let shared = device.stream().unwrap();
            let (a, b) = (zeros(&shared, [128, 8]), zeros(&shared, [128, 8]));
            std::thread::scope(|scope| {
                for n in 0..8 {
                    let (device, shared, a, b) = (&device, &shared, &a, &b);
                    scope.spawn(move || {
                        let stream = if n % 2 == 0 { shared.clone() } else { device.stream().unwrap() };
                        for _ in 0..4 {
                            let mut c = zeros(&stream, [128, 128]);
                            MATMUL.launch(&stream, a, b, &mut c).unwrap();
                        }
                    });
                }
            });
        });
        let run = run.sound();
        assert_eq!(run.launches(), 32);
        assert_eq!(run.count("nvrtcCompileProgram"), 1, "one compiles, the others wait for it");
        assert_eq!(run.count("cuModuleLoadData"), 1);
    });
}

#[test]
fn a_foreign_stream() {
    both(|fake| {
        let run = fake.run(|| {
            let device = device();
            let foreign: std::sync::Arc<CudaStream> = device.context().new_stream().unwrap();
            // SAFETY: nobody else uses the stream, which outlives everything created on it.
            let stream = unsafe { Stream::from_cuda(foreign.clone()) }.unwrap();
            let default = device.context().default_stream();
            // SAFETY: as above.
            let default = unsafe { Stream::from_cuda(default) }.unwrap();
            let (a, b, mut c) =
                (zeros(&stream, [128, 8]), zeros(&default, [128, 8]), zeros(&stream, [128, 128]));
            MATMUL.launch(&default, &a, &b, &mut c).unwrap();
            MATMUL.launch(&stream, &a, &b, &mut c).unwrap();
            drop((foreign, stream));
            drop((c, default, b, a));
        });
        run.sound();
    });
}

#[test]
fn the_stream_of_a_thread() {
    let run = Fake::new().run(|| {
        let theirs = device().context().per_thread_stream();
        // SAFETY: one thread uses the stream.
        let stream = unsafe { Stream::from_cuda_in_thread(theirs.clone()) }.unwrap();
        let (a, b) =
            (theirs.alloc_zeros::<f32>(256 * 64).unwrap(), theirs.alloc_zeros::<f32>(128 * 64).unwrap());
        let mut c = theirs.alloc_zeros::<f32>(256 * 128).unwrap();
        let launched = MATMUL
            .launch(
                &stream,
                TensorRef::new(&a, [256, 64]),
                TensorRef::new(&b, [128, 64]),
                TensorMut::new(&mut c, [256, 128]),
            )
            .unwrap();
        assert!(!launched.waited, "buffers are freed in the order of the thread's stream");
    });
    let run = run.sound();
    let is_event = |name: &str| name.starts_with("cuEventRecord") || name.starts_with("cuStreamWaitEvent");
    run.check(!run.calls.iter().any(|call| is_event(&call.name)), "one stream needs no events");
}

#[test]
fn graphs() {
    both(|fake| {
        let run = fake.run(|| {
            let device = device();
            let stream = device.stream().unwrap();
            let (a, b, mut c) =
                (zeros(&stream, [128, 8]), zeros(&stream, [128, 8]), zeros(&stream, [128, 128]));
            MATMUL.launch(&stream, &a, &b, &mut c).unwrap();
            let mut capture = |fails: bool| {
                // SAFETY: the tensors outlive the graph, and no one else uses them.
                unsafe {
                    stream.capture(|| {
                        MATMUL.launch(&stream, &a, &b, &mut c)?;
                        if fails {
                            MATMUL.launch(&stream, &b, a.view().transposed(), &mut c)
                        } else {
                            MATMUL.launch(&stream, &a, &b, &mut c)
                        }?;
                        Ok(())
                    })
                }
            };
            let graph = capture(false).unwrap();
            graph.launch().unwrap();
            graph.launch().unwrap();
            // A refused launch ends the capture, and the stream is usable again.
            assert!(capture(true).is_err());
            drop(graph);
            MATMUL.launch(&stream, &a, &b, &mut c).unwrap();
            // A capture cannot wait for another stream's tensor.
            let other = device.stream().unwrap();
            let mut d = zeros(&other, [128, 128]);
            // SAFETY: no stream is captured.
            let refused = unsafe { stream.capture(|| MATMUL.launch(&stream, &a, &b, &mut d).map(drop)) };
            let message = refused.expect_err("a refusal").to_string();
            assert!(message.contains("made on another stream than the one that is captured"), "{message}");
            assert_eq!(c.to_host().unwrap().len(), 128 * 128);
        });
        run.sound();
    });
}

#[test]
fn a_panic_while_a_graph_is_captured() {
    both(|fake| {
        let run = fake.run(|| {
            let stream = device().stream().unwrap();
            let (a, mut c) = (zeros(&stream, [128, 8]), zeros(&stream, [128, 128]));
            MATMUL.launch(&stream, &a, &a, &mut c).unwrap();
            let panics = std::panic::AssertUnwindSafe(|| {
                // SAFETY: the tensors outlive the capture.
                let _ = unsafe {
                    stream.capture(|| {
                        MATMUL.launch(&stream, &a, &a, &mut c)?;
                        panic!("while a graph is captured")
                    })
                };
            });
            assert!(std::panic::catch_unwind(panics).is_err());
            // The stream is usable again.
            MATMUL.launch(&stream, &a, &a, &mut c).unwrap();
            assert_eq!(c.to_host().unwrap().len(), 128 * 128);
        });
        assert_eq!(run.sound().count("cuStreamEndCapture"), 1);
    });
}

/// An empty result launches no kernel; an empty input is refused elsewhere.
#[test]
fn empty_tensors() {
    both(|fake| {
        let run = fake.run(|| {
            let stream = device().stream().unwrap();
            for (m, n, k) in [(0, 128, 8), (128, 0, 8), (0, 0, 0), (0, 0, 8)] {
                let (a, b, mut c) = (zeros(&stream, [m, k]), zeros(&stream, [n, k]), zeros(&stream, [m, n]));
                let launched = MATMUL.launch(&stream, &a, &b, &mut c).unwrap();
                assert_eq!(launched.variant, None, "{launched}");
                assert!(c.to_host().unwrap().is_empty());
            }
        });
        assert_eq!(run.sound().launches(), 0);
    });
}
