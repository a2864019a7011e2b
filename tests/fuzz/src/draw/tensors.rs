//! Arguments, shared arrays and registers, and their layouts.

use tilewright_codegen::Elem;
use tilewright_codegen::ast::{Binary, Expr, ExprKind, Param, ParamKind};

use super::form::Form;
use super::scene::{Extent, Part, Scene};
use super::tree::{
    binary, call, hole, int, ints, layout, list, literal, method, nested_entries, tuple, typed, word,
};

impl Scene {
    /// An argument with these extents.
    pub(super) fn tensor(&mut self, elem: Elem, extents: &[Extent], mutable: bool) -> String {
        let to = self.fresh(if mutable { "y" } else { "x" });
        let stride = |scene: &mut Scene| scene.strides(&to, extents, mutable);
        self.argument(&to, elem, extents, mutable, stride);
        to
    }

    /// A result with its own name, column-major.
    pub(super) fn named_tensor(&mut self, to: &str, elem: Elem, extents: &[Extent]) {
        self.argument(to, elem, extents, true, |_| None);
    }

    /// An input whose elements along the last mode are adjacent.
    pub(super) fn rows(&mut self, elem: Elem, extents: &[Extent]) -> String {
        let to = self.fresh("x");
        let last = extents.len() - 1;
        let one = |mode: usize| {
            let stride = if mode == last { Extent::Int(1) } else { Extent::Symbol(format!("{to}_d{mode}")) };
            stride.expr()
        };
        let stride = tuple((0..extents.len()).map(one).collect());
        self.argument(&to, elem, extents, false, |_| Some(stride));
        to
    }

    fn argument(
        &mut self,
        to: &str,
        elem: Elem,
        extents: &[Extent],
        mutable: bool,
        stride: impl FnOnce(&mut Scene) -> Option<Expr>,
    ) {
        let shape = tuple(extents.iter().map(Extent::expr).collect());
        for extent in extents {
            if let Extent::Symbol(size) = extent
                && !self.sizes.contains(size)
            {
                self.sizes.push(size.clone());
            }
        }
        let stride = stride(self);
        let kind = ParamKind::Tensor { mutable, shape, stride };
        self.params.push(Param {
            name: word(to),
            elem: word(elem.name()),
            kind,
            list: None,
            optional: false,
        });
    }

    /// Explicit strides; `None` for a column-major tensor.
    fn strides(&mut self, of: &str, extents: &[Extent], mutable: bool) -> Option<Expr> {
        let symbol = |mode: usize| Extent::Symbol(format!("{of}_d{mode}"));
        let unit = self.random.below(extents.len());
        let mut all: Vec<Extent> = match self.random.below(20) {
            0..11 => return None,
            // Another mode, or none, is contiguous.
            11..15 => (0..extents.len())
                .map(|mode| if mode == unit { Extent::Int(1) } else { symbol(mode) })
                .collect(),
            15..17 => (0..extents.len()).map(symbol).collect(),
            // Integers, if extents are.
            _ => {
                let mut next = 1;
                let pad = self.random.pick(&[0, 0, 1, 3, 8]);
                let mut order: Vec<usize> = (0..extents.len()).collect();
                if self.random.chance(50) {
                    order.reverse();
                }
                let mut all = vec![Extent::Int(1); extents.len()];
                for mode in order {
                    all[mode] = Extent::Int(next);
                    match extents[mode] {
                        Extent::Int(n) => next = next * n + pad,
                        Extent::Symbol(_) => next = 64 * next + pad,
                    }
                }
                all
            }
        };
        if !mutable && extents.len() > 1 && self.random.chance(12) {
            let still = self.random.below(extents.len());
            all[still] = Extent::Int(0);
        }
        Some(tuple(all.iter().map(Extent::expr).collect()))
    }

    /// A part of an input argument, tile by tile along `loops` of its modes, which come after the modes of
    /// the form.
    pub(super) fn input(&mut self, form: &Form, elem: Elem, loops: usize) -> Part {
        let mut extents = Vec::new();
        let mut at = Vec::new();
        let mut free: Vec<usize> = (0..self.axes.len()).collect();
        let looped: Vec<usize> = {
            let modes: Vec<usize> = (0..form.tile.len()).collect();
            self.random.shuffled(&modes).into_iter().take(loops).collect()
        };
        for (mode, &tile) in form.tile.iter().enumerate() {
            let axis = free.iter().position(|&axis| self.axes[axis].tile == tile);
            if looped.contains(&mode) {
                extents.push(self.extent(tile));
                at.push(hole());
            } else if let Some(index) = axis
                && self.random.chance(75)
            {
                let axis = free.remove(index);
                extents.push(self.axes[axis].extent.clone());
                let block = self.block(axis);
                // A neighbouring tile.
                let by = self.random.weighted(&[(16, 0), (1, 1), (1, 2), (2, -1)]);
                at.push(match by {
                    0 => block,
                    _ => binary(Binary::Add, block, int(by)),
                });
                self.numbered[axis] = true;
            } else {
                extents.push(self.extent(tile));
                at.push(self.anywhere(tile));
            }
        }
        // A separate mode, one element at a time.
        if extents.len() < 3 && self.random.chance(12) {
            extents.push(self.extent(1));
            at.push(self.anywhere(1));
        }
        let tile = self.tile_among(elem, form, extents, at, false);
        let name = self.bind("p", form.of(tile));
        Part { name, elem, is_registers: false, is_global: true, shape: form.shape() }
    }

