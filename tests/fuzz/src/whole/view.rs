//! Views: tiles of tensors, slices, other shapes of the same elements.

use std::rc::Rc;

use tilewright_codegen::Elem;

use super::value::{Along, At, Cell, Elements, OutOfBounds, Spot, Store, Type, Value, View, digits, linear};
use super::{Block, Result, undefined};
use crate::reference::Num;

impl<'k> Block<'k> {
    /// An argument as a whole.
    pub(super) fn tensor(&self, store: usize, elem: Elem) -> Value<'k> {
        let Store::Global(buffer) = &self.stores[store] else { return Value::Unit };
        let sizes = buffer.extents.clone();
        let spot = |n: usize| Spot {
            position: Some(n),
            at: digits(&sizes, n as i64).into_iter().map(i128::from).collect(),
        };
        let spots = Rc::new((0..buffer.count()).map(spot).collect());
        Value::View(View::all(store, elem, sizes.clone(), spots))
    }

    /// Registers.
    pub(super) fn fresh(&mut self, elem: Elem, sizes: &[i64], cells: Vec<Option<Cell>>) -> View {
        self.memory(elem, sizes, cells.len(), Store::Registers(cells))
    }

    /// Memory of a block, for `count` elements.
    pub(super) fn memory(&mut self, elem: Elem, sizes: &[i64], count: usize, store: Store) -> View {
        let spot = |n: usize| Spot {
            position: Some(n),
            at: digits(sizes, n as i64).into_iter().map(i128::from).collect(),
        };
        let spots = Rc::new((0..count).map(spot).collect());
        self.stores.push(store);
        View::all(self.stores.len() - 1, elem, sizes.to_vec(), spots)
    }

    /// A copy of elements in registers; elements in memory remain there.
    pub(super) fn second(&mut self, view: View) -> View {
        let Store::Registers(cells) = &self.stores[view.store] else { return view };
        let cells = Store::Registers(cells.clone());
        self.stores.push(cells);
        View { store: self.stores.len() - 1, ..view }
    }

    /// Elements with a name have separate memory.
    pub(super) fn settled(&mut self, of: Elements) -> Result<Value<'k>> {
        let Type::Elem(elem) = of.ty else { return Ok(Value::Elements(of)) };
        if of.sizes.is_empty() {
            return Ok(Value::Elements(of));
        }
        Ok(Value::View(self.fresh(elem, &of.sizes, of.cells.into_iter().map(Some).collect())))
    }

    /// The elements of a view; out-of-bounds elements are filled.
    pub(super) fn read(&self, view: &View, fill: f64) -> Result<Elements> {
        let cell = |spot: &Spot| -> Result<Cell> {
            let Some(position) = spot.position else {
                let num = Num::literal(fill.into(), view.elem);
                // Of an argument; out of bounds of other memory only the value is specified.
                let (out_of_bounds, at, outside) = match &self.stores[view.store] {
                    Store::Global(_) => (OutOfBounds::Yes, view.coordinates(spot), Some(view.outside(spot))),
                    _ => (OutOfBounds::Perhaps, view.unclear(), None),
                };
                return Ok(Cell { out_of_bounds, at, outside, ..Cell::of(num) });
            };
            match &self.stores[view.store] {
                Store::Global(buffer) => match buffer.all[buffer.index_of(position)] {
                    Some(num) => Ok(Cell { at: view.coordinates(spot), ..Cell::of(num) }),
                    None => undefined("a gap is read"),
                },
                Store::Shared(cells) | Store::Registers(cells) => match &cells[position] {
                    Some(cell) if cell.supposed && !self.supposed => {
                        undefined("an element is read before it is written")
                    }
                    Some(cell) => Ok(Cell { at: view.seen(&cell.at), ..cell.clone() }),
                    None => undefined("an element is read before it is written"),
                },
            }
        };
        let cells = view.spots.iter().map(cell).collect::<Result<_>>()?;
        Ok(Elements { sizes: view.sizes.clone(), ty: Type::of(view.elem), cells, argument: false })
    }

    /// Stores elements, one for each of the view or one for all. A statement that does not run changes no values.
    pub(super) fn write(&mut self, view: &View, from: &Elements) -> Result<()> {
        for (n, spot) in view.spots.iter().enumerate() {
            let Some(to) = spot.position else { continue };
            let cell = &from.cells[from.broadcast(&view.sizes, n)?];
            match &mut self.stores[view.store] {
                Store::Global(_) if self.supposed => {}
                Store::Global(buffer) => {
                    let to = buffer.index_of(to);
                    buffer.all[to] = Some(cell.num);
                }
                Store::Shared(cells) | Store::Registers(cells) => {
                    let at = view.stored(from, &cell.at);
                    let cell = Cell { at, supposed: self.supposed, ..cell.clone() };
                    cells[to] = Some(cell);
                }
            }
        }
        Ok(())
    }

    /// `tile(x, (BM, BK), (block.x, _))`, with a halo before and after each mode.
    pub(super) fn tile(
        &self,
        view: &View,
        tile: &[i128],
        at: &[Value<'k>],
        halo: &[(i128, i128)],
    ) -> Result<View> {
        let rank = view.sizes.len();
        let size = |mode: usize| tile.get(mode).copied().unwrap_or(1);
        // The modes of the result: inside of the tile, then over tiles.
        let mut sizes = Vec::new();
        for mode in 0..tile.len() {
            let (before, after) = halo.get(mode).copied().unwrap_or_default();
            sizes.push((size(mode) + before + after) as i64);
        }
        let mut base = vec![0; rank];
        let mut over = Vec::new();
        let mut modes: Vec<_> = (0..tile.len()).map(|mode| Some((mode, 1))).collect();
        for (mode, at) in at.iter().enumerate() {
            match at {
                Value::Hole => {
                    let count = (i128::from(view.sizes[mode]) + size(mode) - 1) / size(mode);
                    over.push(mode);
                    modes.push(Some((mode, size(mode))));
                    sizes.push(count as i64);
                }
                other => {
                    let Some(n) = other.int() else { return undefined("a coordinate is no integer") };
                    base[mode] = n * size(mode);
                }
            }
        }
        for (mode, base) in base.iter_mut().enumerate() {
            *base -= halo.get(mode).map_or(0, |halo| halo.0);
        }
        let spots = (0..sizes.iter().product::<i64>()).map(|n| {
            let digits = digits(&sizes, n);
            let mut coordinates = base.clone();
            for (mode, coordinate) in digits.iter().enumerate() {
                match mode < tile.len() {
                    true => coordinates[mode] += i128::from(*coordinate),
                    false => {
                        let of = over[mode - tile.len()];
                        coordinates[of] += i128::from(*coordinate) * size(of);
                    }
                }
            }
            view.spot(coordinates)
        });
        let spots = Rc::new(spots.collect());
        Ok(View { spots, sizes, origin: base.into(), modes, whole: false, ..view.clone() })
    }

    /// The elements at this offset along each mode.
    pub(super) fn shift(&self, view: &View, by: &[i128]) -> Result<View> {
        if let Store::Registers(_) = &self.stores[view.store] {
            return undefined("registers are shifted");
        }
        let moved = |at: &[i128]| -> Vec<i128> {
            let mut at = at.to_vec();
            at.iter_mut().zip(by).for_each(|(at, by)| *at += by);
            at
        };
        let spots = view.spots.iter().map(|spot| whole_spot(&view.extents, moved(&spot.at))).collect();
        let origin = moved(&view.origin).into();
        Ok(View { spots: Rc::new(spots), origin, whole: false, ..view.clone() })
    }

    /// The nearest elements inside.
    pub(super) fn clamped(&self, view: &View) -> Result<View> {
        let Store::Global(buffer) = &self.stores[view.store] else { return Ok(view.clone()) };
        let extents = buffer.extents.clone();
        if extents.contains(&0) {
            return undefined("there is no nearest element");
        }
        let near = |spot: &Spot| {
            let at = spot.at.iter().zip(&extents).map(|(at, n)| (*at).clamp(0, i128::from(*n) - 1));
            Spot { at: spot.at.clone(), ..whole_spot(&extents, at.collect()) }
        };
        Ok(View { spots: Rc::new(view.spots.iter().map(near).collect()), ..view.clone() })
    }
}

