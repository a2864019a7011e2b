//! Finding NVIDIA's disassembler, or installing it: with it the tests look at the machine code too.
//!
//! It is looked for at the path in `TILEWRIGHT_NVDISASM`, on the search path, and in `target/nvdisasm`. If it is not there,
//! pip installs it into the last. Setting up does not fail without it: tests that need it are skipped, unless
//! `TILEWRIGHT_REQUIRE_NVRTC=1` is set.

use crate::pip;
use crate::shell::{Outcome, capture, root};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the program: read here, and exported to the tests.
pub(crate) const VARIABLE: &str = "TILEWRIGHT_NVDISASM";
/// Pinned, so that everyone reads the same.
const PACKAGE: &str = "nvidia-cuda-nvdisasm==13.5.37";
/// Where the package keeps the program.
const INSIDE_PACKAGE: &str = "nvidia/cu13/bin/nvdisasm";

/// The disassembler, or `None` if the tests run without it.
pub(crate) fn obtain() -> Outcome<Option<PathBuf>> {
    let folder = root().join("target/nvdisasm");
    let installed = folder.join(INSIDE_PACKAGE);
    let named = env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    let places = named.into_iter().chain(["nvdisasm".into(), installed.clone()]);
    if let Some(program) = places.into_iter().find(|program| runs(program)) {
        eprintln!("    the disassembler is {}", program.display());
        return Ok(Some(program));
    }
    let outcome = if cfg!(target_os = "linux") {
        pip::install(PACKAGE, "6 MB", &folder)
    } else {
        Err("it is installed on Linux only".into())
    };
    match outcome {
        Ok(()) if runs(&installed) => {
            eprintln!("    the disassembler was installed as {}", installed.display());
            return Ok(Some(installed));
        }
        Ok(()) => eprintln!("    skipped: {PACKAGE} does not hold a program that runs here"),
        Err(why) => eprintln!("    skipped: no disassembler ({why}); tests will not look at machine code"),
    }
    Ok(None)
}

fn runs(program: &Path) -> bool {
    capture(Command::new(program).arg("--version")).is_ok_and(|output| output.status.success())
}
