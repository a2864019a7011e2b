//! The generator: from a small syntax tree to the tile program, its checks, and the thread program with its CUDA C, which are of the
//! crate `tilewright-program`. Pure: no syn, no IO, no dependency but that crate and the layout algebra.

pub mod build;
mod front;
mod kernel;
mod passes;
pub mod tile;

pub use build::tiled;
pub use front::{evaluate, matmul, words};
pub use kernel::generate::generate;
pub use kernel::specialize::{GENERATOR, Generate};
pub use kernel::text;
pub use passes::check::report_of;
pub use passes::{lower, pipeline, resolve, synchronise};
pub use tile::{range, view};
pub use tilewright_program::{
    Definition, Elem, Generated, Outcome, Settings, affine, ast, atom, atoms, compiled, condition, cuda,
    definition, diagnostic, element, explain, fp8, index, kernel_def, kernel_value, lanes, launch, limits,
    narrow, number, problem, report, scan, semiring, source, target, thread, typing, values, wire,
    with_element,
};
