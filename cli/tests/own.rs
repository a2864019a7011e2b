//! The commands for kernels of one's own, as `examples/own_kernels.rs` has them; on a device that a library stands in for. This
//! program is both: the tests, and in their child processes the example.

mod common;
#[path = "../examples/own_kernels.rs"]
mod own_kernels;

use common::text;
use insta::assert_snapshot;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::{env, fs};
use tilewright::prelude::*;

/// Set in child processes.
const CHILD: &str = "TILEWRIGHT_OWN_KERNELS";

const TESTS: &[(&str, fn())] = &[
    ("the_help_lists_the_programs_kernels", the_help_lists_the_programs_kernels),
    ("results_are_compared_with_the_programs_reference", results_are_compared_with_the_programs_reference),
    ("a_kernel_is_measured_beside_a_copy", a_kernel_is_measured_beside_a_copy),
    ("a_kernel_is_measured_beside_peers", a_kernel_is_measured_beside_peers),
    ("alternatives_are_tuned", alternatives_are_tuned),
    ("lists_are_pruned_without_a_device", lists_are_pruned_without_a_device),
    ("other_kernels_are_not_known", other_kernels_are_not_known),
    ("a_kernel_is_exported", a_kernel_is_exported),
];

fn main() -> ExitCode {
    match env::var(CHILD).as_deref() {
        Ok("alternatives") => return tilewright_cli::main(&[&sums(), &resident()]),
        Ok("peers") => return with_peers("scaled"),
        Ok("peers of none") => return with_peers("scled"),
        Ok(_) => return own_kernels::main(),
        Err(_) => {}
    }
    let wanted: Vec<String> = env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for (name, test) in TESTS {
        if cfg!(target_os = "linux") && (wanted.is_empty() || wanted.iter().any(|word| name.contains(word))) {
            println!("test {name}");
            test();
        }
    }
    ExitCode::SUCCESS
}

/// Sums of rows.
#[tilewright::kernel(choose(PART in [1024, 256, 64]))]
fn sums<const PART: usize>(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, M>) {
    let x = tile(x, (4, PART), (block.x, _));
    let mut total = full::<f32>((4, 1), 0.0);
    for k in 0..x.size(2) {
        total += sum(x[(_, _, k)], 1);
    }
    copy(total, tile(y, 4, block.x).along(0));
}

/// Rows in shared memory. 64 of them do not fit.
#[tilewright::kernel(choose(ROWS in [1, 4, 64]))]
fn resident<const ROWS: usize>(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    at_most(N, 8192);
    let rows = shared::<f32>((ROWS, 8192));
    copy(tile(x, (ROWS, 8192), (block.x, 0)), rows);
    copy(rows, tile(y, (ROWS, 8192), (block.x, 0)));
}

fn alternatives_are_tuned() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("records-{}", std::process::id()));
    let _ = fs::remove_file(&file);
    let path = file.to_str().unwrap();
    let tuned = |arguments: &[&str]| {
        let all = [&["tune", "sums", "--quick", "--records", path][..], arguments].concat();
        let output = run_as("alternatives", &all).output().unwrap();
        assert!(output.status.success(), "{}{}", text(output.stdout), text(output.stderr));
        text(output.stdout)
    };
    let first = tuned(&["--size", "M=100,N=3000"]);
    assert!(first.starts_with("M=100,N=3000: PART = ") && first.contains(", the fastest of 3; "), "{first}");
    // A size with a record is skipped, and others are added.
    let second = tuned(&["--size", "M=100,N=3000", "--size", "M=7,N=64"]);
    assert!(second.starts_with("M=100,N=3000: there is a record\nM=7,N=64: PART = "), "{second}");
    let written = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = written.lines().collect();
    assert_eq!(lines.len(), 2, "{written}");
    assert!(lines[0].contains(" | Fake GPU 0 | M = 100, N = 3000, ldx = 3000 | PART = "), "{written}");
    assert!(tuned(&["--size", "M=7,N=64", "--again"]).starts_with("M=7,N=64: PART = "));
    // Launches consult it, and say so.
    let slowest = |line: &str| {
        let mut parts: Vec<&str> = line.split(" | ").collect();
        (parts[3], parts[6], parts[7]) = ("PART = 64", "1.5", "9");
        parts.join(" | ")
    };
    let slowest: Vec<String> = written.lines().map(slowest).collect();
    fs::write(&file, slowest.join("\n")).unwrap();
    let chosen = |size: &str| {
        let mut command = run_as("alternatives", &["choose", "sums", "--size", size, "--name", "Fake GPU 0"]);
        text(command.env("TILEWRIGHT_RECORDS", path).output().unwrap().stdout)
    };
    let (same, near, far) = (chosen("M=100,N=3000"), chosen("M=101,N=3000"), chosen("M=201,N=3000"));
    assert!(
        same.contains(" is taken by a record: ") && same.contains("for M = 100, N = 3000, ldx = 3000"),
        "{same}"
    );
    assert!(near.contains(" has a shorter estimate, by a record of near sizes: "), "{near}");
    assert!(!far.contains("record"), "{far}");
    let mut command = run_as("alternatives", &["choose", "sums", "--size", "M=1,N=1"]);
    let refused = command.env("TILEWRIGHT_RECORDS", "nowhere").output().unwrap();
    let message = text(refused.stderr);
    assert!(message.starts_with("error: nowhere of TILEWRIGHT_RECORDS cannot be read: "), "{message}");
}

