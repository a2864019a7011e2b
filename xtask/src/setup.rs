//! Installs what tests use: NVRTC, and a disassembler and a model where possible.

use crate::disassembler;
use crate::nvrtc;
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
    Ok(folder.into_iter().chain(program.map(|program| (disassembler::VARIABLE, program))).collect())
}

/// The model whose texts are tested.
fn model() -> Outcome {
    spawn(Command::new("python3").arg("examples/decoder/fetch.py").current_dir(root()))
}
