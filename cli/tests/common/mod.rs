//! Running the command.
#![allow(dead_code, unreachable_pub)]

use std::process::{Command, Output};

/// A command on an empty machine: no compiler, and a cache of its own.
pub fn tilewright(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tilewright"));
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    command
        .args(arguments)
        .env("TILEWRIGHT_NVRTC", folder.join("no-compiler"))
        .env("TILEWRIGHT_NVDISASM", folder.join("no-disassembler"))
        .env("TILEWRIGHT_CACHE_DIR", folder.join("no-cache"));
    command
}

pub fn run(arguments: &[&str]) -> Output {
    tilewright(arguments).output().unwrap()
}

pub fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// Standard output on success.
#[track_caller]
pub fn printed(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{}", text(output.stderr));
    assert_eq!(text(output.stderr), "");
    text(output.stdout)
}

/// Standard error on failure.
#[track_caller]
pub fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(1), "{}", text(output.stdout));
    assert_eq!(text(output.stdout), "");
    text(output.stderr)
}
