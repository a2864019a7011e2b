//! Guards of accesses that can be out of bounds (see [`Bounds`]), clamped coordinates, and partial tiles.

use tilewright_layout::{Symbol, Value};

use super::Lower;
use crate::source::problem::Result;
use crate::thread::index::{Int, Ix};
use crate::thread::{Fact, Frag, Op, Stmt, Unroll, Val};
use crate::tile;
use crate::tile::bounds::{Bounds, Edges};
use crate::tile::view::View;
use crate::tile::view::leaf::Leaf;
use crate::values::affine::Affine;
use crate::values::elem::Elem;
use crate::values::number::Number;

/// The elements of a vector, or one of them.
pub(super) struct Piece<'a> {
    /// The index of the first one, leaf by leaf.
    pub(super) at: &'a [Ix],
    /// Its number in the vector.
    pub(super) first: Ix,
    /// How many.
    pub(super) len: i64,
    /// They are in bounds.
    pub(super) guard: Option<Ix>,
}

/// Vector accesses.
#[derive(Clone, Copy)]
pub(super) struct Vector {
    /// The leaf along which the elements of a vector are adjacent.
    pub(super) leaf: usize,
    /// The number of elements.
    pub(super) width: i64,
}

/// A view and its leaves.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) view: &'a View,
    pub(super) leaves: &'a [Leaf],
}

/// The access of a whole vector, where that is possible.
pub(super) struct Whole {
    /// It is possible.
    pub(super) cond: Ix,
    /// The access.
    pub(super) then: Vec<Stmt>,
    /// Some elements of the vector may be in bounds.
    pub(super) outside: Option<Ix>,
}

