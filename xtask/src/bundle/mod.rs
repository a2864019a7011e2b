//! Everything that a machine with a GPU needs, in one folder: binaries that load the driver, NVRTC and cuBLAS
//! at run time, and a script. That machine needs neither Rust nor the source tree.

mod artifacts;

use crate::shell::{Outcome, capture, cargo, root, step};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The default folder; git ignores it.
const FOLDER: &str = ".bundle";
/// The size limit: the bundle is uploaded for every change.
const MOST_BYTES: u64 = 25 << 20;
const SCRIPT: &str = include_str!("run.sh");
/// All programs, compressed; `run.sh` unpacks them. They have most of their code in common.
const ARCHIVE: &str = "programs.tar.xz";

/// A part of the bundle, and how it is built.
struct Part {
    what: &'static str,
    /// Words of `cargo build`.
    arguments: &'static [&'static str],
    /// Without this file there is no bundle to build.
    source: &'static str,
}

const PARTS: &[Part] = &[
    Part {
        what: "the command, and what measures the kernels that ship",
        arguments: &[
            "-p",
            "tilewright-cli",
            "--bin",
            "tilewright",
            "-p",
            "tilewright-bench-gpu",
            "--bin",
            "tilewright-bench",
            "--bin",
            "tilewright-parallel",
        ],
        source: "cli/src/main.rs",
    },
    Part {
        what: "the examples that launch kernels",
        arguments: &["-p", "tilewright", "--example", "cudarc_program", "--example", "matmul"],
        source: "examples",
    },
    Part {
        what: "the tests that need a GPU",
        arguments: &["-p", "tilewright-tests", "--test", "gpu"],
        source: "tests/tests/gpu/main.rs",
    },
];

/// Files that are copied unchanged.
const FILES: &[&str] = &["bench/gpu/counters.py", "bench/gpu/parallel.py", "bench/gpu/parallel.sh"];

pub(crate) fn run(arguments: &[String]) -> Outcome {
    let folder = match arguments {
        [] => root().join(FOLDER),
        [option, folder] if option == "--out" => PathBuf::from(folder),
        _ => return Err("`cargo xtask bundle` takes `--out FOLDER`, or nothing".into()),
    };
    make(&folder)
}

/// Builds everything into a folder, whose earlier content is removed.
pub(crate) fn make(folder: &Path) -> Outcome {
    if folder.exists() && !folder.join("run.sh").exists() && has_content(folder) {
        return Err(format!(
            "{} exists and is no bundle; name another folder, or remove it",
            folder.display()
        ));
    }
    // One build, so that crates which programs have in common are built once, beside others.
    let mut command = cargo(["build", "--release", "--message-format=json-render-diagnostics"]);
    for part in PARTS {
        if root().join(part.source).exists() {
            command.args(part.arguments);
        } else {
            eprintln!("    left out: {}, because there is no {}", part.what, part.source);
        }
    }
    let programs = step("build", || built(command))?;
    step("bundle", || {
        let _ = fs::remove_dir_all(folder);
        let staging = root().join("target/bundle");
        let _ = fs::remove_dir_all(&staging);
        put(&staging, &programs)?;
        pack(&staging, folder)?;
        weigh(&staging, folder)
    })
}

fn has_content(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// The programs that a build makes: their names, and where they are.
fn built(mut command: Command) -> Outcome<Vec<(String, PathBuf)>> {
    let output = capture(command.stderr(std::process::Stdio::inherit()))?;
    crate::shell::judge(&command, output.status)?;
    Ok(artifacts::programs(&String::from_utf8_lossy(&output.stdout)))
}

fn cannot_write(path: &Path, why: &std::io::Error) -> String {
    format!("cannot write {}: {why}", path.display())
}

/// Copies programs to a folder, without symbols, which are only useful to a debugger.
fn put(folder: &Path, programs: &[(String, PathBuf)]) -> Outcome {
    fs::create_dir_all(folder).map_err(|why| cannot_write(folder, &why))?;
    for (name, program) in programs {
        let to = folder.join(name);
        fs::copy(program, &to).map_err(|why| cannot_write(&to, &why))?;
        // Without `strip` the bundle is only larger.
        let _ = capture(Command::new("strip").arg(&to));
    }
    Ok(())
}

/// The folder of the bundle: programs as one file, and scripts.
fn pack(programs: &Path, folder: &Path) -> Outcome {
    fs::create_dir_all(folder).map_err(|why| cannot_write(folder, &why))?;
    let mut tar = Command::new("tar");
    tar.env("XZ_OPT", "-4 -T0").arg("-cJf").arg(folder.join(ARCHIVE)).arg("-C").arg(programs).arg(".");
    crate::shell::run(&mut tar)?;
    for file in FILES {
        let from = root().join(file);
        let to = folder.join(from.file_name().unwrap_or_default());
        if from.exists() {
            fs::copy(&from, &to).map_err(|why| cannot_write(&to, &why))?;
        }
    }
    let script = folder.join("run.sh");
    fs::write(&script, SCRIPT).map_err(|why| cannot_write(&script, &why))?;
    executable(&script)
}

#[cfg(unix)]
fn executable(file: &Path) -> Outcome {
    use std::os::unix::fs::PermissionsExt;
    let rights = fs::Permissions::from_mode(0o755);
    fs::set_permissions(file, rights)
        .map_err(|why| format!("cannot make {} executable: {why}", file.display()))
}

#[cfg(not(unix))]
fn executable(_: &Path) -> Outcome {
    Ok(())
}

/// Prints the programs, the C library that each needs, and the size of the folder.
fn weigh(programs: &Path, folder: &Path) -> Outcome {
    for (file, bytes) in sizes(programs)? {
        let needs = needed_glibc(&file).map_or(String::new(), |version| format!(", needs glibc {version}"));
        show(&file, bytes, &needs);
    }
    let mut total = 0;
    for (file, bytes) in sizes(folder)? {
        show(&file, bytes, "");
        total += bytes;
    }
    eprintln!("    {:<24} {:>6.2} MiB in {}", "all files", mebibytes(total), folder.display());
    if total > MOST_BYTES {
        return Err(format!(
            "the bundle weighs {:.1} MiB, and {} MiB is the most; leave a program out, or strip them",
            mebibytes(total),
            MOST_BYTES >> 20
        ));
    }
    Ok(())
}

/// The files in a folder and how long they are, sorted.
fn sizes(folder: &Path) -> Outcome<Vec<(PathBuf, u64)>> {
    let entries = fs::read_dir(folder).map_err(|why| format!("cannot read {}: {why}", folder.display()))?;
    let mut files: Vec<(PathBuf, u64)> = entries
        .flatten()
        .map(|entry| (entry.path(), entry.metadata().map_or(0, |known| known.len())))
        .collect();
    files.sort();
    Ok(files)
}

fn show(file: &Path, bytes: u64, note: &str) {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    eprintln!("    {name:<24} {:>6.2} MiB{note}", mebibytes(bytes));
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The newest version of the C library that a program needs, if `objdump` is installed.
fn needed_glibc(program: &Path) -> Option<String> {
    let output = capture(Command::new("objdump").arg("-T").arg(program)).ok()?;
    artifacts::newest_glibc(&String::from_utf8_lossy(&output.stdout))
}
