//! Why a cache is not usable, in words.

use std::fmt;
use std::path::{Path, PathBuf};

use super::folder;
use super::trust::Distrust;

/// Why the cache is not usable. Kernels run all the same, and are compiled each time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    path: PathBuf,
    trouble: Trouble,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Trouble {
    /// An operation failed.
    Failed { doing: &'static str, why: String },
    /// Other users could have written binaries there.
    Distrusted(Distrust),
}

impl Note {
    pub(super) fn failed(doing: &'static str, path: &Path, why: impl fmt::Display) -> Note {
        Note { path: path.to_path_buf(), trouble: Trouble::Failed { doing, why: why.to_string() } }
    }

    pub(super) fn distrusted(folder: &Path, why: Distrust) -> Note {
        Note { path: folder.to_path_buf(), trouble: Trouble::Distrusted(why) }
    }

    /// The folder, and the reason why it is not usable, for the list of folders that were tried.
    pub(super) fn into_tried(self) -> (PathBuf, String) {
        let why = match self.trouble {
            Trouble::Failed { doing, why } => format!("{doing} it failed: {why}"),
            Trouble::Distrusted(why) => format!("kernels that were compiled before are not loaded: {why}"),
        };
        (self.path, why)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, variable) = (self.path.display(), folder::VARIABLE);
        match &self.trouble {
            Trouble::Failed { doing, why } => write!(
                f,
                "compiled kernels are not kept: {doing} {path} failed: {why}\nhelp: set {variable} to a folder that can be \
                 written to"
            ),
            Trouble::Distrusted(why) => write!(
                f,
                "compiled kernels are neither kept in {path} nor loaded from it: {why}\nhelp: {}",
                why.help(variable)
            ),
        }
    }
}

impl std::error::Error for Note {}
