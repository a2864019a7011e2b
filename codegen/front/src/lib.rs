//! Front ends: a function (`evaluate`) or the keys of a product (`matmul`) become tile programs, by calls of `tilewright_tile::build`.

pub mod evaluate;
mod fold;
pub mod matmul;

use tilewright_program::{isa, launch, source, thread, values};
use tilewright_tile::{build, tile};
