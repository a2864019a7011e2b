//! A kernel's PTX from NVRTC, and its machine code, disassembled by nvdisasm.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

use tilewright_codegen::definition::Variant;
use tilewright_runtime::nvrtc::Nvrtc;

use crate::output::{Failure, Result};

/// The variable that names the disassembler.
const DISASSEMBLER: &str = "TILEWRIGHT_NVDISASM";
/// The message where there is none.
pub(crate) const NO_DISASSEMBLER: &str = "\
nvdisasm was not found.
It is part of the CUDA toolkit, and comes alone as the Python package `nvidia-cuda-nvdisasm`. Set TILEWRIGHT_NVDISASM \
to the program.";

pub(super) fn nvrtc() -> Result<Nvrtc> {
    Nvrtc::find(&[]).map_err(Failure::of)
}

pub(super) fn ptx(variant: &Variant, arch: Option<&str>) -> Result<String> {
    let text = nvrtc()?.ptx(&variant.source, &variant.program.name, &target(variant, arch));
    text.map_err(Failure::of)
}

pub(super) fn sass(variant: &Variant, arch: Option<&str>) -> Result<String> {
    let program = disassembler().ok_or_else(|| Failure::of(NO_DISASSEMBLER))?;
    let compiled = nvrtc()?
        .compile(&variant.source, &variant.program.name, &target(variant, arch), &[])
        .map_err(Failure::of)?;
    let file = Temporary::new()?;
    fs::write(&file.0, compiled.cubin).map_err(|why| failed(&file.0, &why))?;
    let output = Command::new(&program).args(["-c", "-plr"]).arg(&file.0).output();
    let output = output.map_err(|why| failed(&program, &why))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(failed(&program, &String::from_utf8_lossy(&output.stderr).trim_end())),
    }
}

/// `sm_80`, or `sm_90a` where the program needs architecture-specific features.
fn target(variant: &Variant, arch: Option<&str>) -> String {
    let program = &variant.program;
    let oldest = || format!("sm_{}{}", program.arch, if program.arch_specific { "a" } else { "" });
    arch.map_or_else(oldest, str::to_owned)
}

/// The disassembler that the environment names, or one of a toolkit, or one on the search path.
pub(crate) fn disassembler() -> Option<PathBuf> {
    if let Some(named) = env::var_os(DISASSEMBLER).filter(|value| !value.is_empty()) {
        return Some(named.into());
    }
    let file = format!("nvdisasm{}", env::consts::EXE_SUFFIX);
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let usual = ["/usr/local/cuda", "/opt/cuda"].map(PathBuf::from);
    let folders = toolkits.chain(usual).map(|toolkit| toolkit.join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    folders.chain(env::split_paths(&path)).map(|folder| folder.join(&file)).find(|file| file.is_file())
}

fn failed(what: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::Refused(format!("{} failed: {why}", what.display()))
}

/// A file that is removed on drop.
struct Temporary(PathBuf);

impl Temporary {
    /// A path for a binary, in a fresh private folder.
    fn new() -> Result<Temporary> {
        let folder = env::temp_dir().join(format!("tilewright-{}", process::id()));
        fs::create_dir(&folder).map_err(|why| failed(&folder, &why))?;
        Ok(Temporary(folder.join("kernel.cubin")))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
        if let Some(folder) = self.0.parent() {
            let _ = fs::remove_dir(folder);
        }
    }
}
