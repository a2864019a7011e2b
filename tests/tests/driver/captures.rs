//! Another thread captures a stream of cudarc into a graph around any of our calls: no work on a tensor may
//! end up in the graph, which could run after the tensor is freed.

use crate::MATMUL;
use tilewright_runtime::cudarc::driver::sys::CUgraphInstantiate_flags;
use tilewright_runtime::cudarc::driver::sys::CUstreamCaptureMode::{
    CU_STREAM_CAPTURE_MODE_GLOBAL as GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED as RELAXED,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as LOCAL,
};
use tilewright_runtime::cudarc::driver::{CudaSlice, CudaStream};
use tilewright_runtime::{Device, DeviceTensor, Error, LaunchMatmul, Launched, Stream, TensorMut, TensorRef};

use crate::harness::{Call, Fake, Run, mark};

type Matrix = DeviceTensor<f32, 2>;

/// Begins a capture of the shared stream before every call, and ends it after each of the calls that follow.
#[track_caller]
fn at_every_moment(run: impl Fn(&Fake) -> Run) {
    for pools in [1, 0] {
        let fake = Fake::new().set("FAKE_ATTRIBUTES", format!("115:{pools}"));
        let right = run(&fake).sound();
        assert_eq!(right.line("outcome: "), "fine");
        let reached = right.line("reached: ");
        // Only calls with a stream, launches and event queries matter: ending after another is the same as
        // before it.
        let matters =
            |call: &Call| !call.get("stream").is_empty() || call.is_launch() || call.name == "cuEventQuery";
        let calls: Vec<_> = right.marked().filter(|(_, call)| matters(call)).collect();
        let begins = calls.iter().enumerate().filter(|(_, (_, call))| call.get("stream") == reached);
        let (mut moments, mut refused) = (0, 0);
        for (index, (first, begin)) in begins {
            // Without memory pools only frees differ.
            for (last, end) in calls[index..].iter().take(if pools == 1 { 12 } else { 3 }) {
                let captured = run(&fake.clone().set("FAKE_CAPTURE", format!("{first}-{last}")));
                let what =
                    format!("captured from call {first}, {}, to call {last}, {}", begin.name, end.name);
                captured.check(captured.ok, format!("{what}: it panicked, or died"));
                captured.check(captured.hazards.is_empty(), format!("{what}: there are hazards"));
                let outcome = captured.line("outcome: ");
                let errors = ["the driver failed while ", "the stream of a buffer is being captured"];
                let fine = outcome == "fine";
                let known = fine || errors.iter().any(|begin| outcome.starts_with(begin));
                captured.check(known, format!("{what}: {outcome}"));
                moments += 1;
                refused += usize::from(!fine);
            }
        }
        assert!(moments > 20 && refused > 0, "{moments} moments, {refused} refused");
    }
}

/// A stream of cudarc, which any thread may capture.
fn reached(device: &Device) -> std::sync::Arc<CudaStream> {
    let own = device.context().new_stream().unwrap();
    println!("reached: {:#x}", own.cu_stream() as usize);
    own
}

fn report<T>(outcome: Result<T, Error>) {
    println!("outcome: {}", outcome.map_or_else(|why| why.to_string(), |_| "fine".into()));
}

fn product(stream: &Stream, a: &CudaSlice<f32>, c: &mut CudaSlice<f32>) -> Result<Launched, Error> {
    let a = TensorRef::new(a, [128, 8]);
    MATMUL.launch(stream, a.clone(), a, TensorMut::new(c, [128, 128]))
}

#[test]
fn slices_that_are_lent() {
    at_every_moment(|fake| {
        fake.run(|| {
            let device = Device::open(0).unwrap();
            let (stream, own) = (device.stream().unwrap(), reached(&device));
            let (a, mut c) =
                (own.alloc_zeros::<f32>(1024).unwrap(), own.alloc_zeros::<f32>(128 * 128).unwrap());
            product(&stream, &a, &mut c).unwrap();
            device.synchronize().unwrap();
            mark(&device);
            let outcome = product(&stream, &a, &mut c);
            mark(&device);
            report(outcome);
        })
    });
}

#[test]
fn slices_that_become_tensors_and_slices_again() {
    at_every_moment(|fake| {
        fake.run(|| {
            let device = Device::open(0).unwrap();
            let (stream, own) = (device.stream().unwrap(), reached(&device));
            let (a, mut c) =
                (own.alloc_zeros::<f32>(1024).unwrap(), own.alloc_zeros::<f32>(128 * 128).unwrap());
            product(&stream, &a, &mut c).unwrap();
            device.synchronize().unwrap();
            let host: Vec<f32> = (0..1024).map(|n| n as f32).collect();
            let work = || -> Result<CudaSlice<f32>, Error> {
                let mut a = Matrix::from_slice(a, [128, 8])?;
                let mut c = Matrix::from_slice(c, [128, 128])?;
                a.write(&host)?;
                MATMUL.launch(&stream, &a, &a, &mut c)?;
                drop(c);
                assert_eq!(a.to_host()?, host, "what was written is read");
                a.into_slice()
            };
            mark(&device);
            let outcome = work();
            mark(&device);
            report(outcome);
        })
    });
}

/// A thread that captures another stream may launch meanwhile, and its capture remains valid.
#[test]
fn captures_of_other_streams() {
    let run = Fake::new().run(|| {
        let device = Device::open(0).unwrap();
        let (stream, own) = (device.stream().unwrap(), reached(&device));
        let (a, mut c) = (own.alloc_zeros::<f32>(1024).unwrap(), own.alloc_zeros::<f32>(128 * 128).unwrap());
        product(&stream, &a, &mut c).unwrap();
        let other = device.context().new_stream().unwrap();
        for mode in [GLOBAL, LOCAL, RELAXED] {
            other.begin_capture(mode).unwrap();
            product(&stream, &a, &mut c).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| product(&stream, &a, &mut c).unwrap());
            });
            other.end_capture(CUgraphInstantiate_flags(0)).unwrap();
        }
    });
    assert_eq!(run.sound().launches(), 7);
}

/// A slice that a tensor is converted to is on its own stream: the launch stream is never exposed.
#[test]
fn the_stream_of_launches_is_never_handed_out() {
    let run = Fake::new().run(|| {
        let device = Device::open(0).unwrap();
        let stream = device.stream().unwrap();
        let mut c = Matrix::zeros(&stream, [128, 128]).unwrap();
        let a = Matrix::zeros(&stream, [128, 8]).unwrap();
        MATMUL.launch(&stream, &a, &a, &mut c).unwrap();
        let mut slice: CudaSlice<f32> = c.into_slice().unwrap();
        // SAFETY: it is only compared.
        let launches = unsafe { stream.cuda_stream() }.cu_stream();
        assert_ne!(slice.stream().cu_stream(), launches);
        let own = slice.stream().clone();
        own.memset_zeros(&mut slice).unwrap();
    });
    run.sound();
}
