//! From the tree to the tile program.
use crate::ast::Kernel;
use crate::definition::{Outcome, Settings};

/// Makes the kernel of a function.
pub fn kernel(kernel: &Kernel, settings: &Settings) -> Outcome {
    let _ = (kernel, settings);
    Outcome { kernel: None, diagnostics: Vec::new() }
}