fn whole_spot(extents: &[i64], at: Vec<i128>) -> Spot {
    let inside = at.iter().zip(extents).all(|(at, n)| (0..i128::from(*n)).contains(at));
    let small: Vec<i64> = if inside { at.iter().map(|at| *at as i64).collect() } else { Vec::new() };
    Spot { position: inside.then(|| linear(extents, &small)), at: at.into() }
}

impl View {
    /// All of a store.
    fn all(store: usize, elem: Elem, sizes: Vec<i64>, spots: Rc<Vec<Spot>>) -> View {
        let modes = (0..sizes.len()).map(|mode| Some((mode, 1))).collect();
        let (extents, origin) = (sizes.clone().into(), vec![0; sizes.len()].into());
        View { store, elem, sizes, spots, extents, origin, modes, whole: true }
    }

    /// The coordinates of an element of an argument.
    fn coordinates(&self, spot: &Spot) -> At {
        let one = |mode: &Option<(usize, i128)>| match mode {
            Some((mode, _)) => {
                let (at, end) = (spot.at[*mode], i128::from(self.extents[*mode]));
                Along::In(at, (0..end).contains(&at))
            }
            None => Along::Unclear,
        };
        Some(self.modes.iter().map(one).collect())
    }

    /// The coordinates of an element of an argument that are out of bounds.
    fn outside(&self, spot: &Spot) -> Rc<[Option<i128>]> {
        let one = |(at, extent): (&i128, &i64)| Some(*at).filter(|at| !(0..i128::from(*extent)).contains(at));
        spot.at.iter().zip(self.extents.iter()).map(one).collect()
    }

