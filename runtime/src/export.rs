//! Kernels for programs in other languages, compiled for some architectures, with a header and a source file in C that launch
//! them and need only the driver. See [`export`].

use std::fmt;
use std::path::{Path, PathBuf};

use tilewright_program::cuda;
use tilewright_program::definition::{Generated, Variant};
use tilewright_program::kernel_def::KernelErrors;
use tilewright_program::kernel_value::Kernel;
use tilewright_program::launch::{self, Exported, Image, Refusal};
use tilewright_program::thread;

use crate::cache::{Cache, Request};
use crate::nvrtc::{self, Nvrtc};
use crate::records;

/// An architecture to compile for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    arch: u32,
    /// PTX, which newer devices compile when they load it.
    pub(crate) ptx: bool,
}

/// The architectures of a request.
pub(crate) fn targets(architectures: &[&str]) -> Result<Vec<Target>, Refusal> {
    architectures.iter().map(|text| Target::read(text)).collect()
}

/// Why a kernel was not exported.
#[derive(Clone)]
#[non_exhaustive]
pub enum Error {
    /// The request is invalid.
    Refused(Refusal),
    /// The kernel could not be made from its definition.
    Kernel(KernelErrors),
    /// The kernel could not be compiled, or there is no compiler.
    Compile(nvrtc::Error),
    /// A file could not be written.
    File(PathBuf, String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(refusal) => refusal.fmt(f),
            Error::Kernel(errors) => errors.fmt(f),
            Error::Compile(error) => error.fmt(f),
            Error::File(path, why) => write!(f, "{} could not be written: {why}", path.display()),
        }
    }
}

tilewright_program::error_with_text!(Error, Refused(Refusal), Kernel(KernelErrors), Compile(nvrtc::Error));

/// Compiles a kernel for some architectures, `sm_90`, or `compute_80` for PTX, and returns its C files.
///
/// ```no_run
/// # fn show(softmax: &impl tilewright_program::kernel_value::Kernel) -> Result<(), tilewright_runtime::export::Error> {
/// let files = tilewright_runtime::export::export(softmax, &["sm_90", "sm_80", "compute_80"])?;
/// assert!(files.header.contains("softmax_launch"));
/// # Ok(())
/// # }
/// ```
pub fn export<K: Kernel + ?Sized>(kernel: &K, architectures: &[&str]) -> Result<Exported, Error> {
    let targets = targets(architectures)?;
    let generated = records::consulted(kernel.def().generate()?)?;
    for (target, text) in targets.iter().zip(architectures) {
        if !generated.variants.iter().any(|variant| target.serves(&variant.program)) {
            let oldest = generated.variants.iter().map(|variant| variant.program.arch).min().unwrap_or(0);
            let message = format!(
                "no variant of `{}` runs on {text}: they are for sm_{oldest} and newer",
                generated.name
            );
            return Err(Refusal::new(message).help("leave it out").into());
        }
    }
    let nvrtc = Nvrtc::find(&[])?;
    launch::export(&generated, |variant| images(&nvrtc, variant, &targets))
}

/// Exports a kernel and writes it into a folder as `NAME.h` and `NAME.c`: for a `build.rs`. Returns the paths.
///
/// ```no_run
/// # fn show(softmax: &impl tilewright_program::kernel_value::Kernel) -> Result<(), Box<dyn std::error::Error>> {
/// // build.rs
/// let folder = std::env::var("OUT_DIR")?;
/// tilewright_runtime::export::write(softmax, &["sm_90"], folder)?;
/// # Ok(())
/// # }
/// ```
pub fn write<K: Kernel + ?Sized>(
    kernel: &K,
    architectures: &[&str],
    folder: impl AsRef<Path>,
) -> Result<[PathBuf; 2], Error> {
    let (files, name) = (export(kernel, architectures)?, kernel.def().name());
    let folder = folder.as_ref();
    let paths = [folder.join(format!("{name}.h")), folder.join(format!("{name}.c"))];
    let failed = |path: &Path, why: std::io::Error| Error::File(path.into(), why.to_string());
    std::fs::create_dir_all(folder).map_err(|why| failed(folder, why))?;
    for (path, text) in paths.iter().zip([&files.header, &files.source]) {
        std::fs::write(path, text).map_err(|why| failed(path, why))?;
    }
    Ok(paths)
}

