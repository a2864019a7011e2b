//! Missing or broken parts of a machine: no driver, a driver that does not start, no device, no compiler, a
//! read-only cache. Each is reported, without a panic.

use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::MATMUL;
use tilewright_runtime::{Device, DeviceTensor, Error, Launch, LaunchMatmul};

use crate::harness::{Fake, Run};

/// How the child process changes its own libraries before it loads them.
const CHANGE: &str = "TILEWRIGHT_CHANGE";

fn libraries() -> PathBuf {
    PathBuf::from(env::var_os("TILEWRIGHT_NVRTC").unwrap())
}

fn replace(name: &str, change: &str) {
    let library = libraries().join(name);
    fs::remove_file(&library).unwrap();
    match change {
        "removed" => {}
        "text" => fs::write(library, "not a library").unwrap(),
        // A library that is not one of NVIDIA's.
        "other" => {
            let candidates = ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/libm.so.6", "/usr/lib/libm.so.6"];
            match candidates.iter().find(|path| Path::new(path).exists()) {
                Some(candidate) => drop(fs::copy(candidate, library).unwrap()),
                None => fs::write(library, "not a library").unwrap(),
            }
        }
        _ => unreachable!("{change}"),
    }
}

/// Multiplies once, and prints the outcome.
fn body() {
    let change = env::var(CHANGE).unwrap_or_default();
    match change.split_once(' ') {
        Some(("driver", change)) => {
            ["libcuda.so", "libcuda.so.1"].iter().for_each(|name| replace(name, change))
        }
        Some(("compiler", change)) => replace("libnvrtc.so.13", change),
        _ => {}
    }
    let product = || -> Result<(), Error> {
        let stream = Device::open(0)?.stream()?;
        let a = DeviceTensor::<f32, 2>::zeros(&stream, [128, 8])?;
        let mut c = DeviceTensor::<f32, 2>::zeros(&stream, [128, 128])?;
        MATMUL.launch(&stream, &a, &a, &mut c)?;
        for compiled in MATMUL.compile_for(stream.device())? {
            assert_eq!(compiled.usage.registers, 32);
            println!("kept: {}", compiled.not_kept.is_none());
        }
        stream.synchronize()
    };
    // A missing library is looked for again, and reported again.
    let (first, second) = (product().map_err(|e| e.to_string()), product().map_err(|e| e.to_string()));
    assert_eq!(first, second);
    println!("outcome: {}", first.map_or_else(|message| message.replace('\n', " | "), |()| "fine".into()));
}

#[track_caller]
fn says(run: Run, message: &[&str]) -> Run {
    let run = run.sound();
    let outcome =
        run.output.lines().find_map(|line| line.split_once("outcome: ")).map_or("", |(_, message)| message);
    for part in message {
        run.check(outcome.contains(part), format!("`{part}` is not said"));
    }
    run
}

#[test]
fn missing_parts_are_reported() {
    let rows: &[(&str, &str, &[&str])] = &[
        (
            CHANGE,
            "driver text",
            &["there is no NVIDIA driver here", "libcuda.so.1: ", "help: install NVIDIA's driver"],
        ),
        (CHANGE, "driver other", &["has no `cuInit`"]),
        (
            CHANGE,
            "compiler removed",
            &["NVRTC was not found", "Without it kernels run only where they were compiled"],
        ),
        (CHANGE, "compiler text", &["NVRTC was not found", "it cannot be loaded"]),
        (CHANGE, "compiler other", &["NVRTC was not found", "a function is missing"]),
        ("FAKE_DEVICES", "0", &["the NVIDIA driver sees no device", "CUDA_VISIBLE_DEVICES"]),
        ("FAKE_FAIL", "cuInit:1+:34", &["the toolkit's stub"]),
        ("FAKE_FAIL", "cuInit:1+:100", &["the NVIDIA driver sees no device"]),
        ("FAKE_FAIL", "cuInit:1+:999", &["the NVIDIA driver does not start", "(999)"]),
        ("FAKE_NVRTC", "12.4", &["it is version 12.4, and 12.8 is the oldest that serves"]),
        (
            "FAKE_NVRTC",
            "14.0",
            &["NVRTC 14.0 makes binaries that the driver, made for CUDA 13.0, does not load"],
        ),
    ];
    for (name, value, message) in rows {
        let run = Fake::new().set(name, value).run(|| {
            body();
        });
        assert_eq!(says(run, message).launches(), 0, "{value}");
    }
}

/// A folder shared by several processes and deleted after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        Folder(env::temp_dir().join(format!("tilewright-machine-{name}-{}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_was_compiled_once_runs_without_the_compiler() {
    let cache = Folder::new("cache");
    let run = |change: &str| {
        let fake = Fake::new().set("TILEWRIGHT_CACHE_DIR", cache.0.display()).set(CHANGE, change);
        let run = fake.run(|| {
            body();
        });
        says(run, &["fine"]).count("nvrtcCompileProgram")
    };
    let variants = run("");
    assert!(variants > 0);
    assert_eq!([run(""), run("compiler removed"), run("compiler text")], [0; 3]);
    // Every other entry is damaged: those are compiled again.
    let mut damaged = 0;
    for (n, entry) in fs::read_dir(&cache.0).unwrap().flatten().enumerate() {
        if n % 2 == 0 {
            let mut bytes = fs::read(entry.path()).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(entry.path(), bytes).unwrap();
            damaged += 1;
        }
    }
    assert_eq!((run(""), run("")), (damaged, 0));
}

#[test]
fn kernels_run_without_a_cache() {
    // This path is a file, not a folder.
    let file = env::current_exe().unwrap();
    for index in [file.clone(), file.join("below"), PathBuf::from("/proc/nowhere")] {
        let run = Fake::new().set("TILEWRIGHT_CACHE_DIR", index.display()).run(|| {
            body();
        });
        let run = says(run, &["fine"]);
        assert_eq!(run.launches(), 2);
        run.check(run.output.contains("kept: false") && !run.output.contains("kept: true"), "a note");
    }
}
