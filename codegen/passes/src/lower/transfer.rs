//! Copies: vector widths from layouts, guards from bounds, through registers or by cp.async.

use super::Lower;
use super::edges::{Side, Vector};
use super::numbering::{extents_of, named, vectors_of};
use crate::isa;
use crate::source::problem::Result;
use crate::thread::index::{Int, Ix};
use crate::thread::{AtomArg, Frag, Mem, Op, Unroll, Val};
use crate::tile::bounds::Edges;
use crate::tile::pair::{Pair, align};
use crate::tile::view::View;
use crate::tile::view::leaf::{Leaf, leaves};
use crate::tile::{How, Space};
use crate::values::elem::Elem;
use crate::values::number::Number;

/// Registers of a copy from memory to memory that are in flight in a thread, at most.
const IN_FLIGHT: i64 = 128;

/// One batch of a copy: a part of a leaf.
struct Batch {
    leaf: usize,
    /// The number of parts.
    count: i64,
    /// The number of this part.
    index: Ix,
}

impl Lower<'_> {
    pub(super) fn copy(&mut self, from: &View, to: &View, how: How, fill: Number) -> Result<()> {
        let program = self.program;
        let (source, target) = (program.tensor(from.tensor), program.tensor(to.tensor));
        self.at_tensor(&target.name);
        let pair = align(from, to)?;
        let (from_leaves, to_leaves) = (leaves(&pair.from), leaves(&pair.to));
        let note = |view: &View, tensor: &crate::tile::Tensor| match view.name == tensor.name {
            true => view.name.clone(),
            false => format!("{} of {}", view.name, tensor.name),
        };
        self.comment(format!("{} <- {}, {}", note(to, target), note(from, source), pair.to.shape()));
        let registers = |space: Space| matches!(space, Space::Registers { .. });
        match (registers(source.space), registers(target.space)) {
            (true, true) if self.convert(from, to)? => Ok(()),
            (true, true) => self.assign(&pair, &from_leaves, &to_leaves),
            (false, true) => self.load(&pair, &from_leaves, &to_leaves, how, fill),
            (true, false) => self.store(&pair, &from_leaves, &to_leaves),
            (false, false) => self.stage(&pair, &from_leaves, &to_leaves, how, fill),
        }
    }

    /// Leaf indices in elements, from loop indices, where leaf `which` counts vectors.
    pub(super) fn elements(&mut self, at: &[Ix], which: usize, width: i64) -> Vec<Ix> {
        let mut at = at.to_vec();
        at[which] = self.exprs().mul(at[which], width);
        at
    }

    /// Through registers: all loads, then all stores, so that loads are in flight together; in batches if they would need too
    /// many registers. Each side has its own vector width.
    fn stage(&mut self, pair: &Pair, from: &[Leaf], to: &[Leaf], how: How, fill: Number) -> Result<()> {
        let may_be_asynchronous = match how {
            How::Derive | How::Async | How::Atom(_) => true,
            How::Plain | How::Realigned | How::Here | How::Staged => false,
        };
        if may_be_asynchronous && self.asynchronously(pair, from, to, fill)? {
            return Ok(());
        }
        let (load_leaf, load_width) = self.vector(&[(&pair.from, from)], Edges::Whole);
        let mut needs = Vec::new();
        let (store_leaf, store_width) =
            match self.bounds().vector(&[(&pair.to, to)], Edges::Whole, &mut needs) {
                // Registers have the load's vectors contiguous; the store can use the same leaf or none.
                (leaf, width) if load_width == 1 || leaf == load_leaf => (leaf, width),
                _ => (load_leaf, 1),
            };
        if store_width > 1 {
            self.assumed.rely_on(needs);
        }
        let load = Vector { leaf: load_leaf, width: load_width };
        let store = Vector { leaf: store_leaf, width: store_width };
        let (split, batches) = self.batches(pair, from, [load, store]);
        let names = [("batch".to_owned(), batches)];
        self.loops(&names, Unroll::No, &mut |lower, batch| {
            let part = Batch { leaf: split, count: batches, index: batch[0] };
            lower.batch(pair, [(from, load), (to, store)], fill, &part)
        })
    }

    /// How a copy through registers is split: which leaf, and into how many batches.
    fn batches(&self, pair: &Pair, leaves: &[Leaf], vectors: [Vector; 2]) -> (usize, i64) {
        let elem = |view: &View| self.program.tensor(view.tensor).elem;
        let (source, target) = (elem(&pair.from), elem(&pair.to));
        let registers = |elem: Elem| i64::from(elem.bytes().div_ceil(4));
        let each = registers(source) + if source == target { 0 } else { registers(target) };
        let all: i64 = leaves.iter().map(|leaf| leaf.extent).product();
        // Vectors stay whole.
        let steps = |at: usize| {
            let own = vectors.iter().filter(|vector| vector.leaf == at).map(|vector| vector.width);
            leaves[at].extent / own.max().unwrap_or(1)
        };
        let split = (0..leaves.len()).rev().max_by_key(|&at| steps(at)).unwrap_or(0);
        let count = if leaves.is_empty() { 1 } else { steps(split) };
        let fits = |parts: &i64| count % parts == 0 && all / parts * each <= IN_FLIGHT;
        (split, (1..=count).find(fits).unwrap_or(count))
    }

    /// One batch of a copy through registers: part `index` of a leaf.
    fn batch(
        &mut self,
        pair: &Pair,
        sides: [(&[Leaf], Vector); 2],
        fill: Number,
        batch: &Batch,
    ) -> Result<()> {
        let [(from, load), (to, store)] = sides;
        let &Batch { leaf: split, count: batches, index } = batch;
        let (source, target) = (self.program.tensor(pair.from.tensor), self.program.tensor(pair.to.tensor));
        let part = |leaves: &[Leaf]| {
            let mut part = leaves.to_vec();
            part.iter_mut().skip(split).take(1).for_each(|leaf| leaf.extent /= batches);
            part
        };
        let (from_part, to_part) = (part(from), part(to));
        let whole = |lower: &mut Self, leaves: &[Leaf], at: &[Ix]| {
            let mut at = at.to_vec();
            if let (Some(at), Some(leaf)) = (at.get_mut(split), leaves.get(split)) {
                let first = lower.exprs().mul(index, leaf.extent);
                *at = lower.exprs().add(first, *at);
            }
            at
        };
        let first = if load.width > 1 { load.leaf } else { store.leaf };
        let count: i64 = from_part.iter().map(|leaf| leaf.extent).product();
        let name = format!("{}_in_flight", pair.to.name);
        let reg = self.register(name, source.elem, count as u32, false);
        self.loops(&vectors_of(&from_part, load.leaf, load.width), Unroll::Full, &mut |lower, at| {
            let own = lower.elements(at, load.leaf, load.width);
            let to_reg = Frag { reg, at: lower.staged(&from_part, first, &own)?, len: load.width as u32 };
            let elements = whole(lower, &from_part, &own);
            let guard = lower.guard(&pair.from, from, &elements);
            let address = lower.address(&pair.from, from, &elements);
            lower.emit(loaded(to_reg, address, guard, fill));
            Ok(())
        })?;
        let mut converted = reg;
        if source.elem != target.elem {
            let name = format!("{}_converted", pair.to.name);
            converted = self.register(name, target.elem, count as u32, false);
            self.loops(&named([count]), Unroll::Full, &mut |lower, at| {
                let value = Val::Cast(target.elem, Box::new(Val::Reg(reg, at[0])));
                lower.emit(Op::Assign { reg: converted, at: at[0], value });
                Ok(())
            })?;
        }
        self.loops(&vectors_of(&to_part, store.leaf, store.width), Unroll::Full, &mut |lower, at| {
            let own = lower.elements(at, store.leaf, store.width);
            let from_reg =
                Frag { reg: converted, at: lower.staged(&to_part, first, &own)?, len: store.width as u32 };
            let elements = whole(lower, &to_part, &own);
            let guard = lower.guard(&pair.to, to, &elements);
            let address = lower.address(&pair.to, to, &elements);
            lower.emit(Op::Store { to: address, from: from_reg, guard });
            Ok(())
        })
    }

    /// By cp.async from global to shared memory, if types and widths allow: in flight until a wait. Elements of vectors that
    /// are partly out of bounds pass through registers.
    fn asynchronously(&mut self, pair: &Pair, from: &[Leaf], to: &[Leaf], fill: Number) -> Result<bool> {
        let mut needs = Vec::new();
        let Some((which, width)) = self.bounds().asynchronous(pair, from, to, &mut needs) else {
            return Ok(false);
        };
        let bytes = self.program.tensor(pair.from.tensor).elem.bytes_of(width);
        let [Some(plain), Some(or_zero)] = [false, true].map(|zero| isa::cp_async(bytes, zero)) else {
            return Ok(false);
        };
        self.assumed.rely_on(needs);
        self.name_now(&pair.from, from);
        let elem = self.program.tensor(pair.from.tensor).elem;
        let cut = width > 1 && self.bounds().begins_aligned(&pair.from, from, which, width);
        let few = if cut || !fill.is_zero() { self.scratch(&pair.to.name, elem, width) } else { 0 };
        let (side, vector) = (Side { view: &pair.from, leaves: from }, Vector { leaf: which, width });
        let all = &mut |lower: &mut Self, at: &[Ix]| {
            let elements = lower.elements(at, which, width);
            lower.split(side, &elements, vector, |lower, piece| {
                let source = lower.address_now(&pair.from, from, piece.at);
                // Out of the target's own bounds no element may be written, not even zeros.
                let inside = lower.guard(&pair.to, to, piece.at);
                let target = lower.address(&pair.to, to, piece.at);
                let part = Frag { reg: few, at: lower.int(0), len: piece.len as u32 };
                if piece.len < width {
                    lower.emit(loaded(part, source, piece.guard, fill));
                    lower.emit(Op::Store { to: target, from: part, guard: inside });
                    return Ok(());
                }
                if let Some(cond) = piece.guard
                    && !fill.is_zero()
                {
                    let (other, ()) = lower.nested(|lower| -> Result<()> {
                        lower.fill_registers(part, fill, elem);
                        lower.emit(Op::Store { to: target.clone(), from: part, guard: inside });
                        Ok(())
                    })?;
                    let (then, ()) = lower.nested(|lower| -> Result<()> {
                        let args = vec![AtomArg::At(target), AtomArg::At(source)];
                        lower.emit(Op::Atom { row: plain, args, guard: inside });
                        Ok(())
                    })?;
                    match lower.kernel.exprs.constant(cond) {
                        Some(0) => other.into_iter().for_each(|stmt| lower.emit(stmt.op)),
                        _ => lower.emit(Op::If { cond: cond.into(), then, other }),
                    }
                    return Ok(());
                }
                let mut args = vec![AtomArg::At(target), AtomArg::At(source)];
                let row = match piece.guard {
                    None => plain,
                    Some(guard) => {
                        let (all, none) = (lower.int(bytes), lower.int(0));
                        args.push(AtomArg::Int(lower.exprs().select(guard, all, none)));
                        or_zero
                    }
                };
                lower.emit(Op::Atom { row, args, guard: inside });
                Ok(())
            })
        };
        let extents = vectors_of(from, which, width);
        self.together(side, vector, |lower| lower.loops(&extents, Unroll::Full, all))?;
        Ok(true)
    }

    /// The staging register of an element between load and store: leaf `first` is fastest, the others follow
    /// in order.
    fn staged(&mut self, leaves: &[Leaf], first: usize, at: &[Ix]) -> Result<Ix> {
        let order = || std::iter::once(first).chain((0..leaves.len()).filter(|&leaf| leaf != first));
        let (extents, at): (Vec<i64>, Vec<Ix>) = order().map(|leaf| (leaves[leaf].extent, at[leaf])).unzip();
        self.flat(&extents, &at)
    }

    /// Memory to registers. If the vector's elements are not contiguous in the registers, or the types
    /// differ, they pass through a few more registers.
    fn load(&mut self, pair: &Pair, from: &[Leaf], to: &[Leaf], how: How, fill: Number) -> Result<()> {
        let (source, target) = (self.program.tensor(pair.from.tensor), self.program.tensor(pair.to.tensor));
        let (which, width) = self.vector(&[(&pair.from, from), (&pair.to, to)], Edges::Split);
        if how == How::Realigned
            && width == 1
            && let Some(vector) = self.realigned(&pair.from, from)
        {
            return self.load_realigned(pair, from, to, vector, fill);
        }
        let side = Side { view: &pair.from, leaves: from };
        let reg = self.storage[pair.to.tensor as usize];
        let direct =
            source.elem == target.elem && (width == 1 || self.contiguous_in_registers(&pair.to, to, which));
        let extents = vectors_of(from, which, width);
        let few = if direct { None } else { Some(self.scratch(&pair.to.name, source.elem, width)) };
        match how {
            How::Here => self.name_parts(&pair.from, from),
            How::Derive | How::Async | How::Plain | How::Realigned | How::Staged | How::Atom(_) => {
                self.name_now(&pair.from, from)
            }
        }
        self.loops(&extents, Unroll::Full, &mut |lower, at| {
            let elements = lower.elements(at, which, width);
            let (into, begin) = match few {
                Some(few) => (few, lower.int(0)),
                None => (reg, lower.register_index(&pair.to, to, &elements)),
            };
            lower.access(side, &elements, Vector { leaf: which, width }, |lower, piece| {
                let mut address = lower.address_now(&pair.from, from, piece.at);
                let volatile_at = (few.is_none() && how == How::Here).then(|| {
                    let (base, rest) = lower.parts_of(address.index, &pair.from);
                    address.index = lower.exprs().add(base, rest);
                    base
                });
                let at = lower.exprs().add(begin, piece.first);
                let to = Frag { reg: into, at, len: piece.len as u32 };
                Op::Load { to, from: address, guard: piece.guard, fill, volatile_at }
            })?;
            if let Some(few) = few {
                lower.spread(few, pair, to, &elements, Vector { leaf: which, width });
            }
            Ok(())
        })
    }

    /// Names the parts that are invariant in unrolled loops, before the loops.
    fn name_parts(&mut self, view: &View, leaves: &[Leaf]) {
        let first = vec![self.int(0); leaves.len()];
        let address = self.address(view, leaves, &first);
        self.parts_of(address.index, view);
    }

    /// Is the view a prefetched tile, whose offsets change with each iteration?
    fn is_prefetch(&mut self, view: &View) -> bool {
        self.scope.ahead && self.is_small(view)
    }

    /// Names where a prefetched tile begins, before the loops over it.
    fn name_now(&mut self, view: &View, leaves: &[Leaf]) {
        if self.is_prefetch(view) {
            self.name_parts(view, leaves);
        }
    }

    /// The address of an element, relative to the start of its tile where that has a name.
    fn address_now(&mut self, view: &View, leaves: &[Leaf], at: &[Ix]) -> Mem {
        let mut address = self.address(view, leaves, at);
        if self.is_prefetch(view) {
            let (base, rest) = self.parts_of(address.index, view);
            address.index = self.exprs().add(base, rest);
            self.small(rest);
            self.small(address.index);
        }
        address
    }

    /// Splits an index into a part that is invariant in unrolled loops, which is named, and the rest.
    fn parts_of(&mut self, index: Ix, view: &View) -> (Ix, Ix) {
        let mut terms = Vec::new();
        self.kernel.exprs.terms(index, &mut terms);
        let (mut base, mut rest) = (self.int(0), self.int(0));
        for term in terms {
            let part = if self.is_invariant(term) { &mut base } else { &mut rest };
            *part = self.kernel.exprs.add(*part, term);
        }
        if self.is_small(view) {
            self.small(base);
        }
        if !matches!(self.kernel.exprs.get(base).int, Int::Const(_) | Int::Var(_)) {
            base = self.name_here(base, &format!("{}_now", view.name));
            self.is_offset_in(base, view.tensor);
        }
        (base, rest)
    }

    /// Is it invariant in unrolled loops, without being a constant?
    fn is_invariant(&self, term: Ix) -> bool {
        fn unrolled(lower: &Lower<'_>, at: Ix) -> bool {
            match &lower.kernel.exprs.get(at).int {
                Int::Var(id) => lower.scope.unrolled.contains(id),
                // Each element is clamped by itself.
                Int::Min(..) | Int::Wrap(..) => true,
                int => int.parts().into_iter().any(|part| unrolled(lower, part)),
            }
        }
        self.kernel.exprs.constant(term).is_none() && !unrolled(self, term)
    }

    /// Does it become a constant when loops are unrolled?
    pub(super) fn is_unrolled(&self, term: Ix) -> bool {
        match &self.kernel.exprs.get(term).int {
            Int::Const(_) => true,
            Int::Var(id) => self.scope.unrolled.contains(id),
            Int::Param(_) | Int::Thread | Int::Block(_) | Int::Grid(_) | Int::ClusterRank => false,
            int => int.parts().into_iter().all(|part| self.is_unrolled(part)),
        }
    }

    /// Registers to memory; the counterpart of `load`.
    fn store(&mut self, pair: &Pair, from: &[Leaf], to: &[Leaf]) -> Result<()> {
        let (source, target) = (self.program.tensor(pair.from.tensor), self.program.tensor(pair.to.tensor));
        let (which, width) = self.vector(&[(&pair.from, from), (&pair.to, to)], Edges::Split);
        let reg = self.storage[pair.from.tensor as usize];
        let direct = source.elem == target.elem
            && (width == 1 || self.contiguous_in_registers(&pair.from, from, which));
        let extents = vectors_of(from, which, width);
        let few = if direct { None } else { Some(self.scratch(&pair.from.name, target.elem, width)) };
        let (side, vector) = (Side { view: &pair.to, leaves: to }, Vector { leaf: which, width });
        let all = &mut |lower: &mut Self, at: &[Ix]| {
            let elements = lower.elements(at, which, width);
            let (out_of, begin) = match few {
                None => (reg, lower.register_index(&pair.from, from, &elements)),
                Some(few) => {
                    for n in 0..width {
                        let n_at = lower.int(n);
                        let mut element = elements.clone();
                        element[which] = lower.exprs().add(element[which], n_at);
                        let at = lower.register_index(&pair.from, from, &element);
                        let value = lower.converted(Val::Reg(reg, at), source.elem, target.elem);
                        lower.emit(Op::Assign { reg: few, at: n_at, value });
                    }
                    (few, lower.int(0))
                }
            };
            lower.access(side, &elements, vector, |lower, piece| {
                let at = lower.exprs().add(begin, piece.first);
                let from = Frag { reg: out_of, at, len: piece.len as u32 };
                Op::Store { to: lower.address(&pair.to, to, piece.at), from, guard: piece.guard }
            })
        };
        self.together(side, vector, |lower| lower.loops(&extents, Unroll::Full, all))
    }

    /// Registers to registers. A permutation within one tensor goes through a copy of it.
    fn assign(&mut self, pair: &Pair, from: &[Leaf], to: &[Leaf]) -> Result<()> {
        let (source, target) = (self.program.tensor(pair.from.tensor), self.program.tensor(pair.to.tensor));
        let (mut from_reg, to_reg) =
            (self.storage[pair.from.tensor as usize], self.storage[pair.to.tensor as usize]);
        let extents = vectors_of(from, 0, 1);
        let aside = pair.from.tensor == pair.to.tensor;
        if aside {
            let count: i64 = from.iter().map(|leaf| leaf.extent).product();
            let name = format!("{}_before", pair.to.name);
            let reg = self.register(name, source.elem, count as u32, false);
            self.loops(&extents, Unroll::Full, &mut |lower, at| {
                let source_at = lower.register_index(&pair.from, from, at);
                let index = lower.flat(&extents_of(from), at)?;
                lower.emit(Op::Assign { reg, at: index, value: Val::Reg(from_reg, source_at) });
                Ok(())
            })?;
            from_reg = reg;
        }
        self.loops(&extents, Unroll::Full, &mut |lower, at| {
            let source_at = match aside {
                true => lower.flat(&extents_of(from), at)?,
                false => lower.register_index(&pair.from, from, at),
            };
            let target_at = lower.register_index(&pair.to, to, at);
            let value = lower.converted(Val::Reg(from_reg, source_at), source.elem, target.elem);
            lower.emit(Op::Assign { reg: to_reg, at: target_at, value });
            Ok(())
        })
    }

    /// A vector's elements from a few registers to their own, converted.
    pub(super) fn spread(
        &mut self,
        few: u32,
        pair: &Pair,
        to: &[Leaf],
        elements: &[Ix],
        Vector { leaf: which, width }: Vector,
    ) {
        let (from, elem) =
            (self.program.tensor(pair.from.tensor).elem, self.program.tensor(pair.to.tensor).elem);
        let reg = self.storage[pair.to.tensor as usize];
        for n in 0..width {
            let n_at = self.int(n);
            let mut element = elements.to_vec();
            element[which] = self.exprs().add(element[which], n_at);
            let at = self.register_index(&pair.to, to, &element);
            let value = self.converted(Val::Reg(few, n_at), from, elem);
            self.emit(Op::Assign { reg, at, value });
        }
    }

    pub(super) fn converted(&self, value: Val, from: Elem, to: Elem) -> Val {
        match from {
            from if from == to => value,
            Elem::Bool => Val::Cast(to, Box::new(super::integers::truth(value))),
            _ => Val::Cast(to, Box::new(value)),
        }
    }

    pub(super) fn scratch(&mut self, name: &str, elem: Elem, width: i64) -> u32 {
        let name = format!("{name}_vector");
        self.register(name, elem, width as u32, false)
    }

    /// Are elements along this leaf contiguous in the register array?
    pub(super) fn contiguous_in_registers(&self, view: &View, leaves: &[Leaf], which: usize) -> bool {
        let layout = self.program.tensor(view.tensor).plain();
        let leaf = leaves[which];
        let stride = layout.modes().nth(leaf.mode).and_then(|mode| mode.leaves().next());
        leaf.step == 1 && matches!(stride, Some((_, tilewright_layout::Value::Int(1))))
    }
}

fn loaded(to: Frag, from: Mem, guard: Option<Ix>, fill: Number) -> Op {
    Op::Load { to, from, guard, fill, volatile_at: None }
}
