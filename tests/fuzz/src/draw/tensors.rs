//! Arguments, shared arrays and registers, and their layouts.

use tilewright_codegen::Elem;

use super::form::Form;
use super::scene::{Extent, Part, Scene, block};
use super::text::{list, literal, nested_entries, tuple};

/// Strides in the type of an argument.
fn in_type(of: &[Extent]) -> String {
    tuple(&of.iter().map(Extent::in_type).collect::<Vec<_>>())
}

impl Scene {
    /// An argument with these extents.
    pub(super) fn tensor(&mut self, elem: Elem, extents: &[Extent], mutable: bool) -> String {
        let to = self.fresh(if mutable { "y" } else { "x" });
        self.note_sizes(extents);
        let strides = self.strides(&to, extents, mutable);
        self.argument(&to, elem, extents, mutable, strides);
        to
    }

    /// A result with its own name, column-major.
    pub(super) fn named_tensor(&mut self, to: &str, elem: Elem, extents: &[Extent]) {
        self.note_sizes(extents);
        self.argument(to, elem, extents, true, None);
    }

    /// An input whose elements along the last mode are adjacent.
    pub(super) fn rows(&mut self, elem: Elem, extents: &[Extent]) -> String {
        let to = self.fresh("x");
        let last = extents.len() - 1;
        let stride = |mode| if mode == last { Extent::Int(1) } else { stride_of(&to, mode) };
        let strides = (0..extents.len()).map(stride).collect();
        self.note_sizes(extents);
        self.argument(&to, elem, extents, false, Some(strides));
        to
    }

    fn note_sizes(&mut self, extents: &[Extent]) {
        for extent in extents {
            if let Extent::Symbol(size) = extent
                && !self.sizes.contains(size)
            {
                self.sizes.push(size.clone());
            }
        }
    }

    fn argument(
        &mut self,
        to: &str,
        elem: Elem,
        extents: &[Extent],
        mutable: bool,
        strides: Option<Vec<Extent>>,
    ) {
        for extent in extents {
            if let Extent::Symbol(size) = extent {
                self.extents.push(size.clone());
            }
        }
        let reference = if mutable { "&mut " } else { "&" };
        let strides = strides.map_or(String::new(), |strides| format!(", {}", in_type(&strides)));
        self.params.push(format!("{to}: {reference}Tensor<{elem}, {}{strides}>", in_type(extents)));
    }

