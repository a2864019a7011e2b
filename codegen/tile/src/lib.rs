//! Tile programs, with their analyses, and the builder that makes them. Pure: no syn, no IO, no dependency but the layout algebra and the
//! crate `tilewright-program`.

pub mod build;
pub mod tile;

use tilewright_program::{isa, launch, source, thread, values};
