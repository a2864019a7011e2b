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

/// `unwrap` prints the `Display` form.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

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