    /// Explicit strides; `None` for a column-major tensor.
    fn strides(&mut self, of: &str, extents: &[Extent], mutable: bool) -> Option<Vec<Extent>> {
        let unit = self.random.below(extents.len());
        let mut all: Vec<Extent> = match self.random.below(20) {
            0..11 => return None,
            // Another mode, or none, is contiguous.
            11..15 => (0..extents.len())
                .map(|mode| if mode == unit { Extent::Int(1) } else { stride_of(of, mode) })
                .collect(),
            15..17 => (0..extents.len()).map(|mode| stride_of(of, mode)).collect(),
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
        Some(all)
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
                at.push("_".into());
            } else if let Some(index) = axis
                && self.random.chance(75)
            {
                let axis = free.remove(index);
                extents.push(self.axes[axis].extent.clone());
                // A neighbouring tile.
                let by = self.random.weighted(&[(16, 0), (1, 1), (1, 2), (2, -1)]);
                at.push(match by {
                    0 => block(axis),
                    _ => format!("({} + {by})", block(axis)),
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
        let name = self.bind("p", form.of(&tile));
        Part { name, elem, is_registers: false, is_global: true, shape: form.shape() }
    }

    /// A tile of a new argument; one with a mode of one element perhaps as a vector along the other.
    fn tile_among(
        &mut self,
        elem: Elem,
        form: &Form,
        mut extents: Vec<Extent>,
        mut at: Vec<String>,
        mutable: bool,
    ) -> String {
        let plain = |mode: &usize| form.tile[*mode] == 1 && at[*mode].parse::<u64>().is_ok();
        let single = (0..form.tile.len()).find(plain);
        if let Some(mode) = single
            && form.tile.len() == 2
            && extents.len() == 2
            && self.random.chance(70)
        {
            extents.remove(mode);
            at.remove(mode);
            let tensor = self.tensor(elem, &extents, mutable);
            let vector = self.tile_of(&tensor, &[form.tile[1 - mode]], &at);
            return format!("{vector}.along({})", 1 - mode);
        }
        let tensor = self.tensor(elem, &extents, mutable);
        self.tile_of(&tensor, &form.tile, &at)
    }

    fn tile_of(&mut self, tensor: &str, tile: &[i64], at: &[String]) -> String {
        let made = format!("tile({tensor}, {}, {})", list(tile), list(at));
        if self.random.chance(60) { self.bind("g", made) } else { made }
    }

    /// A part of an output argument; every block has its own tiles.
    pub(super) fn output(&mut self, form: &Form, elem: Elem) -> Part {
        let (mut extents, mut at) = (Vec::new(), Vec::new());
        let mut free: Vec<usize> = (0..self.axes.len()).collect();
        for &tile in &form.tile {
            if let Some(index) = free.iter().position(|&axis| self.axes[axis].tile == tile) {
                let axis = free.remove(index);
                extents.push(self.axes[axis].extent.clone());
                at.push(block(axis));
                self.numbered[axis] = true;
            } else if !free.is_empty() && self.random.chance(50) {
                let axis = free.remove(0);
                extents.push(self.extent(tile));
                at.push(self.apart(axis));
            } else {
                extents.push(self.extent(tile));
                at.push(self.random.weighted(&[(8, "0"), (1, "1"), (1, "2")]).into());
            }
        }
        for axis in free {
            let numbers = self.axes[axis].tile == 1;
            extents.push(if numbers { self.axes[axis].extent.clone() } else { self.extent(2) });
            at.push(if numbers { block(axis) } else { self.apart(axis) });
            self.numbered[axis] |= numbers;
        }
        let tile = self.tile_among(elem, form, extents, at, true);
        let name = self.bind("o", form.of(&tile));
        Part { name, elem, is_registers: false, is_global: true, shape: form.shape() }
    }

    /// A coordinate that is unique to each block along an axis, and that numbers no tiles.
    fn apart(&mut self, axis: usize) -> String {
        let block = block(axis);
        match self.random.below(4) {
            0 => format!("(2 - {block})"),
            1 => format!("({block} * 2)"),
            2 => format!("({block} * 3 + 1)"),
            _ => format!("({block} * 2 - 1)"),
        }
    }

    /// A shared array for a tile.
    pub(super) fn shared(&mut self, elem: Elem, tile: &[i64]) -> String {
        let size: i64 = tile.iter().product();
        let rank = tile.len();
        let power = tile.iter().all(|n| n & (n - 1) == 0) && size >= 32;
        let shape = tuple(tile);
        let layout = match self.random.below(20) {
            0..6 => format!("layout!({shape})"),
            6..9 if rank > 1 => format!("padded({shape}, {})", self.random.within(1, 4)),
            9..12 if rank > 1 => format!("row_major({shape})"),
            12..16 if power => self.swizzled(size, rank, &shape),
            _ => self.any_layout(tile),
        };
        self.bind("sh", format!("shared::<{elem}>({layout})"))
    }

    fn swizzled(&mut self, size: i64, rank: usize, shape: &str) -> String {
        let bits = self.random.within(1, 3);
        let base = self.random.within(0, 3);
        let shift = self.random.within(bits, bits + 2);
        if size < 1 << (bits + base + shift) {
            return format!("layout!({shape})");
        }
        let shift = if self.random.chance(15) { -shift } else { shift };
        let inner = match self.random.chance(50) && rank > 1 {
            true => format!("row_major({shape})"),
            false => format!("layout!({shape})"),
        };
        format!("swizzled({bits}, {base}, {shift}, {inner})")
    }

    /// Any order, with gaps, some modes nested.
    fn any_layout(&mut self, tile: &[i64]) -> String {
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
        format!("layout!({} : {})", nested_entries(&nested), nested_entries(&strides))
    }

    /// Registers of a shape, filled.
    pub(super) fn registers(&mut self, elem: Elem, shape: &[i64], value: f64) -> Part {
        let value = literal(value, elem);
        let name = self.bind("r", format!("registers::<{elem}>({}, {value})", tuple(shape)));
        Part { name, elem, is_registers: true, is_global: false, shape: shape.to_vec() }
    }
}

/// The name of a stride.
fn stride_of(tensor: &str, mode: usize) -> Extent {
    Extent::Symbol(format!("{tensor}_d{mode}"))
}
