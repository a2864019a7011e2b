//! Front ends: a function (`evaluate`) or the keys of a product (`matmul`, `words`) become tile programs, by calls of
//! `tilewright_tile::build`.

pub mod evaluate;
mod fold;
pub mod matmul;
pub mod words;

use tilewright_program::{compiled, isa, launch, source, thread, values};
use tilewright_tile::{build, tile};
