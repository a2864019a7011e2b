//! The stand-in for the driver detects the hazards it is built to detect: mistakes that cudarc's safe
//! functions allow.

use std::sync::Arc;
use tilewright_runtime::cudarc::driver::result::memcpy_dtod_async;
use tilewright_runtime::cudarc::driver::result::module::load_data;
use tilewright_runtime::cudarc::driver::sys::CUgraphInstantiate_flags;
use tilewright_runtime::cudarc::driver::sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as LOCAL;
use tilewright_runtime::cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, DevicePtrMut};

use crate::harness::{Fake, Run};

const SOURCE: &str = r#"extern "C" __global__ void f(const float* a, float* c, int n) {}"#;

/// Work that reads one buffer and writes another.
fn work(stream: &Arc<CudaStream>, a: &CudaSlice<f32>, c: &mut CudaSlice<f32>) {
    stream.memcpy_dtod(a, c).expect("a copy");
}

#[track_caller]
fn finds(run: &Run, what: &str) {
    run.check(run.ok, "it failed");
    run.check(run.hazards.iter().any(|hazard| hazard.contains(what)), format!("no `{what}`"));
}

#[test]
fn a_sound_program_has_no_hazard() {
    let run = Fake::new().run(|| {
        let context = CudaContext::new(0).unwrap();
        let stream = context.new_stream().unwrap();
        let a = stream.clone_htod(&[1.5f32; 32]).unwrap();
        let mut c = stream.alloc_zeros::<f32>(32).unwrap();
        work(&stream, &a, &mut c);
        assert_eq!(stream.clone_dtoh(&a).unwrap(), [1.5; 32]);
    });
    let run = run.sound();
    let copy = run.calls.iter().find(|call| call.name == "cuMemcpyDtoDAsync_v2").unwrap();
    assert_eq!((copy.get("bytes"), run.launches()), ("128", 0));
    assert_eq!(run.count("cuMemAllocAsync"), run.count("cuMemFreeAsync"));
}

#[test]
fn a_buffer_freed_while_a_dropped_streams_kernel_runs() {
    let run = Fake::new().run(|| {
        let context = CudaContext::new(0).unwrap();
        let default = context.default_stream();
        let a = default.clone_htod(&[1f32; 32]).unwrap();
        let mut c = default.alloc_zeros::<f32>(32).unwrap();
        let stream = context.new_stream().unwrap();
        work(&stream, &a, &mut c);
        drop(stream);
    });
    finds(&run, "is freed, and a copy may still run");
}

#[test]
fn streams_of_two_threads_race() {
    let run = Fake::new().run(|| {
        let context = CudaContext::new(0).unwrap();
        let a = context.default_stream().clone_htod(&[1f32; 32]).unwrap();
        let mut c = context.default_stream().alloc_zeros::<f32>(32).unwrap();
        for _ in 0..2 {
            // The calls are sequential, but the work on the two streams overlaps.
            let (context, a, c) = (&context, &a, &mut c);
            std::thread::scope(|scope| {
                scope
                    .spawn(move || {
                        context.bind_to_thread().unwrap();
                        work(&context.per_thread_stream(), a, c);
                    })
                    .join()
                    .unwrap()
            });
        }
    });
    finds(&run, "does not wait for a copy");
}

#[test]
fn a_graph_launched_after_its_buffer_went() {
    let run = Fake::new().run(|| {
        let context = CudaContext::new(0).unwrap();
        let stream = context.new_stream().unwrap();
        // SAFETY: the test makes this mistake on purpose.
        unsafe { context.disable_event_tracking() };
        let a = stream.clone_htod(&[1f32; 32]).unwrap();
        let mut c = stream.alloc_zeros::<f32>(32).unwrap();
        stream.begin_capture(LOCAL).unwrap();
        work(&stream, &a, &mut c);
        let graph = stream.end_capture(CUgraphInstantiate_flags(0)).unwrap().unwrap();
        graph.launch().unwrap();
        drop((a, c));
        graph.launch().unwrap();
    });
    finds(&run, "which is freed");
    assert_eq!(run.hazards.len(), 2, "{}", run.text());
}

