//! Every driver call fails, one after the other, or the device is lost from that call on: an error, no panic,
//! no memory freed under a running kernel, and the program can continue.

use crate::MATMUL;
use tilewright_runtime::{Device, DeviceTensor, Error, LaunchMatmul, TensorMut, TensorRef};

use crate::harness::{Fake, Run};

/// Set when the other program runs.
const ANOTHER: &str = "TILEWRIGHT_ANOTHER";

/// A whole program: two streams, tensors of both, a slice of cudarc, a stream that is dropped early.
fn program(host: &[f32]) -> Result<Vec<f32>, Error> {
    let device = Device::open(0)?;
    let (one, two) = (device.stream()?, device.stream()?);
    let a = DeviceTensor::<f32, 2>::from_host(&one, [128, 8], host)?;
    let b = DeviceTensor::<f32, 2>::zeros(&two, [128, 8])?;
    let mut c = DeviceTensor::<f32, 2>::poisoned(&one, [128, 128])?;
    MATMUL.launch(&two, &a, &b, &mut c)?;
    let made = device.context().default_stream().alloc_zeros::<f32>(128 * 128);
    if let Ok(mut slice) = made {
        MATMUL.launch(&two, &a, &b, TensorMut::new(&mut slice, [128, 128]))?;
        let three = device.stream()?;
        MATMUL.launch(
            &three,
            TensorRef::new(&slice, [128, 128]),
            &c,
            &mut DeviceTensor::<f32, 2>::zeros(&two, [128, 128])?,
        )?;
    }
    drop((two, b));
    a.to_host()
}

/// Another program: a graph, a slice converted to a tensor and back, views, threads.
fn another(host: &[f32]) -> Result<Vec<f32>, Error> {
    let device = Device::open(0)?;
    let stream = device.stream()?;
    let a = DeviceTensor::<f32, 2>::from_host(&stream, [128, 8], host)?;
    let mut c = DeviceTensor::<f32, 2>::zeros(&stream, [128, 128])?;
    MATMUL.launch(&stream, &a, &a, &mut c)?;
    // SAFETY: the tensors outlive the graph, and no one else uses them while it runs.
    let graph = unsafe { stream.capture(|| MATMUL.launch(&stream, &a, &a, &mut c).map(drop)) }?;
    graph.launch()?;
    drop(graph);
    let other = device.stream()?;
    if let Ok(slice) = device.context().new_stream().and_then(|s| s.alloc_zeros::<f32>(128 * 128)) {
        let mut d = DeviceTensor::<f32, 2>::from_slice(slice, [128, 128])?;
        let launched = std::thread::scope(|scope| {
            let thread = scope.spawn(|| MATMUL.launch(&stream, &c, &c, &mut d).map(drop));
            thread.join().expect("no panic")
        });
        launched?;
        let mut slice = d.into_slice::<f32>()?;
        let mut view = slice.slice_mut(..);
        MATMUL.launch(&stream, &a, &a, TensorMut::new(&mut view, [128, 128]))?;
    }
    drop((stream, other));
    a.to_host()
}

/// Runs a program in the child process, and prints its outcome.
fn body() {
    let host: Vec<f32> = (0..1024).map(|n| n as f32).collect();
    let before = host.clone();
    let program = if std::env::var_os(ANOTHER).is_some() { another } else { program };
    match program(&host) {
        Ok(back) => {
            assert_eq!(back, before);
            println!("outcome: fine");
        }
        Err(error) => println!("outcome: {}", error.to_string().replace('\n', " | ")),
    }
    assert_eq!(host, before);
}

/// The run ended with correct values or an error, and without hazards.
#[track_caller]
fn survived(run: &Run, what: &str) -> String {
    run.check(run.ok, format!("{what}: it panicked, or died"));
    run.check(run.hazards.is_empty(), format!("{what}: there are hazards"));
    let outcome = run
        .output
        .lines()
        .find_map(|line| line.split_once("outcome: ").map(|(_, rest)| rest))
        .unwrap_or_default();
    run.check(!outcome.is_empty(), format!("{what}: no outcome"));
    outcome.to_string()
}

