//! Errors of devices, tensors and launches.

use std::fmt;

use cudarc::driver::DriverError;
use tilewright_program::error_with_text;
use tilewright_program::kernel_def::KernelErrors;
use tilewright_program::launch::Refusal;

use crate::absence::Absence;
use crate::nvrtc;

/// Why an operation on a device failed.
#[derive(Clone)]
#[non_exhaustive]
pub enum Error {
    /// The machine lacks something.
    Absent(Absence),
    /// The kernel could not be made from its definition.
    Kernel(KernelErrors),
    /// The request is invalid; no kernel ran.
    Refused(Refusal),
    /// The kernel could not be compiled.
    Compile(nvrtc::Error),
    /// The driver reported an error.
    Driver(Fault),
    /// NCCL reported an error.
    #[cfg(feature = "nccl")]
    Collective(crate::nccl::Failure),
    /// Assertions failed on a device; each text names the statement and the first thread. The device is as it was.
    Asserted(Vec<String>),
}

/// An error of the driver.
#[derive(Clone)]
pub struct Fault {
    pub(crate) doing: &'static str,
    pub(crate) error: DriverError,
    pub(crate) submitted: bool,
}

impl Fault {
    /// The operation that failed.
    pub fn doing(&self) -> &'static str {
        self.doing
    }

    /// The driver's error.
    pub fn driver_error(&self) -> DriverError {
        self.error
    }

    /// Was the kernel submitted? Then it has ended: the error is reported only after waiting for it.
    pub fn was_submitted(&self) -> bool {
        self.submitted
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the driver failed while {}: ", self.doing)?;
        match (self.error.error_name(), self.error.error_string()) {
            (Ok(name), Ok(text)) => write!(f, "{} ({})", text.to_string_lossy(), name.to_string_lossy())?,
            _ => write!(f, "error {}", self.error.0 as u32)?,
        }
        if self.submitted {
            f.write_str(
                "\nthe kernel had been submitted; it has ended, and what it wrote cannot be relied on",
            )?;
        }
        Ok(())
    }
}

error_with_text!(Fault);

impl Error {
    /// The refusal, if it is one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Error::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    pub(crate) fn refused(message: impl Into<String>) -> Error {
        Error::Refused(Refusal::new(message))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Absent(absence) => absence.fmt(f),
            Error::Kernel(errors) => errors.fmt(f),
            Error::Refused(refusal) => refusal.fmt(f),
            Error::Compile(error) => error.fmt(f),
            Error::Driver(fault) => fault.fmt(f),
            #[cfg(feature = "nccl")]
            Error::Collective(failure) => failure.fmt(f),
            Error::Asserted(failed) => f.write_str(&failed.join("\n")),
        }
    }
}

error_with_text!(Error, Absent(Absence), Kernel(KernelErrors), Refused(Refusal));

/// An error of cudarc between our own calls.
impl From<DriverError> for Error {
    fn from(error: DriverError) -> Error {
        Error::Driver(Fault { doing: "doing what cudarc was asked for", error, submitted: false })
    }
}

/// A missing compiler is one of the absences.
impl From<nvrtc::Error> for Error {
    fn from(error: nvrtc::Error) -> Error {
        match error {
            nvrtc::Error::Absent(absent) => Error::Absent(Absence::Nvrtc(absent)),
            error => Error::Compile(error),
        }
    }
}

/// Names the operation during which the driver reported an error.
pub(crate) trait While<T> {
    fn doing(self, doing: &'static str) -> Result<T, Error>;
}

impl<T> While<T> for Result<T, DriverError> {
    fn doing(self, doing: &'static str) -> Result<T, Error> {
        self.map_err(|error| Error::Driver(Fault { doing, error, submitted: false }))
    }
}
