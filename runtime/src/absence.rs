//! Missing prerequisites of a machine. The message of each names the prerequisite, how to install it, and what works
//! without it.

use std::fmt;

use crate::nvrtc;

/// Why kernels cannot run here.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Absence {
    /// There is no driver.
    Driver {
        /// Libraries that were tried, and why each failed.
        tried: Vec<(String, String)>,
    },
    /// The loaded library is the toolkit's stub for linking.
    Stub,
    /// The driver is too old.
    OldDriver {
        /// The CUDA version that the driver supports.
        version: (i32, i32),
        /// A missing function.
        lacks: &'static str,
    },
    /// The driver cannot be used.
    BrokenDriver {
        /// Its error.
        code: i32,
        /// The error's name.
        name: String,
    },
    /// There is no device.
    Device,
    /// There is no device with this number.
    Ordinal {
        /// The number.
        ordinal: usize,
        /// How many there are.
        count: usize,
    },
    /// There is no NCCL.
    Nccl {
        /// Libraries that were tried, and why each failed.
        tried: Vec<(String, String)>,
    },
    /// There is no compiler.
    Nvrtc(nvrtc::Absent),
    /// The compiler makes binaries that the driver does not load.
    NewNvrtc {
        /// The compiler's version.
        nvrtc: (i32, i32),
        /// The CUDA version that the driver supports.
        driver: (i32, i32),
    },
}

/// What works without a device.
const WITHOUT_DEVICE: &str = "Without it everything but running on a GPU works: checking, sources, reports, compiling, simulating, and products by `Host`.";

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Absence::Driver { tried } => {
                writeln!(f, "there is no NVIDIA driver here.")?;
                list(f, tried)?;
                write!(
                    f,
                    "help: install NVIDIA's driver; in a container, start it with `--gpus all`. {WITHOUT_DEVICE}"
                )
            }
            Absence::Stub => write!(
                f,
                "the CUDA driver that was found is the toolkit's stub, which is there for linking only.\n\
                 help: take the toolkit's folder `stubs` out of the library path. {WITHOUT_DEVICE}"
            ),
            Absence::OldDriver { version: (major, minor), lacks } => write!(
                f,
                "the driver is made for CUDA {major}.{minor}, and has no `{lacks}`.\n\
                 help: install a driver for CUDA 12.8 or newer (570 and later). {WITHOUT_DEVICE}"
            ),
            Absence::BrokenDriver { code, name } => write!(
                f,
                "the NVIDIA driver does not start: {name} ({code}).\n\
                 help: `nvidia-smi` says more; after an update of the driver the machine must be restarted. {WITHOUT_DEVICE}"
            ),
            Absence::Device => write!(
                f,
                "the NVIDIA driver sees no device.\n\
                 help: see whether `nvidia-smi` lists one, and whether CUDA_VISIBLE_DEVICES hides it. {WITHOUT_DEVICE}"
            ),
            Absence::Ordinal { ordinal, count } => {
                let s = if *count == 1 { " is" } else { "s are" };
                write!(f, "there is no device {ordinal}: {count} device{s} there, counted from 0")
            }
            Absence::Nccl { tried } => {
                writeln!(f, "there is no NCCL here.")?;
                list(f, tried)?;
                write!(
                    f,
                    "help: install NVIDIA's package `libnccl2`, or the Python package `nvidia-nccl-cu13`, and set TILEWRIGHT_NCCL to the \
                     folder with `libnccl.so.2`. Without it everything on one device works."
                )
            }
            Absence::Nvrtc(absent) => write!(
                f,
                "{absent}\nWithout it kernels run only where they were compiled before; checking, sources, reports and \
                 simulating work."
            ),
            Absence::NewNvrtc { nvrtc, driver } => write!(
                f,
                "NVRTC {}.{} makes binaries that the driver, made for CUDA {}.{}, does not load.\n\
                 help: install a driver for CUDA {} or newer, or an NVRTC of version {}",
                nvrtc.0, nvrtc.1, driver.0, driver.1, nvrtc.0, driver.0
            ),
        }
    }
}

/// Libraries that were tried, one a line.
fn list(f: &mut fmt::Formatter<'_>, tried: &[(String, String)]) -> fmt::Result {
    tried.iter().try_for_each(|(library, why)| writeln!(f, "  {library}: {why}"))
}

impl std::error::Error for Absence {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(absence: Absence, parts: &[&str]) {
        let message = absence.to_string();
        for part in parts {
            assert!(message.contains(part), "`{part}` is not in: {message}");
        }
    }

    #[test]
    fn absences_say_what_to_install_and_what_works_without() {
        let works = "Without it everything but running on a GPU works";
        check(
            Absence::Driver { tried: vec![("libcuda.so.1".into(), "no such file".into())] },
            &[
                "there is no NVIDIA driver here.\n  libcuda.so.1: no such file\nhelp: install NVIDIA's driver",
                works,
            ],
        );
        check(Absence::Stub, &["the toolkit's stub", "folder `stubs` out of the library path", works]);
        check(
            Absence::OldDriver { version: (11, 4), lacks: "cuLaunchKernelEx" },
            &["made for CUDA 11.4, and has no `cuLaunchKernelEx`", "CUDA 12.8 or newer", works],
        );
        check(
            Absence::BrokenDriver { code: 803, name: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH".into() },
            &["does not start: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)", "must be restarted", works],
        );
        check(Absence::Device, &["sees no device", "CUDA_VISIBLE_DEVICES", works]);
        check(
            Absence::Ordinal { ordinal: 1, count: 1 },
            &["there is no device 1: 1 device is there, counted from 0"],
        );
        check(Absence::Ordinal { ordinal: 9, count: 8 }, &["8 devices are there"]);
        check(
            Absence::Nccl { tried: vec![("libnccl.so.2".into(), "no such file".into())] },
            &[
                "there is no NCCL here.\n  libnccl.so.2: no such file\nhelp: install",
                "set TILEWRIGHT_NCCL to the folder",
            ],
        );
        let absent = nvrtc::Absent { tried: vec![] };
        check(
            Absence::Nvrtc(absent),
            &["NVRTC was not found", "kernels run only where they were compiled before"],
        );
        check(
            Absence::NewNvrtc { nvrtc: (13, 0), driver: (12, 4) },
            &["NVRTC 13.0 makes binaries that the driver, made for CUDA 12.4, does not load", "version 12"],
        );
    }
}