#[test]
fn two_streams_race() {
    let run = Fake::new().run(|| {
        let context = CudaContext::new(0).unwrap();
        // SAFETY: the test makes this mistake on purpose.
        unsafe { context.disable_event_tracking() };
        let (one, two) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        let a = one.clone_htod(&[1f32; 32]).unwrap();
        let mut c = one.alloc_zeros::<f32>(32).unwrap();
        one.synchronize().unwrap();
        work(&one, &a, &mut c);
        work(&two, &a, &mut c);
        two.join(&one).unwrap();
        work(&two, &a, &mut c);
        one.join(&two).unwrap();
    });
    finds(&run, "does not wait for a copy");
    assert_eq!(run.hazards.len(), 1, "the reads do not race, and the third copy waits: {}", run.text());
}

#[test]
fn memory_of_another_device() {
    let run = Fake::new().set("FAKE_DEVICES", 2).run(|| {
        let contexts = [0, 1].map(|ordinal| CudaContext::new(ordinal).unwrap());
        let [one, two] = contexts.each_ref().map(|context| context.default_stream());
        let a = two.clone_htod(&[1f32; 32]).unwrap();
        let mut c = one.alloc_zeros::<f32>(32).unwrap();
        contexts[0].bind_to_thread().unwrap();
        let ((from, _a), (to, _c)) = (a.device_ptr(&two), c.device_ptr_mut(&one));
        // SAFETY: the test makes this mistake on purpose.
        unsafe { memcpy_dtod_async(to, from, 128, one.cu_stream()) }.unwrap();
        contexts.iter().for_each(|context| context.synchronize().unwrap());
    });
    finds(&run, "of another context");
}

#[test]
fn calls_fail_when_asked() {
    let run = Fake::new().set("FAKE_FAIL", "cuMemAllocAsync:2:2,*:20+:719").run(|| {
        let context = CudaContext::new(0).unwrap();
        let stream = context.default_stream();
        let _first = stream.alloc_zeros::<f32>(32).unwrap();
        let second = stream.alloc_zeros::<f32>(32).unwrap_err().to_string();
        let lost = (0..20).find_map(|_| stream.alloc_zeros::<f32>(32).err()).unwrap().to_string();
        println!("[{second}] [{lost}]");
    });
    run.check(run.ok && run.output.contains("OUT_OF_MEMORY"), "an error that cudarc names");
    run.check(
        run.calls[19..].iter().all(|call| call.status == 719),
        "every call from the twentieth on fails",
    );
}

#[test]
fn devices_are_as_asked() {
    let fake = Fake::new().set("FAKE_DEVICES", 2).set("FAKE_ARCH", "80,75").set("FAKE_ATTRIBUTES", "97:1234");
    fake.run(|| {
        use tilewright_runtime::cudarc::driver::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN as OPTIN;
        assert_eq!(CudaContext::device_count().unwrap(), 2);
        let contexts = [0, 1].map(|ordinal| CudaContext::new(ordinal).unwrap());
        assert_eq!(contexts.each_ref().map(|context| context.compute_capability().unwrap()), [(8, 0), (7, 5)]);
        assert_eq!(contexts[1].attribute(OPTIN).unwrap(), 1234);
        assert!(CudaContext::new(2).is_err());
        // A binary for another architecture is refused.
        let nvrtc = tilewright_runtime::nvrtc::Nvrtc::find(&[]).unwrap();
        for (arch, loads) in [("sm_90a", false), ("sm_86", false), ("sm_80", true), ("sm_75", false), ("sm_80a", true)] {
            contexts[0].bind_to_thread().unwrap();
            let cubin = nvrtc.compile(SOURCE, "f", arch, &[]).unwrap().cubin;
            // SAFETY: the binary is complete, as the compiler wrote it.
            let loaded = unsafe { load_data(cubin.as_ptr().cast()) };
            assert_eq!(loaded.is_ok(), loads, "{arch}");
        }
    })
    .sound();
}
