//! What the tests need from outside the workspace. Today that is NVRTC alone.

use crate::nvrtc;
use crate::shell::{Outcome, step};
use std::path::PathBuf;

/// Variables to set for the tests.
pub(crate) type Environment = Vec<(&'static str, PathBuf)>;

pub(crate) fn run(_: &[String]) -> Outcome {
    prepare().map(drop)
}

/// Obtains everything and returns how the tests find it.
pub(crate) fn prepare() -> Outcome<Environment> {
    let folder = step("set up NVRTC", nvrtc::obtain)?;
    Ok(folder
        .into_iter()
        .map(|folder| (nvrtc::FOLDER_VARIABLE, folder))
        .collect())
}