/// Is this the expected message of a failed call?
fn is_reported(outcome: &str, status: i32) -> bool {
    let driver = outcome.starts_with("the driver failed while ") && outcome.contains("CUDA_ERROR");
    let absent = ["the NVIDIA driver does not start", "the NVIDIA driver sees no device", "NVRTC"];
    outcome == "fine" || driver || absent.iter().any(|words| outcome.contains(words)) && status != 0
}

/// The calls to fail at, from 1; of a run of equal queries only the first and the last.
fn places(run: &Run) -> impl Iterator<Item = usize> {
    let name = |index: usize| run.calls.get(index).map(|call| &*call.name);
    let inside =
        move |index: usize| index > 0 && name(index - 1) == name(index) && name(index) == name(index + 1);
    (0..run.calls.len()).filter(move |&index| !inside(index)).map(|index| index + 1)
}

/// Fails each call of a program, one after the other.
#[track_caller]
fn each_call_fails(launches: usize, run: impl Fn(&str) -> Run) {
    let right = run("none:1:1");
    assert_eq!(survived(&right, "without a failure"), "fine");
    let memory = |run: &Run| {
        let count = |names: [&str; 2]| names.iter().map(|name| run.count(name)).sum::<usize>();
        (count(["cuMemAllocAsync", "cuMemAlloc_v2"]), count(["cuMemFreeAsync", "cuMemFree_v2"]))
    };
    let (made, freed) = memory(&right);
    assert_eq!((right.launches(), made), (launches, freed));
    for call in places(&right) {
        let status = [2, 719, 1][call % 3];
        let failed = run(&format!("*:{call}:{status}"));
        let what = format!("call {call} is {}", right.calls[call - 1].name);
        let outcome = survived(&failed, &what);
        failed.check(is_reported(&outcome, status), format!("{what}: {outcome}"));
        println!("{what}: {outcome}");
        // Every allocation is freed, unless the free failed.
        let (made, freed) = memory(&failed);
        failed.check(made - freed <= 1, format!("{what}: {made} allocated, {freed} freed"));
    }
}

#[test]
fn every_call_fails_once() {
    each_call_fails(3, |failure| {
        Fake::new().set("FAKE_FAIL", failure).run(|| {
            body();
        })
    });
}

#[test]
fn every_call_fails_once_with_graphs_and_threads() {
    each_call_fails(4, |failure| {
        Fake::new().set("FAKE_FAIL", failure).set(ANOTHER, 1).run(|| {
            body();
        })
    });
}

#[test]
fn every_call_fails_once_without_pools() {
    each_call_fails(4, |failure| {
        Fake::new().set("FAKE_FAIL", failure).set("FAKE_ATTRIBUTES", "115:0").set(ANOTHER, 1).run(|| {
            body();
        })
    });
}

#[test]
fn the_device_is_lost_at_every_call() {
    let run = |failure: &str| {
        Fake::new().set("FAKE_FAIL", failure).run(|| {
            body();
        })
    };
    let right = run("none:1:1");
    for call in places(&right) {
        let what = format!("the device is lost at call {call}, {}", right.calls[call - 1].name);
        let lost = run(&format!("*:{call}+:719"));
        let outcome = survived(&lost, &what);
        println!("{what}: {outcome}");
        // A device lost before the last result was read must not give a correct result.
        let last =
            right.calls.iter().rposition(|call| call.name == "cuMemcpyDtoHAsync_v2").unwrap_or_default();
        lost.check(call > last + 2 || outcome != "fine", format!("{what}: nothing is said"));
        lost.check(is_reported(&outcome, 719), format!("{what}: {outcome}"));
    }
}
