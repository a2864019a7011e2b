//! Installs the tools that tests use: NVRTC, and a disassembler where possible.

use crate::disassembler;
use crate::nvrtc;
use crate::shell::{Outcome, step};
use std::path::PathBuf;

/// Variables to set for the tests.
pub(crate) type Environment = Vec<(&'static str, PathBuf)>;

pub(crate) fn run(_: &[String]) -> Outcome {
    prepare().map(drop)
}

/// Obtains everything and returns how the tests find it.
pub(crate) fn prepare() -> Outcome<Environment> {
    let folder = step("set up NVRTC", nvrtc::obtain)?.map(|folder| (nvrtc::FOLDER_VARIABLE, folder));
    let program = match folder {
        // Without a compiler there is no machine code to disassemble.
        None => None,
        Some(_) => step("set up the disassembler", disassembler::obtain)?,
    };
    Ok(folder.into_iter().chain(program.map(|program| (disassembler::VARIABLE, program))).collect())
}
