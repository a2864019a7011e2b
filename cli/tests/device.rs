//! The command on a device: a library replaces the driver. It records all calls and runs no kernels.
#![cfg(target_os = "linux")]

mod common;

use common::{text, tilewright};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::{env, fs};

/// A folder in which the fake driver and compiler have the system's names. Cargo builds them beside the
/// tests.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("driver-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let library = env::current_exe().unwrap().with_file_name("libtilewright_fake_driver.so");
    for name in ["libcuda.so", "libcuda.so.1", "libnvrtc.so.13"] {
        // Another test of this process may have created it.
        let _ = symlink(&library, folder.join(name));
    }
    folder
}

fn run(arguments: &[&str]) -> Output {
    let folder = folder();
    let mut command = tilewright(arguments);
    command.env("LD_LIBRARY_PATH", &folder).env("TILEWRIGHT_NVRTC", &folder);
    command.env("TILEWRIGHT_CACHE_DIR", folder.join("cache")).output().unwrap()
}

#[test]
fn the_doctor_finds_it() {
    let output = run(&["doctor"]);
    let message = text(output.stdout);
    assert!(output.status.success(), "{message}");
    for part in [
        "driver         CUDA 13.0\n",
        "device 0       Fake GPU 0\n",
        "  compute capability  9.0\n",
        "NVRTC 13.0",
    ] {
        assert!(message.contains(part), "{message}");
    }
    let json: serde_json::Value = serde_json::from_str(&text(run(&["doctor", "--json"]).stdout)).unwrap();
    assert_eq!(json["devices"][0]["warp_size"], 32);
}

/// The stand-in does not compute, so the result is still poison: the command reports the elements.
#[test]
fn a_wrong_result_is_reported() {
    let arguments = ["run", "tutorial", "--device", "cuda:0", "--size", "200,100,50", "--check"];
    let output = run(&arguments);
    let message = text(output.stdout);
    assert_eq!(output.status.code(), Some(3), "{message}\n{}", text(output.stderr));
    assert!(message.starts_with("matmul_nt on Fake GPU 0: M = 200, N = 100, K = 50, seed 0\n"), "{message}");
    assert!(message.contains("\nWRONG: 20000 of 20000 elements; at (0, 0) `c` is NaN, and"), "{message}");
    assert!(message.contains("variant 2 of 3: 2 x 1 x 1 blocks of 256 threads\n"), "{message}");
    let json: serde_json::Value =
        serde_json::from_str(&text(run(&[&arguments[..], &["--json"]].concat()).stdout)).unwrap();
    assert_eq!(json["comparison"]["wrong"], 20000);
    assert_eq!(json["device"], "Fake GPU 0");
}

#[test]
fn every_type_and_number_of_modes_is_sent() {
    for keys in ["dtype=f64 bm=64 bn=64", "dtype=f16 alpha_beta=true", "dtype=bf16 batched=true", "dtype=i8"]
    {
        let output = run(&["run", "matmul", keys, "--device", "cuda:0", "--size", "16,8,4"]);
        assert_eq!(output.status.code(), Some(3), "{keys}: {}", text(output.stderr));
    }
}

#[test]
fn there_is_no_such_device() {
    let output = run(&["run", "tutorial", "--device", "cuda:3"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(output.stderr), "error: there is no device 3: 1 device is there, counted from 0\n");
}
