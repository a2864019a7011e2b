//! From a tile program that an author could have written to a thread program: rings and roles (`project`), parts of threads
//! (`resolve`), software pipelines (`pipeline`), checks, places in shared memory, and `lower`. Each takes a program and gives a
//! program; none knows which kernel it is.

pub(crate) mod allocate;
pub(crate) mod check;
pub mod lower;
pub(crate) mod origin;
pub mod pipeline;
pub(crate) mod project;
pub mod resolve;
pub mod synchronise;
