//! Installs what tests use: NVRTC, and a disassembler, a model and TVM's FFI where possible.

use crate::disassembler;
use crate::nvrtc;
use crate::pip;
use crate::shell::{Outcome, root, run as spawn, step};
use std::path::PathBuf;
use std::process::Command;

/// Variables to set for the tests.
pub(crate) type Environment = Vec<(&'static str, PathBuf)>;

pub(crate) fn run(_: &[String]) -> Outcome {
    prepare().map(drop)
}

/// Obtains everything and returns how the tests find it.
pub(crate) fn prepare() -> Outcome<Environment> {
    if let Err(why) = step("fetch the decoder's model", model) {
        eprintln!("    {why}: the decoder's texts are not tested");
    }
    let folder = step("set up NVRTC", nvrtc::obtain)?.map(|folder| (nvrtc::FOLDER_VARIABLE, folder));
    let program = match folder {
        // Without a compiler there is no machine code to disassemble.
        None => None,
        Some(_) => step("set up the disassembler", disassembler::obtain)?,
    };
    let ffi = step("set up TVM's FFI", || {
        Ok(tvm_ffi()
            .inspect_err(|why| eprintln!("    skipped: {why}; exported functions are not called by it"))
            .ok())
    })?;
    let program = program.map(|program| (disassembler::VARIABLE, program));
    Ok(folder.into_iter().chain(program).chain(ffi.map(|ffi| ("TILEWRIGHT_TVM_FFI", ffi))).collect())
}

/// The folder of the package with which Python calls exported functions, and what it needs.
fn tvm_ffi() -> Outcome<PathBuf> {
    let folder = root().join("target/tvm_ffi");
    if !folder.join("typing_extensions.py").exists() {
        pip::install("apache-tvm-ffi==0.1.15.post2", "3 MB", &folder)?;
        pip::install("typing_extensions", "0.1 MB", &folder)?;
    }
    Ok(folder)
}

/// The model whose texts are tested.
fn model() -> Outcome {
    spawn(Command::new("python3").arg("examples/decoder/fetch.py").current_dir(root()))
}
