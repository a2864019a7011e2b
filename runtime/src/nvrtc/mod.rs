//! NVRTC: CUDA C to a binary for one architecture, in a fraction of a second and without a GPU.
//!
//! The library is searched when it is first needed; neither the build nor the program links to it.

mod library;
mod log;
mod machine;
mod search;

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use library::{Library, Wanted};
pub use log::Usage;
pub use search::Absent;

/// Options of every compilation: no multiply-adds but those in the source, and ptxas reports resource
/// usage.
pub(crate) const OPTIONS: [&str; 2] = ["--fmad=false", "--ptxas-options=-v"];

/// NVRTC, loaded.
#[derive(Debug)]
pub struct Nvrtc {
    library: Library,
    version: (i32, i32),
    path: PathBuf,
}

/// A compiled source.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The binary for the driver.
    pub cubin: Vec<u8>,
    /// The log of the compiler and of ptxas.
    pub log: String,
    /// Resource usage of each kernel of the source.
    pub usage: Vec<Usage>,
    /// Warnings, and performance notes of ptxas.
    pub notes: Vec<String>,
    /// Compilation time.
    pub time: Duration,
}

/// Why there is no binary.
#[derive(Clone, Debug)]
pub enum Error {
    /// NVRTC is missing, or cannot be used.
    Absent(Absent),
    /// The compiler refused the source or an option.
    Refused {
        /// The name of the source.
        name: String,
        /// The target.
        arch: String,
        /// The compiler's log.
        log: String,
    },
    /// NVRTC itself failed.
    Failed {
        /// The operation that failed.
        doing: &'static str,
        /// Its message.
        message: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Absent(absent) => absent.fmt(f),
            Error::Refused { name, arch, log } => {
                write!(f, "NVRTC refused `{name}` for {arch}:\n{}", log.trim_end())
            }
            Error::Failed { doing, message } => write!(f, "NVRTC failed while {doing}: {message}"),
        }
    }
}

impl std::error::Error for Error {}

impl Nvrtc {
    /// Finds and loads NVRTC: the library that `TILEWRIGHT_NVRTC` names, or the one in the folder that it names, and then
    /// no other; otherwise among the libraries of the system and of an installed toolkit; last in the given folders.
    ///
    /// ```no_run
    /// use tilewright_runtime::nvrtc::Nvrtc;
    /// let nvrtc = Nvrtc::find(&[])?;
    /// let compiled = nvrtc.compile(r#"extern "C" __global__ void f(int* p) { *p = 1; }"#, "f", "sm_90a", &[])?;
    /// println!("{} registers", compiled.usage[0].registers);
    /// # Ok::<(), tilewright_runtime::nvrtc::Error>(())
    /// ```
    pub fn find(more: &[PathBuf]) -> Result<Nvrtc, Error> {
        search::find(more)
    }

    /// Its major and minor version.
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// The loaded file; a bare name if the system's loader found it.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Compiles a source for one architecture, such as `sm_80` or `sm_90a`. `name` appears in messages.
    /// `options` come after the options of every compilation.
    pub fn compile(&self, source: &str, name: &str, arch: &str, options: &[&str]) -> Result<Compiled, Error> {
        let start = Instant::now();
        let (cubin, log) = self.make(source, name, arch, options, Wanted::Cubin)?;
        Ok(Compiled::new(cubin, log, start.elapsed()))
    }

    /// The PTX of a source for one architecture, for reading.
    pub fn ptx(&self, source: &str, name: &str, arch: &str) -> Result<String, Error> {
        let (bytes, _) = self.make(source, name, arch, &[], Wanted::Ptx)?;
        Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned())
    }

    fn make(
        &self,
        source: &str,
        name: &str,
        arch: &str,
        options: &[&str],
        wanted: Wanted,
    ) -> Result<(Vec<u8>, String), Error> {
        let target = format!("--gpu-architecture={arch}");
        // With a driver present NVRTC 13 caches compilations, and then reports no registers and spills.
        let fresh = (self.version.0 >= 13).then_some("--no-cache");
        let all: Vec<&str> = [target.as_str()]
            .into_iter()
            .chain(OPTIONS)
            .chain(fresh)
            .chain(options.iter().copied())
            .collect();
        let output = self.library.compile(source, &format!("{name}.cu"), &all, wanted)?;
        match output.wanted {
            Some(made) => Ok((made, output.log)),
            None => Err(Error::Refused { name: name.to_string(), arch: arch.to_string(), log: output.log }),
        }
    }
}

impl Compiled {
    /// A binary with the contents of its log.
    pub(crate) fn new(cubin: Vec<u8>, log: String, time: Duration) -> Compiled {
        let (usage, notes) = (log::usage(&log), log::notes(&log));
        Compiled { cubin, log, usage, notes, time }
    }

    /// Resource usage of the kernel of this name.
    pub fn usage_of(&self, kernel: &str) -> Option<&Usage> {
        self.usage.iter().find(|usage| usage.kernel == kernel)
    }

    /// The loop of this kernel with the most multiply-adds, from its machine code; `None` if there is
    /// none, and on architectures newer than sm_90.
    pub fn main_loop(&self, kernel: &str, arch: &str) -> Option<tilewright_program::report::Loop> {
        machine::main_loop(&self.cubin, kernel, arch)
    }
}
