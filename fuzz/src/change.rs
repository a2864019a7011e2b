//! What text cannot say: changes of a tile program that leave it a right one.

use tilewright_codegen::tile::Program;

use crate::random::Random;

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {}

impl Change {
    /// Makes it.
    pub fn apply(&self, _: &mut Program) {}
}

/// Changes for a program.
pub fn draw(_: &Program, _: &mut Random) -> Vec<Change> {
    Vec::new()
}
