//! Why ranks did not do something together.

use std::fmt;

use crate::runtime;
use crate::{KernelErrors, matmul, models};
use tilewright_program::launch::Refusal;

/// Why a call of ranks failed. After [`Error::Lost`] the group has ended; after the others it can be used again.
#[derive(Clone)]
#[non_exhaustive]
pub enum Error {
    /// This rank's own part failed.
    Own(matmul::Error),
    /// Another rank's part failed, before anything was transferred.
    Other {
        /// The rank.
        rank: usize,
        /// Its error.
        message: String,
    },
    /// Ranks called different things, or with different sizes. No element was transferred.
    Differ {
        /// A rank, and its call.
        first: (usize, String),
        /// Another rank, and its call.
        second: (usize, String),
    },
    /// A rank ended, panicked, stopped, or failed in the middle of a transfer.
    Lost {
        /// The rank.
        rank: usize,
        /// What is known about it.
        why: String,
    },
    /// Ranks could not find each other.
    Meeting(String),
}

impl Error {
    pub(super) fn refused(message: impl Into<String>, help: impl Into<String>) -> Error {
        Error::Own(Refusal::new(message).help(help).into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Own(error) => error.fmt(f),
            Error::Other { rank, message } => write!(f, "rank {rank} failed: {message}"),
            Error::Differ { first, second } => write!(
                f,
                "ranks differ: rank {} calls {}, and rank {} calls {}\nhelp: all ranks make the same calls in the same order, with the \
                 same sizes of whole tensors",
                first.0, first.1, second.0, second.1
            ),
            Error::Lost { rank, why } => {
                write!(f, "rank {rank} is lost: {why}\nhelp: the group has ended; make a new one")
            }
            Error::Meeting(message) => message.fmt(f),
        }
    }
}

tilewright_program::error_with_text!(Error, Own(matmul::Error));

impl From<runtime::Error> for Error {
    fn from(error: runtime::Error) -> Error {
        Error::Own(error.into())
    }
}

impl From<KernelErrors> for Error {
    fn from(error: KernelErrors) -> Error {
        Error::Own(matmul::Error::Kernel(error))
    }
}

impl From<models::Error> for Error {
    fn from(error: models::Error) -> Error {
        match error {
            models::Error::Kernel(error) => error.into(),
            models::Error::Launch(error) => error.into(),
        }
    }
}
