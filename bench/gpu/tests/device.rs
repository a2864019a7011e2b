//! Benchmarks on a device: a library replaces the driver. It records all calls and runs no kernels.
#![cfg(target_os = "linux")]

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};
use std::{env, fs};

/// Runs with a folder in which the fake driver and compiler have the system's names. Cargo builds them beside the tests.
fn run(arguments: &str) -> Output {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let library = env::current_exe().unwrap().with_file_name("libtilewright_fake_driver.so");
    for name in ["libcuda.so", "libcuda.so.1", "libnvrtc.so.13"] {
        let _ = symlink(&library, folder.join(name));
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_tilewright-bench"));
    command.args(arguments.split(' ')).arg("--quick").env("LD_LIBRARY_PATH", &folder);
    command.env("TILEWRIGHT_NVRTC", &folder).env("TILEWRIGHT_CACHE_DIR", folder.join("cache"));
    command.output().unwrap()
}

/// All arguments of references and kernels are accepted. No result is computed, and every check reports that.
#[test]
fn benchmarks_run_and_find_what_is_not_written() {
    for (arguments, rows, missing) in [
        ("gemm --against none --sizes 100x96x64 --kernel linear", 1, "9600 elements are missing"),
        (
            "gemm --against none --sizes 2x64x48x80 --kernel dtype=e4m3 --kernel b_dtype=i8,dtype=bf16,bias=rows",
            2,
            "6144 elements are missing",
        ),
        ("memory gather --dtype f32 --sizes 16x128", 1, "2048 elements are missing"),
        ("memory stencil_7 --dtype f32 --sizes 8x32", 1, "2048 elements are missing"),
    ] {
        let output = run(arguments);
        let message = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{arguments}: {message}\n{errors}");
        assert_eq!(message.matches(missing).count(), rows, "{arguments}: {message}");
    }
}