fn lists_are_pruned_without_a_device() {
    let drawn = ["tune", "sums", "--size", "M=1..9000,N=1..20000", "--drawn", "30", "--estimate"];
    let message = text(run_as("alternatives", &drawn).output().unwrap().stdout);
    let first = message.lines().next().unwrap_or_default();
    assert!(
        first.ends_with(" of 3 alternatives, by the number of sizes at which each is the fastest"),
        "{message}"
    );
    assert!(message.contains("\nchoose(PART in ["), "{message}");
    for command in [&["tune", "resident", "--estimate"][..], &["explain", "resident"]] {
        let all = [command, &["--size", "M=64,N=64"]].concat();
        let message = text(run_as("alternatives", &all).output().unwrap().stdout);
        assert!(message.contains("left out: ROWS = 64: "), "{message}");
    }
    let output = run(&["tune", "scaled", "--size", "M=64,N=64", "--estimate"]);
    assert_eq!(
        text(output.stderr),
        "error: `scaled` has no alternatives\nhelp: list values of its constants: #[kernel(choose(BM in [64, 128]))]\n"
    );
}

/// The example with peers: one that submits a copy, and one that fails.
fn with_peers(kernel: &str) -> ExitCode {
    tilewright_cli::Commands::of(&[&own_kernels::scaled()])
        .peer(kernel, "a library", |stream, operands| {
            assert_eq!((operands.extents("x"), operands.strides("x")), (&[64, 256][..], &[256, 1][..]));
            assert_ne!(operands.address("x"), operands.address("y"));
            let (stream, from) = (stream.clone(), stream.alloc_zeros::<u8>(64)?);
            let mut to = stream.alloc_zeros::<u8>(64)?;
            Ok(Box::new(move || Ok(stream.memcpy_dtod(&from, &mut to)?)))
        })
        .peer(kernel, "another", |_, operands| match operands.elem("x").bytes() {
            4 if env::var_os("PEER_FAILS").is_none() => Ok(Box::new(|| Ok(()))),
            _ => Err("another: no handle".into()),
        })
        .main()
}

/// The program, on a machine with the fake driver and compiler. Cargo builds these beside the tests.
fn run(arguments: &[&str]) -> Output {
    run_as("1", arguments).output().unwrap()
}

