//! Addresses of a view's elements: coordinates in the tensor and offsets. Every index in
//! generated code is computed here, from a layout.

use tilewright_layout::{Composed, Swizzle, Value};

use super::Lower;
use crate::thread::index::{Int, Ix};
use crate::thread::{Id, Mem, Space};
use crate::tile;
use crate::tile::view::View;
use crate::tile::view::leaf::{Leaf, leaves};
use crate::values::affine::{Affine, Coord};

impl Lower<'_> {
    /// Splits a base into its loop-invariant part and the part that varies with loop variables.
    pub(super) fn split_invariant(&self, base: &Affine) -> (Affine, Affine) {
        let varies_in = |coord: &Coord| match coord {
            Coord::Var(var) => !self.scope.fixed.contains(var),
            coord => matches!(coord, Coord::Phase(_) | Coord::Loaded { .. }),
        };
        let varies = |coord: &Coord| {
            matches!(coord, Coord::Begin { .. }) || Affine::from(coord.clone()).any(&varies_in)
        };
        let (varying, invariant) = base.terms.iter().cloned().partition(|(coord, _)| varies(coord));
        (Affine { constant: base.constant, terms: invariant }, Affine { constant: 0, terms: varying })
    }

    /// The coordinates, in the tensor, of the element of a view at these leaf indices.
    pub(super) fn coordinates(&mut self, view: &View, leaves: &[Leaf], at: &[Ix]) -> Vec<Ix> {
        (0..view.base.len()).map(|mode| self.coordinate(view, mode, leaves, at)).collect()
    }

    pub(super) fn coordinate(&mut self, view: &View, mode: usize, leaves: &[Leaf], at: &[Ix]) -> Ix {
        let global = matches!(self.program.tensor(view.tensor).space, tile::Space::Global { .. });
        let (invariant, varying) = self.split_invariant(&view.base[mode]);
        let mut sum = self.affine(&invariant);
        self.name_tile(sum, view.tensor, mode);
        if global {
            sum = self.name(sum, &format!("{}_{mode}", view.name));
        }
        let varying = self.affine(&varying);
        self.name_tile(varying, view.tensor, mode);
        sum = self.exprs().add(sum, varying);
        let steps = self.steps(leaves, at, mode);
        self.exprs().add(sum, steps)
    }

    /// Assumes that an offset fits 32 bits, as a launch fact guarantees. Its sign is not known: a guard may
    /// test the same expression.
    pub(super) fn small(&mut self, offset: Ix) {
        let lo = self.kernel.exprs.get(offset).lo.max(i64::from(i32::MIN));
        self.exprs().assume(offset, lo, i64::from(i32::MAX));
    }

    pub(super) fn steps(&mut self, leaves: &[Leaf], at: &[Ix], mode: usize) -> Ix {
        assert_eq!(leaves.len(), at.len(), "one index for each leaf");
        let along = leaves.iter().zip(at).filter(|(leaf, _)| leaf.mode == mode && leaf.step != 0);
        let (steps, at): (Vec<Value>, Vec<Ix>) = along.map(|(leaf, &at)| (Value::Int(leaf.step), at)).unzip();
        let zero = self.int(0);
        self.strided(zero, &at, steps)
    }

    /// The address of an element.
    pub(super) fn address(&mut self, view: &View, leaves: &[Leaf], at: &[Ix]) -> Mem {
        let tensor = self.program.tensor(view.tensor);
        let id = self.storage[view.tensor as usize];
        let space = match tensor.space {
            tile::Space::Global { .. } => Space::Global(id),
            tile::Space::Shared { .. } | tile::Space::Registers { .. } => Space::Shared(id),
        };
        let index = match linear(&tensor.layout) {
            Some(strides) => {
                let swizzle = tensor.layout.swizzle();
                let raw = (!swizzle.is_identity()).then(|| self.plain_offset(view, leaves, at, &strides));
                let index = self.linear_offset(view, leaves, at, &strides);
                match raw {
                    None => index,
                    Some(raw) => {
                        let mut flip = self.flip(swizzle, raw);
                        if !self.varies(flip) {
                            let array = self.array_of(view.tensor);
                            flip = self.name_in(flip, &format!("{}_flip", view.name), array);
                        }
                        self.flipped(index, flip, swizzle)
                    }
                }
            }
            None => {
                let mut coordinates = self.coordinates(view, leaves, at);
                for (mode, coordinate) in coordinates.iter_mut().enumerate() {
                    if self.clamps(view, mode) {
                        *coordinate = self.clamped(view, mode, *coordinate);
                    }
                }
                self.offset(&tensor.layout, &coordinates, Some(view.tensor))
            }
        };
        if self.is_small(view) {
            self.small(index);
        }
        self.name_constant_offset(index, view.tensor);
        let other_block = view.peer.as_ref().filter(|_| self.program.cluster != [1; 3]);
        let peer = other_block.map(|rank| self.affine(rank));
        Mem { space, index, peer }
    }

    /// The index into a register array; constant once loops are unrolled.
    pub(super) fn register_index(&mut self, view: &View, leaves: &[Leaf], at: &[Ix]) -> Ix {
        let layout = self.program.tensor(view.tensor).layout.clone();
        let coordinates = self.coordinates(view, leaves, at);
        self.offset(&layout, &coordinates, None)
    }

    /// The register array of a view, and the index of an element in it.
    pub(super) fn own_element(&mut self, view: &View, at: &[Ix]) -> (Id, Ix) {
        (self.storage[view.tensor as usize], self.register_index(view, &leaves(view), at))
    }

    /// The offset where each mode has one stride. Loop-invariant parts are computed once, at the top of the
    /// kernel.
    fn linear_offset(&mut self, view: &View, leaves: &[Leaf], at: &[Ix], strides: &[Value]) -> Ix {
        let tensor = self.program.tensor(view.tensor);
        let small = self.is_small(view);
        let global = matches!(tensor.space, tile::Space::Global { .. });
        let (mut invariant_sum, mut varying_sum) = (self.int(0), self.int(0));
        for (mode, &stride) in strides.iter().enumerate() {
            let stride = self.value(stride);
            if self.clamps(view, mode) {
                let coordinate = self.coordinate(view, mode, leaves, at);
                let coordinate = self.clamped(view, mode, coordinate);
                let term = self.exprs().mul(coordinate, stride);
                if small {
                    self.small(term);
                }
                varying_sum = self.exprs().add(varying_sum, term);
                continue;
            }
            let (invariant, varying) = self.split_invariant(&view.base[mode]);
            let mut invariant = self.affine(&invariant);
            self.name_tile(invariant, view.tensor, mode);
            if global
                && (self.guarded(view, mode)
                    || self.relying(|bounds, needs| bounds.begins(view, mode, needs)).is_some())
            {
                invariant = self.name(invariant, &format!("{}_{mode}", view.name));
            }
            let term = self.exprs().mul(invariant, stride);
            self.name_tiles_in(term, invariant, view.tensor, mode);
            self.name_stride_of(term, view.tensor, mode);
            invariant_sum = self.exprs().add(invariant_sum, term);
            let varying = self.affine(&varying);
            self.name_tile(varying, view.tensor, mode);
            let steps = self.steps(leaves, at, mode);
            for part in [varying, steps] {
                let term = self.exprs().mul(part, stride);
                self.name_tiles_in(term, part, view.tensor, mode);
                self.name_stride_of(term, view.tensor, mode);
                if small {
                    self.small(term);
                }
                varying_sum = self.exprs().add(varying_sum, term);
            }
        }
        if small {
            self.small(invariant_sum);
            self.small(varying_sum);
        }
        // Views whose bases differ by a constant share the name.
        let (named, constant) = match self.kernel.exprs.get(invariant_sum).int {
            Int::Add(named, constant) if !global && self.kernel.exprs.constant(constant).is_some() => {
                (named, constant)
            }
            _ => (invariant_sum, self.int(0)),
        };
        let array = self.array_of(view.tensor);
        let base = self.name_in(named, &format!("{}_at", view.name), array);
        let base = self.exprs().add(base, constant);
        self.exprs().add(base, varying_sum)
    }

    /// The offset of coordinates under any layout: indices of nested modes, then the swizzle. The strides have the names of the
    /// tensor's.
    pub(super) fn offset(&mut self, layout: &Composed, coordinates: &[Ix], tensor: Option<Id>) -> Ix {
        let mut at = Vec::new();
        for (mode, &coordinate) in layout.layout().modes().zip(coordinates) {
            at.extend(self.submodes(mode.leaves().map(|leaf| leaf.0), coordinate));
        }
        let first = self.int(layout.offset());
        let sum = self.strided(first, &at, layout.layout().leaves().map(|leaf| leaf.1));
        for (leaf, (&at, (_, stride))) in at.iter().zip(layout.layout().leaves()).enumerate() {
            if let Some(tensor) = tensor {
                let stride = self.value(stride);
                let term = self.exprs().mul(at, stride);
                self.name_stride_of(term, tensor, leaf);
            }
        }
        let swizzle = layout.swizzle();
        if swizzle.is_identity() {
            return sum;
        }
        let flip = self.flip(swizzle, sum);
        self.flipped(sum, flip, swizzle)
    }

    /// The bits that a swizzle XORs onto an offset: some of the offset's own bits, shifted.
    pub(super) fn flip(&mut self, swizzle: Swizzle, offset: Ix) -> Ix {
        if swizzle.is_identity() {
            return self.int(0);
        }
        let shift = swizzle.shift().unsigned_abs();
        let (from, to) = match swizzle.shift() {
            0.. => (swizzle.base() + shift, swizzle.base()),
            _ => (swizzle.base(), swizzle.base() + shift),
        };
        // Only the bits that are read matter: higher multiples are dropped.
        let mut terms = Vec::new();
        self.kernel.exprs.terms(offset, &mut terms);
        terms.retain(|&term| self.kernel.exprs.get(term).multiple % (1 << (from + swizzle.bits())) != 0);
        let zero = self.int(0);
        let near = terms.into_iter().fold(zero, |sum, term| self.exprs().add(sum, term));
        let near = if self.kernel.exprs.get(near).lo < 0 { offset } else { near };
        let high = self.exprs().div(near, 1 << from);
        let submode = match self.kernel.exprs.get(high).int {
            Int::Div(..) => {
                let low = self.exprs().rem(near, 1 << (from + swizzle.bits()));
                self.exprs().div(low, 1 << from)
            }
            _ => self.exprs().rem(high, 1 << swizzle.bits()),
        };
        self.exprs().mul(submode, 1 << to)
    }

    /// An offset with some of its bits XORed. Terms that are multiples above those bits are added after the
    /// XOR: constants become immediate offsets of the instruction, and nearby accesses share the XOR.
    fn flipped(&mut self, offset: Ix, flip: Ix, swizzle: Swizzle) -> Ix {
        let swizzled = 1 << (swizzle.base() + swizzle.bits() + (-swizzle.shift()).max(0).unsigned_abs());
        let mut terms = Vec::new();
        self.kernel.exprs.terms(offset, &mut terms);
        let (mut near, mut far) = (self.int(0), self.int(0));
        for term in terms {
            let part =
                if self.kernel.exprs.get(term).multiple % swizzled == 0 { &mut far } else { &mut near };
            *part = self.kernel.exprs.add(*part, term);
        }
        if self.kernel.exprs.get(near).lo < 0 {
            (near, far) = (offset, self.int(0));
        }
        let near = self.exprs().xor(near, flip);
        self.exprs().add(near, far)
    }

    /// Does it vary with a loop variable?
    pub(super) fn varies(&self, at: Ix) -> bool {
        let named = |id: &u32| self.named.iter().any(|(_, known)| known == id);
        let mut open = vec![at];
        while let Some(at) = open.pop() {
            let expr = self.kernel.exprs.get(at);
            match &expr.int {
                Int::Var(id) if !named(id) => return true,
                int => open.extend(int.parts()),
            }
        }
        false
    }

    /// The offset without named subexpressions.
    fn plain_offset(&mut self, view: &View, leaves: &[Leaf], at: &[Ix], strides: &[Value]) -> Ix {
        let mut coordinates = Vec::new();
        for mode in 0..strides.len() {
            let base = self.affine(&view.base[mode]);
            let steps = self.steps(leaves, at, mode);
            coordinates.push(self.exprs().add(base, steps));
        }
        let zero = self.int(0);
        self.strided(zero, &coordinates, strides.iter().copied())
    }
}

/// One stride for each mode, if the layout has no nested mode.
fn linear(layout: &Composed) -> Option<Vec<Value>> {
    if layout.offset() != 0 {
        return None;
    }
    layout
        .layout()
        .modes()
        .map(|mode| match mode.leaves().collect::<Vec<_>>()[..] {
            [(_, stride)] => Some(stride),
            _ => None,
        })
        .collect()
}