/// Writes a Python module, `NAME.py`, which launches the kernel that [`write()`] has written into the same folder on tensors of
/// PyTorch. It needs the package apache-tvm-ffi. Returns its path.
pub fn write_python<K: Kernel + ?Sized>(kernel: &K, folder: impl AsRef<Path>) -> Result<PathBuf, Error> {
    module(kernel, folder.as_ref(), "py", launch::python)
}

/// Writes a Rust module, `NAME.rs`, which launches the kernel that [`write()`] has written into the same folder. The program
/// needs only the driver. Returns the path of the module.
///
/// ```no_run
/// # fn show(softmax: &impl tilewright_program::kernel_value::Kernel) -> Result<(), Box<dyn std::error::Error>> {
/// // build.rs, followed by `cc::Build::new().file(&source).compile("softmax")`
/// let folder = std::env::var("OUT_DIR")?;
/// let [_, source] = tilewright_runtime::export::write(softmax, &["sm_90"], &folder)?;
/// tilewright_runtime::export::write_rust(softmax, &folder)?;
/// # Ok(())
/// # }
/// ```
pub fn write_rust<K: Kernel + ?Sized>(kernel: &K, folder: impl AsRef<Path>) -> Result<PathBuf, Error> {
    module(kernel, folder.as_ref(), "rs", launch::rust)
}

fn module<K: Kernel + ?Sized>(
    kernel: &K,
    folder: &Path,
    extension: &str,
    text: fn(&Generated) -> String,
) -> Result<PathBuf, Error> {
    let generated = kernel.def().generate()?;
    let path = folder.join(format!("{}.{extension}", generated.name));
    std::fs::write(&path, text(&generated)).map_err(|why| Error::File(path.clone(), why.to_string()))?;
    Ok(path)
}

impl Target {
    fn read(text: &str) -> Result<Target, Refusal> {
        let number =
            |rest: &str| rest.trim_end_matches('a').parse().ok().filter(|arch| (50..1000).contains(arch));
        let (rest, ptx) = match text.strip_prefix("compute_") {
            Some(rest) => (rest, true),
            None => (text.strip_prefix("sm_").unwrap_or(text), false),
        };
        let refused = || {
            Refusal::new(format!("`{text}` is no architecture"))
                .help("write sm_90 or 90, or compute_80 for PTX")
        };
        number(rest).map(|arch| Target { arch, ptx }).ok_or_else(refused)
    }

    pub(crate) fn serves(self, program: &thread::Kernel) -> bool {
        let exact = !program.arch_specific || program.arch == self.arch;
        program.arch <= self.arch && exact && !(self.ptx && program.arch_specific)
    }

    /// The architecture that NVRTC compiles a program for.
    pub(crate) fn of_program(self, program: &thread::Kernel) -> String {
        format!("sm_{}{}", self.arch, if program.arch_specific { "a" } else { "" })
    }
}

fn images(nvrtc: &Nvrtc, variant: &Variant, targets: &[Target]) -> Result<Vec<Image>, Error> {
    let program = &variant.program;
    let mut all = Vec::new();
    for target in targets.iter().filter(|target| target.serves(program)) {
        let Target { arch, ptx } = *target;
        let (source, name) = (&variant.source, cuda::entry(program));
        let bytes = if ptx {
            nvrtc.ptx(source, &name, &format!("compute_{arch}"))?.into_bytes()
        } else {
            let request = Request { source, name: &name, arch: &target.of_program(program), options: &[] };
            let result = Cache::open().compile(Ok(nvrtc), &request)?;
            result.compiled.cubin
        };
        all.push(Image { arch, exact: program.arch_specific, ptx, bytes });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_are_read() {
        let read =
            |text| Target::read(text).map(|target| (target.arch, target.ptx)).map_err(|why| why.to_string());
        assert_eq!(read("sm_90a"), Ok((90, false)));
        assert_eq!(read("sm_120"), Ok((120, false)));
        assert_eq!([read("80"), read("100a")], [Ok((80, false)), Ok((100, false))]);
        assert_eq!(read("compute_80"), Ok((80, true)));
        let refused = "`hopper` is no architecture\nhelp: write sm_90 or 90, or compute_80 for PTX";
        assert_eq!(read("hopper"), Err(refused.into()));
    }
}
