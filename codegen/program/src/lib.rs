//! What a compiled program has of a kernel: the thread program, its printer as CUDA C, launch plans, and the syntax tree of its
//! definition. Pure: no syn, no IO, no dependency but the layout algebra.

pub mod compiled;
pub mod cuda;
pub mod isa;
pub mod launch;
pub mod source;
pub mod thread;
pub mod values;

pub use compiled::{explain, kernel_def, kernel_value};
pub use cuda::report;
pub use isa::atom;
pub use launch::definition;
pub use launch::definition::{Definition, Generated, Outcome, Settings};
pub use source::{ast, diagnostic, problem, wire};
pub use thread::index;
pub use values::elem::Elem;
pub use values::{
    affine, arithmetic, condition, element, fp8, lanes, limits, narrow, number, scan, semiring, target,
    typing,
};
