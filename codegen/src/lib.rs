//! From tile programs to CUDA C: a small syntax tree, the tile program, checks, lowering to the thread
//! program, the printer. Pure: no syn, no IO, no dependency but the layout algebra.
//!
//! Without the feature `generator`, there are the layers that a program needs to launch or simulate the kernels that its macros
//! made: thread programs, their printer, launch plans.
// What the generator alone calls is unused then.
#![cfg_attr(not(feature = "generator"), allow(dead_code, unused_imports, unused_macros))]

#[cfg(feature = "generator")]
pub mod build;
pub mod cuda;
#[cfg(feature = "generator")]
mod front;
mod kernel;
pub mod launch;
#[cfg(feature = "generator")]
mod passes;
mod source;
pub mod thread;
#[cfg(feature = "generator")]
pub mod tile;
mod values;

#[cfg(feature = "generator")]
pub use build::tiled;
pub use cuda::report;
#[cfg(feature = "generator")]
pub use front::{evaluate, matmul, words};
#[cfg(feature = "generator")]
pub use kernel::generate::generate;
#[cfg(feature = "generator")]
pub use kernel::text;
pub use kernel::{explain, kernel_def, kernel_value};
pub use launch::definition;
pub use launch::definition::{Definition, Generated, Outcome, Settings};
#[cfg(feature = "generator")]
pub use passes::{lower, pipeline, resolve, synchronise};
pub use source::{ast, diagnostic, problem, wire};
pub use thread::{atom, atoms, index};
#[cfg(feature = "generator")]
pub use tile::{range, view};
pub use values::elem::Elem;
pub use values::{
    affine, condition, element, fp8, lanes, limits, narrow, number, scan, semiring, target, typing,
};