    /// A tile of a new argument; one with a mode of one element perhaps as a vector along the other.
    fn tile_among(
        &mut self,
        elem: Elem,
        form: &Form,
        mut extents: Vec<Extent>,
        mut at: Vec<Expr>,
        mutable: bool,
    ) -> Expr {
        let plain = |mode: &usize| form.tile[*mode] == 1 && matches!(at[*mode].kind, ExprKind::Int(_));
        let single = (0..form.tile.len()).find(plain);
        if let Some(mode) = single
            && form.tile.len() == 2
            && extents.len() == 2
            && self.random.chance(70)
        {
            extents.remove(mode);
            at.remove(mode);
            let tensor = self.tensor(elem, &extents, mutable);
            let vector = self.tile_of(&tensor, &[form.tile[1 - mode]], at);
            return method(vector, "along", vec![int(1 - mode as i64)]);
        }
        let tensor = self.tensor(elem, &extents, mutable);
        self.tile_of(&tensor, &form.tile, at)
    }

    fn tile_of(&mut self, tensor: &str, tile: &[i64], at: Vec<Expr>) -> Expr {
        let view = super::tree::name(tensor);
        let made = call("tile", vec![view, list(tile.iter().map(|&n| int(n)).collect()), list(at)]);
        match self.random.chance(60) {
            true => super::tree::name(&self.bind("g", made)),
            false => made,
        }
    }

    /// A part of an output argument; every block has its own tiles.
    pub(super) fn output(&mut self, form: &Form, elem: Elem) -> Part {
        let (mut extents, mut at) = (Vec::new(), Vec::new());
        let mut free: Vec<usize> = (0..self.axes.len()).collect();
        for &tile in &form.tile {
            if let Some(index) = free.iter().position(|&axis| self.axes[axis].tile == tile) {
                let axis = free.remove(index);
                extents.push(self.axes[axis].extent.clone());
                at.push(self.block(axis));
                self.numbered[axis] = true;
            } else if !free.is_empty() && self.random.chance(50) {
                let axis = free.remove(0);
                extents.push(self.extent(tile));
                at.push(self.apart(axis));
            } else {
                extents.push(self.extent(tile));
                at.push(int(self.random.weighted(&[(8, 0), (1, 1), (1, 2)])));
            }
        }
        for axis in free {
            let numbers = self.axes[axis].tile == 1;
            extents.push(if numbers { self.axes[axis].extent.clone() } else { self.extent(2) });
            at.push(if numbers { self.block(axis) } else { self.apart(axis) });
            self.numbered[axis] |= numbers;
        }
        let tile = self.tile_among(elem, form, extents, at, true);
        let name = self.bind("o", form.of(tile));
        Part { name, elem, is_registers: false, is_global: true, shape: form.shape() }
    }

    /// A coordinate that is unique to each block along an axis, and that numbers no tiles.
    fn apart(&mut self, axis: usize) -> Expr {
        let block = self.block(axis);
        match self.random.below(4) {
            0 => binary(Binary::Sub, int(2), block),
            1 => binary(Binary::Mul, block, int(2)),
            2 => {
                let twice = binary(Binary::Mul, block, int(3));
                binary(Binary::Add, twice, int(1))
            }
            _ => {
                let twice = binary(Binary::Mul, block, int(2));
                binary(Binary::Sub, twice, int(1))
            }
        }
    }

    /// A shared array for a tile.
    pub(super) fn shared(&mut self, elem: Elem, tile: &[i64]) -> String {
        let size: i64 = tile.iter().product();
        let at = |lay: Expr, of: &mut Scene| of.bind("sh", typed("shared", elem, vec![lay]));
        let rank = tile.len();
        let power = tile.iter().all(|n| n & (n - 1) == 0) && size >= 32;
        match self.random.below(20) {
            0..6 => at(layout(ints(tile), None), self),
            6..9 if rank > 1 => {
                let pad = self.random.within(1, 4);
                at(call("padded", vec![ints(tile), int(pad)]), self)
            }
            9..12 if rank > 1 => at(call("row_major", vec![ints(tile)]), self),
            12..16 if power => {
                let bits = self.random.within(1, 3);
                let base = self.random.within(0, 3);
                let shift = self.random.within(bits, bits + 2);
                if size < 1 << (bits + base + shift) {
                    return at(layout(ints(tile), None), self);
                }
                let shift = if self.random.chance(15) { -shift } else { shift };
                let inner = match self.random.chance(50) && rank > 1 {
                    true => call("row_major", vec![ints(tile)]),
                    false => layout(ints(tile), None),
                };
                at(call("swizzled", vec![int(bits), int(base), int(shift), inner]), self)
            }
            // Any order, with gaps, some modes nested.
            _ => {
                let nested: Vec<Vec<i64>> = tile
                    .iter()
                    .map(|&n| match n % 2 == 0 && n > 2 && self.random.chance(30) {
                        true => vec![2, n / 2],
                        false => vec![n],
                    })
                    .collect();
                let leaves: Vec<(usize, usize)> = nested
                    .iter()
                    .enumerate()
                    .flat_map(|(mode, inner)| (0..inner.len()).map(move |leaf| (mode, leaf)))
                    .collect();
                let mut strides: Vec<Vec<i64>> = nested.iter().map(|inner| vec![0; inner.len()]).collect();
                let mut next = 1;
                for (mode, leaf) in self.random.shuffled(&leaves) {
                    strides[mode][leaf] = next;
                    next = next * nested[mode][leaf] + self.random.pick(&[0, 0, 0, 1, 4]);
                }
                at(layout(nested_entries(&nested), Some(nested_entries(&strides))), self)
            }
        }
    }

    /// Registers of a shape, filled.
    pub(super) fn registers(&mut self, elem: Elem, shape: &[i64], value: f64) -> Part {
        let name = self.bind("r", typed("registers", elem, vec![ints(shape), literal(value, elem)]));
        Part { name, elem, is_registers: true, is_global: false, shape: shape.to_vec() }
    }
}
