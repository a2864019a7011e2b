//! What belongs to a block of statements and ends with it: names, values of loop variables, the place in the program.
//!
//! The kernel's own tables (parameters, arrays, names at its top) live in [`Lower`]; a block's environment is a value, so
//! nothing of one arm, role or iteration is seen by the next.

use super::Lower;
use crate::index::Ix;
use crate::thread::{Id, Stmt};

/// The environment of a block.
#[derive(Clone, Default)]
pub(super) struct Scope {
    /// The group that performs the statement at hand.
    pub(super) by: Id,
    /// Where the statement at hand comes from.
    pub(super) site: Id,
    /// For each loop variable of the program: its value.
    pub(super) vars: Vec<Option<Ix>>,
    /// Variables of loops that are unrolled wholly.
    pub(super) unrolled: Vec<Id>,
    /// Names given in this block or one around it.
    pub(super) names: Vec<(Ix, Id)>,
    /// Loops around the statement at hand.
    pub(super) loops: u32,
    /// Is this part of a later iteration, which runs ahead?
    pub(super) ahead: bool,
}

impl Lower<'_> {
    /// Runs `fill` in a block of its own, and returns the block's statements. What it has named ends with it.
    pub(super) fn nested<T, E>(
        &mut self,
        fill: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<(Vec<Stmt>, T), E> {
        let (scope, block) = (self.scope.clone(), std::mem::take(&mut self.block));
        let done = fill(self);
        self.scope = scope;
        let inner = std::mem::replace(&mut self.block, block);
        Ok((inner, done?))
    }
}