    fn unclear(&self) -> At {
        Some(vec![Along::Unclear; self.sizes.len()].into())
    }

    /// Coordinates along the modes of this view, of an element with these in the store.
    fn seen(&self, at: &At) -> At {
        if self.whole {
            return at.clone();
        }
        let one = |mode: &Option<(usize, i128)>| match (mode, at) {
            (Some((mode, _)), Some(at)) if at[*mode] != Along::Own => at[*mode],
            _ => Along::Unclear,
        };
        Some(self.modes.iter().map(one).collect())
    }

    /// Coordinates along the modes of the store, of an element with these that is stored.
    fn stored(&self, from: &Elements, at: &At) -> At {
        if self.whole && (at.is_none() || from.sizes == self.sizes) {
            return at.clone();
        }
        let mut all = vec![Along::Unclear; self.extents.len()];
        for (mode, of) in self.modes.iter().enumerate() {
            let Some((of, _)) = of else { continue };
            let own = if self.whole { Along::Own } else { Along::Unclear };
            let is_repeated = from.sizes.len() != self.sizes.len() || from.sizes[mode] != self.sizes[mode];
            all[*of] = match at {
                Some(at) if !is_repeated && at[mode] != Along::Own => at[mode],
                _ => own,
            };
        }
        Some(all.into())
    }

    /// The spot at coordinates of a whole tensor.
    fn spot(&self, at: Vec<i128>) -> Spot {
        whole_spot(&self.sizes, at)
    }

    /// `x[(_, 0, k)]`
    pub(super) fn sliced(&self, index: &[Option<i128>]) -> View {
        let kept: Vec<usize> = (0..self.sizes.len()).filter(|mode| index[*mode].is_none()).collect();
        let mut sizes: Vec<i64> = kept.iter().map(|mode| self.sizes[*mode]).collect();
        let mut modes: Vec<_> = kept.iter().map(|mode| self.modes.get(*mode).copied().flatten()).collect();
        if sizes.is_empty() {
            // One element is a tile of one mode.
            sizes.push(1);
            modes.push(None);
        }
        // Coordinates in the store, also of elements that do not exist.
        let there = |of: &[i128]| -> Rc<[i128]> {
            let mut at = self.origin.to_vec();
            for (position, mode) in of.iter().zip(&self.modes) {
                if let Some((mode, step)) = mode {
                    at[*mode] += position * step;
                }
            }
            at.into()
        };
        let first: Vec<i128> = index.iter().map(|at| at.unwrap_or(0)).collect();
        let origin = there(&first);
        let spot = |n: i64| {
            let digits = digits(&sizes, n);
            let mut at: Vec<i128> = index.iter().map(|at| at.unwrap_or(0)).collect();
            kept.iter().zip(digits).for_each(|(mode, coordinate)| at[*mode] = coordinate.into());
            let inside = at.iter().zip(&self.sizes).all(|(at, n)| (0..i128::from(*n)).contains(at));
            if !inside {
                return Spot { position: None, at: there(&at) };
            }
            let at: Vec<i64> = at.iter().map(|at| *at as i64).collect();
            self.spots[linear(&self.sizes, &at)].clone()
        };
        let spots = (0..sizes.iter().product::<i64>()).map(spot).collect();
        View { sizes, spots: Rc::new(spots), origin, modes, whole: false, ..self.clone() }
    }

