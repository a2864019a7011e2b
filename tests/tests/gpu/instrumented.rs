//! What instrumented kernels show on a device. They run in another process, since a process instruments all its kernels or none.

use std::process::Command;

use tilewright::kernels;
use tilewright::prelude::*;
use tilewright::runtime::Error;
use tilewright::{Arg, Simulate};

use super::stream;

/// Set in the other process.
const VARIABLE: &str = "TILEWRIGHT_INSTRUMENT";

#[kernel(allow(uncoalesced))]
fn checked(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let (x, y) = (tile(x, (4, 8), (block.x, _)), tile(y, (4, 8), (block.x, _)));
    let s = shared::<f32>((4, 8));
    for k in 0..x.size(2) {
        copy(x[(_, _, k)], s);
        assert_device(s >= 0.0, "weights are positive");
        let roots = sqrt(s);
        print(s, block = 1);
        print(roots, block = 1);
        print(k, block = 1);
        copy(roots, y[(_, _, k)]);
    }
}

/// Rows of two blocks, and columns of two tiles, the last ones not full.
const EXTENTS: [usize; 2] = [7, 13];

fn squares() -> Vec<f32> {
    (0..EXTENTS[0] * EXTENTS[1]).map(|at| (at * at) as f32).collect()
}

#[test]
fn kernels_show_what_they_do() {
    let Some(_) = stream() else { return };
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["--exact", "instrumented::in_another_process", "--ignored", "--nocapture"]);
    let ran = command.env(VARIABLE, "lines,asserts,prints,timeline").output().expect("a process");
    let text = String::from_utf8_lossy(&ran.stdout);
    let all = format!("{text}\n{}", String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{all}");
    // The simulator prints the same text.
    let args = [Arg::tensor(&squares(), EXTENTS), Arg::output::<f32>(EXTENTS)];
    let simulated = checked().simulate(&args).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(simulated.printed().len(), 6);
    for printed in simulated.printed() {
        assert!(text.contains(printed), "{printed}\nis not in\n{all}");
    }
    println!("{all}");
}

#[test]
#[ignore = "is run by `kernels_show_what_they_do`"]
fn in_another_process() {
    let Some(stream) = stream() else { return };
    asserts(&stream).unwrap_or_else(|why| panic!("{why}"));
    timeline(&stream).unwrap_or_else(|why| panic!("{why}"));
}

/// An assertion fails for one element, and the context goes on working.
fn asserts(stream: &Stream) -> Result<(), Error> {
    let mut wrong = squares();
    wrong[5 + EXTENTS[0] * 9] = -1.0;
    let mut y = DeviceTensor::<f32, 2>::zeros(stream, EXTENTS)?;
    let x = DeviceTensor::from_host(stream, EXTENTS, &wrong)?;
    checked().launch(stream, &x, &mut y)?;
    let failed = stream.synchronize().expect_err("an assertion fails").to_string();
    assert!(failed.starts_with("the assertion `weights are positive` at "), "{failed}");
    assert!(failed.ends_with(" of block (1, 0, 0), for the element (1, 1)"), "{failed}");
    println!("{failed}");
    let x = DeviceTensor::from_host(stream, EXTENTS, &squares())?;
    checked().launch(stream, &x, &mut y)?;
    let roots: Vec<f32> = (0..EXTENTS[0] * EXTENTS[1]).map(|at| at as f32).collect();
    assert_eq!(y.to_host()?, roots);
    Ok(())
}

/// The timeline of a block with a producer and consumers, as a picture and a trace in the folder `OUT`, or a temporary one.
fn timeline(stream: &Stream) -> Result<(), Error> {
    if stream.device().properties().arch() != 90 {
        println!("no timeline: the kernel is for compute capability 9.0");
        return Ok(());
    }
    let linear = &kernels::named("linear_hopper").expect("a shipped kernel").def;
    let (m, n, k) = (2048, 2048, 2048);
    let rows = |extents: [usize; 2]| {
        let zeros = vec![bf16::from_f32(0.0); extents[0] * extents[1]];
        DeviceTensor::from_host_strided(stream, extents, [extents[1], 1], &zeros)
    };
    let (a, w) = (rows([m, k])?, rows([n, k])?);
    let bias = DeviceTensor::<f32, 1>::zeros(stream, [n])?;
    let mut c = rows([m, n])?;
    let kernel = tilewright::Built::carried(linear)?;
    let launched =
        kernel.launch_with(stream, &mut [(&a).into(), (&w).into(), (&bias).into(), (&mut c).into()])?;
    println!("{launched}");
    stream.synchronize()?;
    let timeline = stream.device().timeline();
    let of = |role: &str| timeline.intervals.iter().filter(|interval| interval.role == role).count();
    let mut roles: Vec<&str> = timeline.intervals.iter().map(|interval| interval.role.as_str()).collect();
    roles.sort_unstable();
    roles.dedup();
    let counts: Vec<String> = roles.iter().map(|role| format!("{} of `{role}`", of(role))).collect();
    println!("intervals: {}", counts.join(", "));
    assert!(roles.len() >= 2 && roles.contains(&"producer"), "{roles:?}");
    assert!(timeline.intervals.iter().all(|interval| interval.from <= interval.to));
    assert!(timeline.intervals.iter().any(|interval| interval.name.starts_with("multiply")));
    let folder = std::env::var_os("OUT").map_or(std::env::temp_dir(), Into::into);
    for name in ["timeline.svg", "timeline.json"] {
        std::fs::write(folder.join(name), timeline.for_file(name)).expect("a file can be written");
    }
    println!("timeline.svg and timeline.json are in {}", folder.display());
    Ok(())
}
