//! From tile programs to CUDA C: a small syntax tree, the tile program, checks, lowering to the thread
//! program, the printer. Pure: no syn, no IO, no dependency but the layout algebra.

pub mod build;
pub mod cuda;
mod front;
mod kernel;
pub mod launch;
mod passes;
mod source;
pub mod thread;
pub mod tile;
mod values;

pub use build::{fragment, tiled};
pub use cuda::report;
pub use front::{evaluate, matmul, words};
pub use kernel::generate::generate;
pub use kernel::{explain, kernel_def, kernel_value, text};
pub use passes::{lower, pipeline, resolve, synchronise};
pub use source::{ast, diagnostic, problem, wire};
pub use thread::{atom, atoms, index};
pub use tile::definition::{Definition, Generated, Outcome, Settings};
pub use tile::{definition, range, view};
pub use values::elem::Elem;
pub use values::{
    affine, condition, element, fp8, lanes, limits, narrow, number, scan, semiring, target, typing,
};