    /// The same elements under another shape, by the mode of this view of each mode; `None` repeats.
    pub(super) fn reshaped(&self, sizes: Vec<i64>, from: &[Option<usize>]) -> View {
        let spot = |n: i64| {
            let digits = digits(&sizes, n);
            let mut at = vec![0; self.sizes.len()];
            for (coordinate, from) in digits.iter().zip(from) {
                if let Some(from) = from {
                    at[*from] = *coordinate;
                }
            }
            self.spots[linear(&self.sizes, &at)].clone()
        };
        let spots = (0..sizes.iter().product::<i64>()).map(spot).collect();
        let modes = from.iter().map(|from| from.and_then(|from| self.modes[from])).collect();
        let whole = self.whole && sizes == self.sizes && from.iter().copied().eq((0..from.len()).map(Some));
        View { spots: Rc::new(spots), sizes, modes, whole, ..self.clone() }
    }
}

impl Cell {
    /// Keeps the properties on which this element and another agree, where either may be the right one.
    pub(super) fn joined(&mut self, other: &Cell) {
        let (fresh, other_fresh) = (self.filled, other.filled);
        self.filled &= other.filled;
        self.out_of_bounds = match (self.out_of_bounds, other.out_of_bounds) {
            (own, other) if own == other => own,
            (OutOfBounds::No, OutOfBounds::Yes) if fresh => OutOfBounds::Yes,
            (OutOfBounds::Yes, OutOfBounds::No) if other_fresh => OutOfBounds::Yes,
            _ => OutOfBounds::Perhaps,
        };
        self.at = match (&self.at, &other.at) {
            (None, at) | (at, None) => at.clone(),
            (Some(own), Some(other)) => Some(own.iter().zip(other.iter()).map(both).collect()),
        };
    }
}

/// A coordinate that may be either.
pub(super) fn both((one, other): (&Along, &Along)) -> Along {
    match (one, other) {
        (one, other) if one == other => *one,
        (Along::Own, known) | (known, Along::Own) => *known,
        _ => Along::Unclear,
    }
}

impl Elements {
    /// The analysis of `made`, this tile changed by `other`. A tile that was only filled takes the edges of the other tile, if
    /// all tiles that are added to it have the same edges. Coordinates that differ are unknown.
    pub(super) fn accumulated(&self, other: &Elements, made: &mut Elements) -> Result<()> {
        for n in 0..made.cells.len() {
            let own = &self.cells[self.broadcast(&made.sizes, n)?];
            let by = &other.cells[other.broadcast(&made.sizes, n)?];
            let made_of = &mut made.cells[n];
            let Some(by_at) = &by.at else { continue };
            if own.filled && own.out_of_bounds == OutOfBounds::No && by.out_of_bounds == OutOfBounds::Yes {
                made_of.out_of_bounds = OutOfBounds::Yes;
                made_of.taken = by.outside.clone();
            }
            let Some(own_at) = &own.at else { continue };
            if own.taken.is_some() {
                made_of.taken = own.taken.clone();
                if own.taken != by.outside {
                    made_of.out_of_bounds = OutOfBounds::Perhaps;
                }
            }
            let Some(at) = &mut made_of.at else { continue };
            if other.sizes.len() != made.sizes.len() {
                continue;
            }
            let one = |(mode, at): (usize, &Along)| match other.sizes[mode] == made.sizes[mode] {
                true if *at != Along::Unclear => both((&own_at[mode], &by_at[mode])),
                _ => *at,
            };
            *at = at.iter().enumerate().map(one).collect();
        }
        Ok(())
    }

    /// An accumulator keeps its bounds under changes that are 0 out of bounds.
    pub(super) fn kept_bounds(&self, other: &Elements, made: &mut Elements) -> Result<()> {
        for n in 0..made.cells.len() {
            let own = &self.cells[self.broadcast(&made.sizes, n)?];
            let by = &other.cells[other.broadcast(&made.sizes, n)?];
            let zero = by.out_of_bounds == OutOfBounds::Yes && by.num.is_exact() && by.num.value == 0.0;
            if !own.filled && own.taken.is_none() && own.out_of_bounds == OutOfBounds::No && zero {
                made.cells[n].out_of_bounds = OutOfBounds::No;
            }
        }
        Ok(())
    }
}

impl Elements {
    /// The element that is broadcast to the one with this number in a shape.
    pub(super) fn broadcast(&self, sizes: &[i64], n: usize) -> Result<usize> {
        if self.cells.len() == 1 {
            return Ok(0);
        }
        if self.sizes.len() != sizes.len()
            || self.sizes.iter().zip(sizes).any(|(own, all)| own != all && *own != 1)
        {
            return undefined(format!("{:?} is not broadcast to {sizes:?}", self.sizes));
        }
        Ok(linear(&self.sizes, &digits(sizes, n as i64)))
    }
}
