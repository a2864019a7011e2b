//! Loads of vectors that begin between aligned addresses: two aligned vectors, and a funnel shift of their bytes.

use tilewright_layout::Value;

use super::Lower;
use super::edges::{Piece, Side, Vector, Whole};
use super::numbering::vectors_of;
use crate::isa;
use crate::source::problem::{Problem, Result};
use crate::thread::index::Ix;
use crate::thread::{AtomArg, Frag, Op, Unroll};
use crate::tile::pair::Pair;
use crate::tile::view::View;
use crate::tile::view::leaf::Leaf;
use crate::values::number::Number;

/// The aligned vectors of one that begins between them.
struct Around {
    /// How many of their elements precede it.
    past: Ix,
    /// Both are in bounds.
    whole: Ix,
    /// Some element of the vector itself may be in bounds.
    outside: Option<Ix>,
}

impl Lower<'_> {
    /// The leaf along which a view is loaded in this way, and the elements of a vector.
    pub(super) fn realigned(&mut self, view: &View, leaves: &[Leaf]) -> Option<Vector> {
        let vector = self.relying(|bounds, needs| bounds.realigned(view, leaves, needs));
        vector.map(|(leaf, width)| Vector { leaf, width })
    }

    /// Loads all vectors, then shifts them, so that loads are in flight together. Where an aligned vector would be partly out of bounds,
    /// elements are loaded one by one, and not shifted.
    pub(super) fn load_realigned(
        &mut self,
        pair: &Pair,
        from: &[Leaf],
        to: &[Leaf],
        vector: Vector,
        fill: Number,
    ) -> Result<()> {
        let Vector { leaf: which, width } = vector;
        let (view, source) = (&pair.from, self.program.tensor(pair.from.tensor));
        let side = Side { view, leaves: from };
        let (elem, target) = (source.elem, self.program.tensor(pair.to.tensor).elem);
        let row = isa::funnel_shift(elem.bytes_of(width));
        let row = row.ok_or_else(|| Problem::internal("no instruction shifts vectors"))?;
        self.arch_of(row);
        let extents = vectors_of(from, which, width);
        let counts: Vec<i64> = extents.iter().map(|(_, count)| *count).collect();
        let vectors: i64 = counts.iter().product();
        let two =
            self.register(format!("{}_around", pair.to.name), elem, (2 * width * vectors) as u32, false);
        let loads = &mut |lower: &mut Self, at: &[Ix]| {
            let elements = lower.elements(at, which, width);
            let around = lower.around(side, &elements, vector);
            let first = lower.first_of_two(&counts, at, width)?;
            let half = |lower: &mut Self, half: i64| Frag {
                reg: two,
                at: lower.exprs().add(first, half * width),
                len: width as u32,
            };
            let (then, ()) = lower.nested(|lower| -> Result<()> {
                for n in 0..2 {
                    let mut address = lower.address(view, from, &elements);
                    let begin = lower.int(n * width);
                    let begin = lower.exprs().sub(begin, around.past);
                    address.index = lower.exprs().add(address.index, begin);
                    if lower.is_small(view) {
                        lower.small(address.index);
                    }
                    let to = half(lower, n);
                    lower.emit(Op::Load { to, from: address, guard: None, fill, volatile_at: None });
                }
                Ok(())
            })?;
            if lower.scope.whole {
                then.into_iter().for_each(|stmt| lower.emit(stmt.op));
                return Ok(());
            }
            // A vector that is not shifted leaves the second one out.
            let last = half(lower, 1);
            lower.fill_registers(last, fill, elem);
            lower.or_elements(
                Whole { cond: around.whole, then, outside: around.outside },
                side,
                &elements,
                vector,
                |lower, piece: &Piece<'_>| {
                    let to = lower.exprs().add(first, piece.first);
                    let to = Frag { reg: two, at: to, len: piece.len as u32 };
                    let from = lower.address(view, from, piece.at);
                    let op = Op::Load { to, from, guard: piece.guard, fill, volatile_at: None };
                    lower.moved(op, piece, elem);
                    Ok(())
                },
            )
        };
        let reg = self.storage[pair.to.tensor as usize];
        let direct = elem == target && self.contiguous_in_registers(&pair.to, to, which);
        let few = if direct { None } else { Some(self.scratch(&pair.to.name, elem, width)) };
        let shifts = &mut |lower: &mut Self, at: &[Ix]| {
            let elements = lower.elements(at, which, width);
            let around = lower.around(side, &elements, vector);
            let both = Frag { reg: two, at: lower.first_of_two(&counts, at, width)?, len: 2 * width as u32 };
            let (into, begin) = match few {
                Some(few) => (few, lower.int(0)),
                None => (reg, lower.register_index(&pair.to, to, &elements)),
            };
            let zero = lower.int(0);
            let bytes = lower.exprs().mul(around.past, i64::from(elem.bytes()));
            let bytes =
                if lower.scope.whole { bytes } else { lower.exprs().select(around.whole, bytes, zero) };
            let shifted = Frag { reg: into, at: begin, len: width as u32 };
            let args = vec![AtomArg::Frag(shifted), AtomArg::Frag(both), AtomArg::Int(bytes)];
            lower.emit(Op::Atom { row, args, guard: None });
            if let Some(few) = few {
                lower.spread(few, pair, to, &elements, vector);
            }
            Ok(())
        };
        let several = vectors > 1 && from.iter().all(|leaf| leaf.step >= 0);
        let whole = several.then(|| self.all_around(side, vector));
        self.if_whole(whole, |lower| {
            lower.loops(&extents, Unroll::Full, loads)?;
            lower.loops(&extents, Unroll::Full, shifts)
        })
    }

    /// The aligned vectors of all vectors are in bounds.
    fn all_around(&mut self, side: Side<'_>, vector: Vector) -> Ix {
        let ends = side.leaves.iter().enumerate().map(|(at, leaf)| {
            let own = if at == vector.leaf { vector.width } else { 1 };
            leaf.extent - own
        });
        let last: Vec<Ix> = ends.collect::<Vec<_>>().into_iter().map(|end| self.int(end)).collect();
        let first = vec![self.int(0); last.len()];
        let [(first, _), (_, last)] = [first, last].map(|at| self.two(side, &at, vector).1);
        self.all_within(side, vector, &first, &last)
    }

    /// The register of the first of two vectors.
    fn first_of_two(&mut self, counts: &[i64], at: &[Ix], width: i64) -> Result<Ix> {
        let vector = self.flat(counts, at)?;
        Ok(self.exprs().mul(vector, 2 * width))
    }

    /// The aligned vectors of the vector from the element at `at` on.
    fn around(
        &mut self,
        Side { view, leaves }: Side<'_>,
        at: &[Ix],
        Vector { leaf: which, width }: Vector,
    ) -> Around {
        let (past, (first, end)) = self.two(Side { view, leaves }, at, Vector { leaf: which, width });
        let whole = self.all_within(Side { view, leaves }, Vector { leaf: which, width }, &first, &end);
        let mut last = at.to_vec();
        last[which] = self.exprs().add(last[which], width - 1);
        Around { past, whole, outside: self.guard_between(view, leaves, &last, at) }
    }
    /// How many elements precede a vector in the first one of its two aligned vectors; and the first and the last element of these.
    fn two(
        &mut self,
        Side { view, leaves }: Side<'_>,
        at: &[Ix],
        vector: Vector,
    ) -> (Ix, (Vec<Ix>, Vec<Ix>)) {
        let Vector { leaf: which, width } = vector;
        let index = self.address(view, leaves, at).index;
        let past = self.exprs().rem(index, width);
        let past = if self.varies(past) { past } else { self.name(past, &format!("{}_past", view.name)) };
        let zero = self.int(0);
        let back = self.exprs().sub(zero, past);
        let end = self.exprs().add(back, 2 * width - 1);
        let [first, last] = [back, end].map(|by| {
            let mut at = at.to_vec();
            at[which] = self.exprs().add(at[which], by);
            at
        });
        (past, (first, last))
    }

    /// Elements of aligned vectors, from the first to the last, are in bounds.
    fn all_within(
        &mut self,
        Side { view, leaves }: Side<'_>,
        vector: Vector,
        first: &[Ix],
        last: &[Ix],
    ) -> Ix {
        let mode = leaves[vector.leaf].mode;
        let whole = self.guard_between(view, leaves, first, last).unwrap_or_else(|| self.int(1));
        if self.guarded(view, mode) {
            return whole;
        }
        // The aligned vectors have elements that the view has not.
        let ends = [first, last].map(|at| self.coordinate(view, mode, leaves, at));
        let layout = self.program.tensor(view.tensor).plain();
        let extent = layout.leaves().nth(mode).map_or(Value::Int(1), |leaf| leaf.0);
        let extent = self.value(extent);
        self.and_between(whole, ends[0], ends[1], extent)
    }
}
