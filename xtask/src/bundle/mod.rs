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
const MOST_BYTES: u64 = 40 << 20;
const SCRIPT: &str = include_str!("run.sh");

/// A cargo build for the bundle.
struct Build {
    what: &'static str,
    arguments: &'static [&'static str],
    /// Without this file there is nothing to build.
    source: &'static str,
}

const BUILDS: &[Build] = &[
    Build { what: "the command", arguments: &["build", "-p", "tilewright-cli"], source: "cli/src/main.rs" },
    Build {
        what: "the examples that launch kernels",
        arguments: &[
            "build",
            "-p",
            "tilewright",
            "--example",
            "cudarc_program",
            "--example",
            "matmul",
            "--example",
            "own_kernel",
        ],
        source: "examples",
    },
    Build {
        what: "the tests that need a GPU",
        arguments: &["test", "--no-run", "-p", "tilewright-tests", "--test", "gpu"],
        source: "tests/tests/gpu/main.rs",
    },
];

/// Files that are copied unchanged.
const FILES: &[&str] = &["bench/gpu/counters.py"];

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
    let mut programs = Vec::new();
    for build in BUILDS {
        if root().join(build.source).exists() {
            programs.extend(step(&format!("build {}", build.what), || built(build))?);
        } else {
            eprintln!("    left out: {}, because there is no {}", build.what, build.source);
        }
    }
    step("bundle", || {
        let _ = fs::remove_dir_all(folder);
        put(folder, &programs)?;
        weigh(folder)
    })
}

fn has_content(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// The programs that a build makes: their names, and where they are.
fn built(build: &Build) -> Outcome<Vec<(String, PathBuf)>> {
    let mut command = cargo([]);
    command.args(build.arguments).args(["--release", "--message-format=json-render-diagnostics"]);
    let output = capture(command.stderr(std::process::Stdio::inherit()))?;
    crate::shell::judge(&command, output.status)?;
    Ok(artifacts::programs(&String::from_utf8_lossy(&output.stdout)))
}

fn put(folder: &Path, programs: &[(String, PathBuf)]) -> Outcome {
    let cannot = |path: &Path, why: std::io::Error| format!("cannot write {}: {why}", path.display());
    fs::create_dir_all(folder).map_err(|why| cannot(folder, why))?;
    for (name, program) in programs {
        let to = folder.join(name);
        fs::copy(program, &to).map_err(|why| cannot(&to, why))?;
        // Symbols are only useful to a debugger; without `strip` the bundle is only larger.
        let _ = capture(Command::new("strip").arg(&to));
    }
    for file in FILES {
        let from = root().join(file);
        let to = folder.join(from.file_name().unwrap_or_default());
        if from.exists() {
            fs::copy(&from, &to).map_err(|why| cannot(&to, why))?;
        }
    }
    let script = folder.join("run.sh");
    fs::write(&script, SCRIPT).map_err(|why| cannot(&script, why))?;
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

/// Prints what is in the folder, its size, and the C library that it needs.
fn weigh(folder: &Path) -> Outcome {
    let mut total = 0;
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .map_err(|why| format!("cannot read {}: {why}", folder.display()))?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    for file in files {
        let bytes = fs::metadata(&file).map(|known| known.len()).unwrap_or(0);
        total += bytes;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let needs = needed_glibc(&file).map_or(String::new(), |version| format!(", needs glibc {version}"));
        eprintln!("    {name:<24} {:>6.2} MiB{needs}", mebibytes(bytes));
    }
    eprintln!("    {:<24} {:>6.2} MiB in {}", "all", mebibytes(total), folder.display());
    if total > MOST_BYTES {
        return Err(format!(
            "the bundle weighs {:.1} MiB, and {} MiB is the most; leave a program out, or strip them",
            mebibytes(total),
            MOST_BYTES >> 20
        ));
    }
    Ok(())
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The newest version of the C library that a program needs, if `objdump` is installed.
fn needed_glibc(program: &Path) -> Option<String> {
    let output = capture(Command::new("objdump").arg("-T").arg(program)).ok()?;
    artifacts::newest_glibc(&String::from_utf8_lossy(&output.stdout))
}
