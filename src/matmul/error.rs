//! Why a product was refused, or failed.

use std::fmt;

use tilewright_program::kernel_def::KernelErrors;
use tilewright_program::launch::Refusal;

/// Why a product was not computed. The printed error has the remedy. If the request was refused, no kernel ran, and
/// the result is unchanged.
#[derive(Clone)]
#[non_exhaustive]
pub enum Error {
    /// The request is invalid: shapes, layouts, options, or a device that cannot run it.
    Refused(Refusal),
    /// There is no kernel for these options.
    Kernel(KernelErrors),
    /// The launch failed.
    #[cfg(feature = "cuda")]
    Launch(tilewright_runtime::Error),
    /// The simulator stopped.
    #[cfg(feature = "sim")]
    Simulator(Box<tilewright_sim::Error>),
}

impl Error {
    /// The refusal, if it is one: the operand at fault, and the remedy.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Error::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(refusal) => refusal.fmt(f),
            Error::Kernel(errors) => errors.fmt(f),
            #[cfg(feature = "cuda")]
            Error::Launch(error) => error.fmt(f),
            #[cfg(feature = "sim")]
            Error::Simulator(error) => error.fmt(f),
        }
    }
}

tilewright_program::error_with_text!(Error, Refused(Refusal), Kernel(KernelErrors));

#[cfg(feature = "cuda")]
impl From<tilewright_runtime::Error> for Error {
    fn from(error: tilewright_runtime::Error) -> Error {
        match error {
            tilewright_runtime::Error::Refused(refusal) => Error::Refused(refusal),
            tilewright_runtime::Error::Kernel(errors) => Error::Kernel(errors),
            error => Error::Launch(error),
        }
    }
}

#[cfg(feature = "sim")]
impl From<tilewright_sim::Error> for Error {
    fn from(error: tilewright_sim::Error) -> Error {
        match error {
            tilewright_sim::Error::Refused(refusal) => Error::Refused(refusal),
            tilewright_sim::Error::Kernel(errors) => Error::Kernel(errors),
            error => Error::Simulator(Box::new(error)),
        }
    }
}
