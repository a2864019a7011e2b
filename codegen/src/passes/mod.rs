//! From a tile program that an author could have written to a thread program: rings and roles (`project`), parts of threads
//! (`resolve`), software pipelines (`pipeline`), checks, addresses in shared memory (`allocate`), and `lower`. No pass knows
//! which kernel it compiles.

pub(crate) mod allocate;
pub(crate) mod check;
pub mod lower;
pub(crate) mod origin;
pub mod pipeline;
pub(crate) mod project;
pub mod resolve;
pub mod synchronise;
