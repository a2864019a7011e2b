//! Errors: the reasons why a run has no outcome.

use std::fmt;

use tilewright_program::kernel_def::KernelErrors;
use tilewright_program::launch::Refusal;

use crate::fault::Fault;

/// Why a run has no outcome.
#[derive(Clone)]
pub enum Error {
    /// The arguments do not match the kernel, which did not run.
    Refused(Refusal),
    /// The kernel could not be generated.
    Kernel(KernelErrors),
    /// The kernel has a fault.
    Fault(Box<Fault>),
}

impl Error {
    /// The fault, if it is one.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Error::Fault(fault) => Some(fault),
            _ => None,
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        Error::Refused(refusal)
    }
}

impl From<KernelErrors> for Error {
    fn from(errors: KernelErrors) -> Error {
        Error::Kernel(errors)
    }
}

impl From<Box<Fault>> for Error {
    fn from(fault: Box<Fault>) -> Error {
        Error::Fault(fault)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(refusal) => refusal.fmt(f),
            Error::Kernel(errors) => errors.fmt(f),
            Error::Fault(fault) => fault.fmt(f),
        }
    }
}

/// `unwrap` prints the `Display` form.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}
