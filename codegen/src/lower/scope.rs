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
    /// For each integer that the program reads: its value, once it has been read.
    pub(super) reads: Vec<Option<Ix>>,
    /// Variables of the program that stay the same for the whole block: where its tile stands.
    pub(super) fixed: Vec<Id>,
    /// Variables of loops that are unrolled wholly.
    pub(super) unrolled: Vec<Id>,
    /// Names given in this block or one around it.
    pub(super) names: Vec<(Ix, Id)>,
    /// Loops around the statement at hand.
    pub(super) loops: u32,
    /// For each ring: how many of its slots the group has been through, once that is counted.
    pub(super) phases: Vec<Option<Ix>>,
    /// For each order in which groups take turns: how often the group has been through, once that is counted.
    pub(super) orders: Vec<Option<Ix>>,
    /// Does one warp of the group do this, for all of it?
    pub(super) one_warp: bool,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affine::Coord;
    use crate::build::Builder;
    use crate::elem::Elem;
    use crate::lower::Policy;
    use crate::problem::Problem;
    use crate::thread::{Bin, Op};
    use crate::tile::{Across, Expr, Program};
    use crate::view::At;
    use tilewright_layout::{Value, layout};

    #[test]
    fn names_end_with_their_block() {
        let program = Program::new("k");
        let mut lower = Lower::new(&program, Policy::General);
        let (block, two) = (lower.coord(&Coord::Block(0)), lower.int(2));
        let twice = lower.exprs().mul(block, two);
        let name = |lower: &mut Lower<'_>| Ok::<_, Problem>(lower.hold(twice, "twice"));
        let (one, first) = lower.nested(name).unwrap();
        let (other, second) = lower.nested(name).unwrap();
        assert_ne!(first, second);
        for block in [one, other] {
            assert!(matches!(block[..], [Stmt { op: Op::Let(..), .. }]), "{block:?}");
        }
        // A block inside sees the names around it.
        let outer = lower.hold(twice, "twice");
        assert_eq!(lower.nested(name).unwrap(), (Vec::new(), outer));
    }

    #[test]
    fn a_statement_keeps_its_mask_however_often_it_is_lowered() {
        let mut b = Builder::new("k");
        let x = b.tensor("x", Elem::F32, (Value::symbol("N"),), None, false).unwrap();
        let tile = b.tile(&x, (64i64,), &[At::Index(Coord::Block(0).into())]).unwrap();
        let mine = b.parallelize(&tile, &layout!(32)).unwrap();
        let part = b.registers_like("part", &mine, 0.0).unwrap();
        let sum = b.registers("sum", Elem::F32, (1i64,)).unwrap();
        b.fill(&sum, Expr::lit(0.0)).unwrap();
        b.copy_filled(&mine, &part, 7.0).unwrap();
        b.reduce(&part, &sum, Bin::Add, Across::Warp(32)).unwrap();
        let mut program = b.finish();
        program.number();
        let mut lower = Lower::new(&program, Policy::General);
        lower.masks = lower.masks(&program.body);
        let mut masked = || {
            let (block, ()) = lower.nested(|lower| lower.statements(&program.body)).unwrap();
            format!("{block:?}").matches("Guarded").count()
        };
        let first = masked();
        assert_eq!((first, masked()), (1, 1));
    }
}