fn run_as(program_is: &str, arguments: &[&str]) -> Command {
    let here = env::current_exe().unwrap();
    let folder: PathBuf =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("own-driver-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let library = here.with_file_name("libtilewright_fake_driver.so");
    for name in ["libcuda.so", "libcuda.so.1", "libnvrtc.so.13"] {
        // Another test of this process may have created it.
        let _ = std::os::unix::fs::symlink(&library, folder.join(name));
    }
    let program = folder.join("own_kernels");
    let _ = std::os::unix::fs::symlink(&here, &program);
    let mut command = Command::new(program);
    command.args(arguments).env(CHILD, program_is).env("LD_LIBRARY_PATH", &folder);
    command.env("TILEWRIGHT_NVRTC", &folder).env("TILEWRIGHT_CACHE_DIR", folder.join("cache"));
    command
}

#[track_caller]
fn printed(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{}{}", text(output.stdout), text(output.stderr));
    text(output.stdout)
}

fn the_help_lists_the_programs_kernels() {
    assert_snapshot!("own_help", printed(&["run", "--help"]));
}

fn results_are_compared_with_the_programs_reference() {
    let message = printed(&["run", "scaled", "--size", "M=13,N=300", "--check"]);
    assert!(
        message.starts_with("scaled on the simulator: M = 13, N = 300, seed 0\nright: 3900 elements, "),
        "{message}"
    );
    let message = printed(&[
        "run",
        "scaled",
        "--check",
        "--input",
        "x: f32 [M=5, N=64] row-major normal",
        "--input",
        "by: 2",
    ]);
    assert!(message.contains("\nright: 320 elements, largest error 0.000e0, "), "{message}");
    // This device does not compute, so the result is wrong.
    let output = run(&["run", "scaled", "--device", "cuda:0", "--size", "M=13,N=300"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(output.stdout).contains("WRONG: 3900 of 3900 elements"));
}

fn a_kernel_is_measured_beside_a_copy() {
    let message = printed(&[
        "bench",
        "scaled",
        "--size",
        "M=64,N=256",
        "--quick",
        "--against",
        "scaled W=128",
        "--against",
        "scaled W=64",
    ]);
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines[0], "Fake GPU 0, 131.3 kB", "{message}");
    let names: Vec<&str> = lines[2..].iter().filter_map(|line| line.split("  ").next()).collect();
    assert_eq!(names, ["scaled", "scaled W=128", "scaled W=64", "copy"], "{message}");
    let json = printed(&["bench", "scaled", "--size", "M=64,N=256", "--quick", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((json["bytes"].as_u64(), json["rows"].as_array().map(Vec::len)), (Some(131_328), Some(2)));
}

fn a_kernel_is_measured_beside_peers() {
    let bench = ["bench", "scaled", "--size", "M=64,N=256", "--quick"];
    let output = run_as("peers", &bench).output().unwrap();
    let message = text(output.stdout);
    let names: Vec<&str> = message.lines().skip(2).filter_map(|line| line.split("  ").next()).collect();
    assert_eq!(names, ["scaled", "a library", "another", "copy"], "{message}{}", text(output.stderr));
    let notes: Vec<&str> = message.lines().skip(3).filter_map(|line| line.rsplit("  ").next()).collect();
    // This device does not compute, so that no result is a number.
    assert_eq!(notes[..2], ["results differ by NaN"; 2], "{message}");
    let output = run_as("peers", &bench).env("PEER_FAILS", "1").output().unwrap();
    assert_eq!(text(output.stderr), "error: another: no handle\n");
    let output = run_as("peers of none", &bench).output().unwrap();
    assert_eq!(
        text(output.stderr),
        "error: there is no kernel `scled` to describe\nhelp: the kernels are scaled\n"
    );
}

fn other_kernels_are_not_known() {
    let output = run(&["inspect", "tutorial"]);
    assert_eq!(
        text(output.stderr),
        "error: there is no kernel `tutorial`\n  tutorial\n  ^^^^^^^^\nhelp: the kernels are scaled\n"
    );
    assert!(printed(&["inspect", "scaled", "W=128"]).contains("__global__"));
    assert!(
        printed(&["choose", "scaled", "--input", "x: [100, 200]"]).starts_with("scaled: M = 100, N = 200\n")
    );
}

fn a_kernel_is_exported() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("exported-{}", std::process::id()));
    let out = folder.to_str().unwrap();
    let message = printed(&["export", "scaled", "W=128", "--arch", "sm_90,sm_80", "--out", out, "--python"]);
    let names: Vec<&str> =
        message.lines().filter_map(|line| line.split(" (").next()?.rsplit('/').next()).collect();
    assert_eq!(names, ["scaled.h", "scaled.c", "scaled.py"], "{message}");
    let header = fs::read_to_string(folder.join("scaled.h")).unwrap();
    assert!(
        header.contains("    tilewright_tensor x; /* f32 (M, N) with strides (N, 1), read */\n"),
        "{header}"
    );
    let bundle = folder.join("kernels.bundle");
    let bundle = bundle.to_str().unwrap();
    let with = |other| run(&["export", "scaled", "--with", other, "--arch", "sm_90", "--bundle", bundle]);
    let message = text(with("scaled W=128").stdout);
    assert!(message.starts_with(bundle) && message.ends_with(", kernels: 2)\n"), "{message}");
    assert!(text(with("other").stderr).starts_with("error: there is no kernel `other`"));
    let refused =
        |architecture: &str| text(run(&["export", "scaled", "--arch", architecture, "--out", out]).stderr);
    assert_eq!(
        refused("hopper"),
        "error: `hopper` is no architecture\nhelp: write sm_90 or 90, or compute_80 for PTX\n"
    );
    assert_eq!(
        refused("sm_75"),
        "error: no variant of `scaled` runs on sm_75: they are for sm_80 and newer\nhelp: leave it out\n"
    );
}