impl Lower<'_> {
    /// The bounds at this point.
    pub(super) fn bounds(&self) -> Bounds<'_> {
        self.assumed.bounds(&self.scope.known)
    }

    /// Answers a question about them, and relies on the answer.
    pub(super) fn relying<T>(&mut self, answer: impl FnOnce(&Bounds<'_>, &mut Vec<Fact>) -> T) -> T {
        self.assumed.relying(&self.scope.known, answer)
    }

    /// See [`Bounds::guarded`].
    pub(super) fn guarded(&mut self, view: &View, mode: usize) -> bool {
        self.relying(|bounds, needs| bounds.guarded(view, mode, needs))
    }

    /// See [`Bounds::outside`].
    pub(super) fn outside(&mut self, view: &View, mode: usize) -> bool {
        self.relying(|bounds, needs| bounds.outside(view, mode, needs))
    }

    /// See [`Bounds::clamps`].
    pub(super) fn clamps(&mut self, view: &View, mode: usize) -> bool {
        self.relying(|bounds, needs| bounds.clamps(view, mode, needs))
    }

    /// See [`Bounds::width`].
    pub(super) fn width(&mut self, view: &View, all: &[Leaf], which: usize, most: i64) -> i64 {
        self.relying(|bounds, needs| bounds.width(view, all, which, most, Edges::Whole, needs))
    }

    /// See [`Bounds::vector`].
    pub(super) fn vector(&mut self, sides: &[(&View, &[Leaf])], edges: Edges) -> (usize, i64) {
        self.relying(|bounds, needs| bounds.vector(sides, edges, needs))
    }

    /// Clamps a coordinate to the last one at which a vector fits, for a width that divides both it and the extent, or to any
    /// one in bounds, if the view wraps.
    pub(super) fn clamped(&mut self, view: &View, mode: usize, coordinate: Ix) -> Ix {
        let extent = self.program.tensor(view.tensor).plain().leaves().nth(mode).map(|leaf| leaf.0);
        let extent = extent.unwrap_or(Value::Int(1));
        let multiple =
            if view.nearest.contains(&mode) { 1 } else { self.kernel.exprs.get(coordinate).multiple };
        let fits = |n: &i64| {
            multiple % n == 0 && (extent.factor() % n == 0 || self.bounds().supposed(*n, extent, &[]))
        };
        let vector = [16, 8, 4, 2].into_iter().find(fits).unwrap_or(1);
        let extent = self.value(extent);
        let last = self.exprs().sub(extent, vector);
        let begun = self.exprs().max(coordinate, 0);
        match view.wraps && !view.nearest.contains(&mode) {
            true => self.exprs().wrap(begun, extent, last),
            false => self.exprs().min(begun, last),
        }
    }

    /// For the comparison of a coordinate with a size: if the length of a vector divides the size, the vector is in bounds
    /// entirely or not at all, so its first coordinate is compared.
    pub(super) fn start_of_vector(&mut self, at: Ix, end: Ix) -> Ix {
        let Some(&(of, _)) = self.symbols.iter().find(|(_, size)| *size == end) else { return at };
        let known = |n: &i64| self.bounds().supposed(*n, Value::Sym { times: 1, of, over: 1 }, &[]);
        let lengths: Vec<i64> = [16, 8, 4, 2].into_iter().filter(known).collect();
        lengths.into_iter().find_map(|n| self.exprs().split(at, n)).map_or(at, |(start, _)| start)
    }

    /// Can offsets of a view be assumed to fit 32 bits? A launch fact covers addresses near the tensor.
    /// Addresses that may be farther away are computed in 64 bits.
    pub(super) fn is_small(&mut self, view: &View) -> bool {
        let Some(distance) = self.bounds().small(view, self.scope.ahead) else { return false };
        let position = self.storage[view.tensor as usize];
        for fact in &mut self.assumed.needs {
            if let Fact::Small { param, distance: known } = fact
                && *param == position
            {
                known.iter_mut().zip(&distance).for_each(|(known, &now)| *known = now.max(*known));
            }
        }
        true
    }

    /// The guard of the element at `at`: it is in bounds. `None` when it always is.
    pub(super) fn guard(&mut self, view: &View, leaves: &[Leaf], at: &[Ix]) -> Option<Ix> {
        self.guard_between(view, leaves, at, at)
    }

    /// The guard of the elements from `at` to `last`, which are neighbours along one leaf: all are in bounds.
    pub(super) fn guard_between(
        &mut self,
        view: &View,
        leaves: &[Leaf],
        at: &[Ix],
        last: &[Ix],
    ) -> Option<Ix> {
        let tensor = self.program.tensor(view.tensor);
        let extents: Vec<Value> = match tensor.space {
            tile::Space::Global { .. } => tensor.plain().leaves().map(|leaf| leaf.0).collect(),
            tile::Space::Shared { .. } => {
                let sizes = tensor.plain().modes().map(|mode| mode.size().map_or(Value::Int(0), Value::Int));
                sizes.collect()
            }
            tile::Space::Registers { .. } => return None,
        };
        let modes: Vec<usize> = (0..extents.len()).filter(|&mode| self.guarded(view, mode)).collect();
        if modes.is_empty() {
            return None;
        }
        let mut guard = self.int(1);
        for mode in modes {
            if self.outside(view, mode) && !view.clamped.contains(&mode) && !view.nearest.contains(&mode) {
                let first = self.coordinate(view, mode, leaves, at);
                let (last, extent) = (self.coordinate(view, mode, leaves, last), self.value(extents[mode]));
                let end = match self.relying(|bounds, needs| bounds.begins(view, mode, needs)) {
                    Some((iteration, of, tile)) => {
                        let next = iteration.plus(&1.into(), 1).unwrap_or_default();
                        self.begin_later(&next, of, tile)
                    }
                    None => extent,
                };
                guard = self.and_between(guard, first, last, end);
            }
            if let Some((origin, extent)) = self.bounds().limited(view, mode) {
                let within = view.base[mode].plus(&origin, -1).unwrap_or_default();
                let within = self.affine(&within);
                let steps = self.steps(leaves, last, mode);
                let within = self.exprs().add(within, steps);
                let below = self.exprs().lt(within, extent);
                guard = self.exprs().all(guard, below);
            }
        }
        (self.kernel.exprs.constant(guard) != Some(1)).then_some(guard)
    }

    /// An access of `width` elements along leaf `which`, from the element at `at` on, which `access` makes for each piece. A
    /// vector that is partly out of bounds is accessed element by element, and one that is entirely out of bounds not at all.
    pub(super) fn access(
        &mut self,
        side: Side<'_>,
        at: &[Ix],
        vector: Vector,
        mut access: impl FnMut(&mut Self, &Piece<'_>) -> Op,
    ) -> Result<()> {
        let elem = self.program.tensor(side.view.tensor).elem;
        self.split(side, at, vector, |lower, piece| {
            let op = access(lower, piece);
            lower.moved(op, piece, elem);
            Ok(())
        })
    }

    /// Emits the access of a piece. One that is out of bounds stores no element, and loads the fill.
    pub(super) fn moved(&mut self, op: Op, piece: &Piece<'_>, elem: Elem) {
        let outside = piece.guard.is_some_and(|guard| self.kernel.exprs.constant(guard) == Some(0));
        match op {
            Op::Store { .. } if outside => {}
            Op::Load { to, fill, .. } if outside => self.fill_registers(to, fill, elem),
            op => self.emit(op),
        }
    }

    /// Sets registers to a number.
    pub(super) fn fill_registers(&mut self, to: Frag, fill: Number, elem: Elem) {
        for n in 0..i64::from(to.len) {
            let at = self.exprs().add(to.at, n);
            self.emit(Op::Assign { reg: to.reg, at, value: Val::Lit(fill, elem) });
        }
    }

    /// Emits the accesses of a statement. Where its vectors may begin before their row, one condition says that all of them are in
    /// bounds; else each has its own.
    pub(super) fn together(
        &mut self,
        Side { view, leaves }: Side<'_>,
        Vector { leaf: which, width }: Vector,
        emit: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let (zero, ends) = (self.int(0), leaves.iter().map(|leaf| leaf.extent - 1).collect::<Vec<_>>());
        let several = leaves.iter().map(|leaf| leaf.extent).product::<i64>() > width;
        let ascends = leaves.iter().all(|leaf| leaf.step >= 0);
        let cond =
            if width > 1 && several && ascends && self.bounds().begins_aligned(view, leaves, which, width) {
                let ends: Vec<Ix> = ends.into_iter().map(|end| self.int(end)).collect();
                self.guard_between(view, leaves, &vec![zero; leaves.len()], &ends)
            } else {
                None
            };
        self.if_whole(cond, emit)
    }

    /// Emits accesses twice: where a condition says that all vectors are in bounds, and elsewhere.
    pub(super) fn if_whole(
        &mut self,
        cond: Option<Ix>,
        mut emit: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let Some(cond) = cond else { return emit(self) };
        let (then, ()) = self.nested(|lower| {
            lower.scope.whole = true;
            emit(lower)
        })?;
        let (other, ()) = self.nested(emit)?;
        self.emit_after(cond, then, other);
        Ok(())
    }

    /// Emits an `If`: as a part of the statement before it, if that has the same condition, so that loads of both are in flight together.
    fn emit_after(&mut self, cond: Ix, then: Vec<Stmt>, other: Vec<Stmt>) {
        let comments = self.block.iter().rev().take_while(|stmt| matches!(stmt.op, Op::Comment(_))).count();
        let before = self.block.len() - comments;
        let same = |stmt: &Stmt| {
            matches!(&stmt.op, Op::If { cond: known, other, .. } if *known == cond.into() && !other.is_empty())
                && !stmt.preorder().any(|stmt| matches!(stmt.op, Op::Set(..)))
        };
        if !self.block[..before].last().is_some_and(same) {
            return self.emit(Op::If { cond: cond.into(), then, other });
        }
        let comments = self.block.split_off(before);
        if let Some(Stmt { op: Op::If { then: first, other: second, .. }, .. }) = self.block.last_mut() {
            first.extend(comments.iter().cloned().chain(then));
            second.extend(comments.into_iter().chain(other));
        }
    }

    /// The same for an access that may be several statements, which `access` emits. A vector that is entirely out of bounds is one
    /// piece, whose guard is 0.
    pub(super) fn split(
        &mut self,
        side: Side<'_>,
        at: &[Ix],
        vector: Vector,
        mut access: impl FnMut(&mut Self, &Piece<'_>) -> Result<()>,
    ) -> Result<()> {
        let (Side { view, leaves }, Vector { leaf: which, width }) = (side, vector);
        let zero = self.int(0);
        let split = width > 1 && self.bounds().begins_aligned(view, leaves, which, width);
        if split && self.scope.whole {
            return access(self, &Piece { at, first: zero, len: width, guard: None });
        }
        let mut last = at.to_vec();
        if let Some(last) = last.get_mut(which).filter(|_| split) {
            *last = self.exprs().add(*last, width - 1);
        }
        let guard = self.guard_between(view, leaves, at, &last);
        let Some(cond) = guard.filter(|_| split) else {
            return access(self, &Piece { at, first: zero, len: width, guard });
        };
        let (then, ()) =
            self.nested(|lower| access(lower, &Piece { at, first: zero, len: width, guard: None }))?;
        let outside = self.guard_between(view, leaves, &last, at);
        self.or_elements(Whole { cond, then, outside }, side, at, vector, access)
    }

    /// Accesses a whole vector where that is possible. Elsewhere its elements are accessed one by one, and none of them if all
    /// are out of bounds.
    pub(super) fn or_elements(
        &mut self,
        Whole { cond, then, outside }: Whole,
        Side { view, leaves }: Side<'_>,
        at: &[Ix],
        Vector { leaf: which, width }: Vector,
        mut access: impl FnMut(&mut Self, &Piece<'_>) -> Result<()>,
    ) -> Result<()> {
        let zero = self.int(0);
        let (mut other, ()) = self.nested(|lower| {
            lower.loops(&[("e".to_owned(), width)], Unroll::Full, &mut |lower, e| {
                let mut at = at.to_vec();
                at[which] = lower.exprs().add(at[which], e[0]);
                let guard = lower.guard(view, leaves, &at);
                access(lower, &Piece { at: &at, first: e[0], len: 1, guard })
            })
        })?;
        // Each end of the vector with the bound at the other side.
        if let Some(cond) = outside {
            let (none, ()) = self
                .nested(|lower| access(lower, &Piece { at, first: zero, len: width, guard: Some(zero) }))?;
            let site = self.scope.site;
            other = vec![Stmt { site, op: Op::If { cond: cond.into(), then: other, other: none } }];
        }
        self.emit(Op::If { cond: cond.into(), then, other });
        Ok(())
    }

    /// Conjoins a condition with `0 <= at < end`.
    pub(super) fn and_within(&mut self, condition: Ix, at: Ix, end: Ix) -> Ix {
        self.and_between(condition, at, at, end)
    }

    /// The same with `0 <= first` and `last < end`.
    pub(super) fn and_between(&mut self, condition: Ix, first: Ix, last: Ix, end: Ix) -> Ix {
        if self.kernel.exprs.get(first).lo >= 0 {
            return self.and_below(condition, last, end);
        }
        if first == last {
            let inside = self.exprs().within(first, end);
            return self.exprs().all(condition, inside);
        }
        let before = self.exprs().lt(first, 0);
        let begun = self.exprs().not(before);
        let condition = self.exprs().all(condition, begun);
        self.and_below(condition, last, end)
    }

    /// Conjoins a condition with `at < end`.
    pub(super) fn and_below(&mut self, condition: Ix, at: Ix, end: Ix) -> Ix {
        let below = self.is_below(at, end);
        self.exprs().all(condition, below)
    }

    /// `at < end`. If all but the last iterations of an unrolled loop are below the least value of a size, the loop's
    /// variable is compared first, and the compiler evaluates that comparison.
    fn is_below(&mut self, at: Ix, end: Ix) -> Ix {
        let below = self.exprs().lt(at, end);
        let exprs = &self.kernel.exprs;
        if !matches!(exprs.get(end).int, Int::Param(_)) || exprs.constant(below).is_some() {
            return below;
        }
        let (least, mut terms) = (exprs.get(end).lo, Vec::new());
        exprs.terms(at, &mut terms);
        let all: i64 = terms.iter().map(|term| exprs.get(*term).hi).fold(0, i64::saturating_add);
        let unrolled = |term: &Ix| {
            let (var, step) = match exprs.get(*term).int {
                Int::Mul(var, by) => (var, exprs.constant(by)?),
                _ => (*term, 1),
            };
            let of = matches!(exprs.get(var).int, Int::Var(id) if self.scope.unrolled.contains(&id));
            let before = least - 1 - (all - exprs.get(*term).hi);
            (of && step > 0 && before >= 0).then(|| (step, var, before / step + 1))
        };
        let Some((_, var, count)) = terms.iter().filter_map(unrolled).max() else { return below };
        let early = self.exprs().lt(var, count);
        self.exprs().either(early, below)
    }

    /// Where an iteration's tile begins if the partial tile comes first.
    pub(super) fn begin(&mut self, iteration: &Affine, of: Symbol, tile: i64) -> Ix {
        let later = self.begin_later(iteration, of, tile);
        self.exprs().max(later, 0)
    }

    /// The same for iterations after the first.
    pub(super) fn begin_later(&mut self, iteration: &Affine, of: Symbol, tile: i64) -> Ix {
        let iteration = self.affine(iteration);
        let full_tiles = self.exprs().mul(iteration, tile);
        let short = self.short(of, tile);
        self.exprs().sub(full_tiles, short)
    }

    /// How many elements short of a full tile the first one is.
    fn short(&mut self, of: Symbol, tile: i64) -> Ix {
        let extent = Value::Sym { times: 1, of, over: 1 };
        if self.relying(|bounds, needs| bounds.suppose_whole(tile, extent, needs)) {
            return self.int(0);
        }
        let (extent, one, most) = (self.value(extent), self.int(1), self.int(tile - 1));
        let before = self.exprs().sub(extent, one);
        let past = self.exprs().rem(before, tile);
        let short = self.exprs().sub(most, past);
        self.name(short, &format!("{}_short", of.name()))
    }
}
