//! The environment of a block of statements, which ends with it: names, values of loop variables, the
//! position in the program.
//!
//! The kernel's own tables (parameters, arrays, names at its top) are in [`Lower`]. The environment is a
//! value, so no value of one arm, role or iteration is visible in the next.

use super::Lower;
use crate::thread::index::Ix;
use crate::thread::{Id, Stmt};
use crate::tile::range::{Known, Range};

/// The environment of a block.
#[derive(Clone, Default)]
pub(super) struct Scope {
    /// The group that performs the current statement.
    pub(super) by: Id,
    /// The source location of the current statement.
    pub(super) site: Id,
    /// For each loop variable of the program: its value.
    pub(super) vars: Vec<Option<Ix>>,
    /// Their analyses, the innermost last.
    pub(super) known: Vec<(Id, Known)>,
    /// For each integer that the program reads: its value, once it has been read.
    pub(super) reads: Vec<Option<Ix>>,
    /// Variables that are constant in a thread block: the coordinates of its tile.
    pub(super) fixed: Vec<Id>,
    /// Variables of fully unrolled loops.
    pub(super) unrolled: Vec<Id>,
    /// Names given in this block or one around it.
    pub(super) names: Vec<(Ix, Id)>,
    /// Loops around the current statement.
    pub(super) loops: u32,
    /// For each ring the group's position in it, once it is declared.
    pub(super) ring_positions: Vec<Option<RingPosition>>,
    /// For each ordered section the group's phase counter, once it is declared.
    pub(super) orders: Vec<Option<Ix>>,
    /// Do all blocks of the cluster run and have mbarriers, because a barrier has been passed?
    pub(super) exchanges: bool,
    /// Does one warp do this for the whole group?
    pub(super) one_warp: bool,
    /// Is this a prefetch for a later iteration?
    pub(super) ahead: bool,
    /// Is every vector of the current statement in bounds?
    pub(super) whole: bool,
}

/// A group's position in a ring: the phase, how many slots the group has advanced, as two variables. A division by
/// the number of slots would delay each access to a slot.
#[derive(Clone, Copy)]
pub(super) struct RingPosition {
    /// The slot.
    pub(super) slot: Ix,
    /// How often the group has passed all slots.
    pub(super) wraps: Ix,
}

impl Lower<'_> {
    /// Gives a loop variable of the program a value in this block.
    pub(super) fn bind(&mut self, var: Id, value: Ix) {
        let of = self.kernel.exprs.get(value);
        let range = Range { lo: of.lo.into(), hi: of.hi.into() };
        self.scope.known.push((var, Known { range, multiple: of.multiple }));
        self.scope.vars[var as usize] = Some(value);
    }

    /// Runs `fill` in a nested block, and returns the block's statements. Names that it gives end with the
    /// block.
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
    use crate::build::Builder;
    use crate::lower::Policy;
    use crate::origin;
    use crate::source::problem::Problem;
    use crate::thread::{Bin, Op};
    use crate::tile::bounds::Assumed;
    use crate::tile::view::At;
    use crate::tile::{Across, Expr, Program};
    use crate::values::affine::Coord;
    use crate::values::elem::Elem;
    use tilewright_layout::{Value, layout};

    #[test]
    fn names_end_with_their_block() {
        let program = Program::new("k");
        let mut lower = Lower::new(Assumed::new(&program, Policy::General));
        let block = lower.coord(&Coord::Block(0));
        let twice = lower.exprs().mul(block, 2);
        let name = |lower: &mut Lower<'_>| Ok::<_, Problem>(lower.name_here(twice, "twice"));
        let (one, first) = lower.nested(name).unwrap();
        let (other, second) = lower.nested(name).unwrap();
        assert_ne!(first, second);
        for block in [one, other] {
            assert!(matches!(block[..], [Stmt { op: Op::Let(..), .. }]), "{block:?}");
        }
        // A block inside sees the names around it.
        let outer = lower.name_here(twice, "twice");
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
        let (analysed, needs) = origin::find(program, Policy::General).unwrap();
        let program = analysed;
        let mut lower = Lower::new(Assumed { program: &program, policy: Policy::General, needs });
        let mut masked = || {
            let (block, ()) = lower.nested(|lower| lower.statements(&program.body)).unwrap();
            format!("{block:?}").matches("Pick").count()
        };
        let first = masked();
        assert_eq!((first, masked()), (1, 1));
    }
}
