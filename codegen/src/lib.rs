//! From tile programs to CUDA C: a small syntax tree, the tile program, checks, lowering to the thread
//! program, the printer. Pure: no syn, no IO, nothing but the layout algebra underneath.

pub mod affine;
pub mod ast;
pub mod atom;
pub mod atoms;
pub mod build;
mod check;
pub mod condition;
pub mod cuda;
pub mod definition;
pub mod diagnostic;
mod elem;
pub mod element;
pub mod evaluate;
pub mod explain;
mod expr;
pub mod fp8;
pub mod fragment;
mod generate;

pub mod index;
pub mod kernel_def;
pub mod kernel_value;
pub mod launch;
pub mod limits;
pub mod lower;
pub mod matmul;
mod mention;
pub mod narrow;
pub mod number;
pub(crate) mod pack;
mod pair;
pub mod pipeline;
pub mod problem;
mod project;
pub mod range;
pub mod report;
pub mod resolve;
pub mod scan;
pub mod semiring;
mod spelling;
mod stack;
pub mod target;
pub mod text;
pub mod thread;
pub mod tile;
pub mod tiled;
pub mod typing;
mod verify;
pub mod view;
pub mod wire;
pub mod words;

pub use check::{Counts, Work, work};
pub use definition::{Definition, Generated, Outcome, Settings};
pub use elem::Elem;
pub use generate::generate;
