//! From a tile program that an author could have written to a thread program: rings and roles (`project`), parts of threads
//! (`resolve`), software pipelines (`pipeline`), checks, addresses in shared memory (`allocate`), and `lower`. No pass knows
//! which kernel it compiles.

pub mod allocate;
pub mod check;
pub mod lower;
pub mod origin;
pub mod pipeline;
pub mod project;
pub mod resolve;
pub mod synchronise;

use tilewright_program::{cuda, launch, source, thread, values};
use tilewright_tile::{build, tile};
