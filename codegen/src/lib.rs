//! The generator: it runs the front ends and the passes in their order, from a syntax tree to thread programs with their CUDA C; kernels
//! with other constants, and programs as text. Pure: no IO.

mod generate;
mod specialize;
#[cfg(test)]
mod tests;
pub mod text;
pub mod words;

pub use generate::generate;
pub use specialize::{GENERATOR, Generate};
pub use tilewright_front::{evaluate, matmul};
pub use tilewright_passes::check::{Sample, accesses_of, report_of};
pub use tilewright_passes::{lower, pass, pipeline, resolve, synchronise};
pub use tilewright_program::{
    Definition, Elem, Generated, Outcome, Settings, affine, ast, atom, compiled, condition, cuda, definition,
    diagnostic, element, explain, fp8, index, isa, kernel_def, kernel_value, lanes, launch, limits, narrow,
    number, problem, report, scan, semiring, source, target, thread, typing, values, wire, with_element,
};
pub use tilewright_tile::build::{self, tiled};
pub use tilewright_tile::tile::{self, range, view};

use tilewright_front as front;
use tilewright_passes as passes;
