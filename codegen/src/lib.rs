//! From tile programs to CUDA C: a small tree, the tile program, checks, the thread program, the printer. Pure: no syn,
//! no IO, nothing but the layout algebra underneath.

pub mod ast;
pub mod atom;
pub mod atoms;
pub mod cuda;
pub mod definition;
pub mod diagnostic;
mod elem;
pub mod evaluate;
pub mod index;
pub mod matmul;
pub mod narrow;
pub mod report;
pub mod thread;
pub mod wire;

pub use definition::{Definition, Generated, Outcome, Settings};
pub use elem::Elem;
