//! From a tile program that an author could have written to a thread program: [`pass::PASSES`], then `lower`; and checks. No pass
//! knows which kernel it compiles.

pub mod allocate;
pub mod check;
pub mod lower;
pub mod origin;
pub mod pass;
pub mod pipeline;
pub mod project;
pub mod resolve;
pub mod synchronise;
mod view_elements;

use tilewright_program::{cuda, isa, launch, source, thread, values};
use tilewright_tile::{build, tile};
