//! Views: tiles of tensors, slices, other shapes of the same elements.

use std::cell::OnceCell;
use std::rc::Rc;

use tilewright_codegen::Elem;

use super::Num;
use super::value::{
    Along, At, Cell, Elements, OutOfBounds, Spot, Spots, Store, Type, Value, View, digits, linear,
};
use super::{Block, Result, undefined};

impl<'k> Block<'k> {
    /// An argument as a whole.
    pub(super) fn tensor(&self, store: usize, elem: Elem) -> Value<'k> {
        let Store::Global(buffer) = &self.stores[store] else { return Value::Unit };
        Value::View(View::all(store, elem, buffer.extents.clone()))
    }

    /// Registers.
    pub(super) fn fresh(&mut self, elem: Elem, sizes: &[i64], cells: Vec<Option<Cell>>) -> View {
        self.memory(elem, sizes, Store::Registers(cells))
    }

    /// Memory of a block, or of a thread.
    pub(super) fn memory(&mut self, elem: Elem, sizes: &[i64], store: Store) -> View {
        self.stores.push(store);
        View::all(self.stores.len() - 1, elem, sizes.to_vec())
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
                    _ if self.has_threads => (OutOfBounds::Yes, view.unclear(), None),
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
        let cells = view.spots().iter().map(cell).collect::<Result<_>>()?;
        Ok(Elements { sizes: view.sizes.clone(), ty: Type::of(view.elem), cells, argument: false })
    }

    /// Stores elements at the end of the statement, one for each of the view or one for all. A statement that does not run changes no values.
    pub(super) fn write(&mut self, view: &View, from: &Elements) -> Result<()> {
        for (n, spot) in view.spots().iter().enumerate() {
            let Some(to) = spot.position else { continue };
            let cell = &from.cells[from.broadcast(&view.sizes, n)?];
            let cell = match &self.stores[view.store] {
                Store::Global(_) if self.supposed => continue,
                Store::Global(_) => cell.clone(),
                _ => Cell { at: view.stored(from, &cell.at), supposed: self.supposed, ..cell.clone() },
            };
            self.writes.push((view.store, to, cell));
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
        let size = |mode: usize| tile.get(mode).copied().unwrap_or(1);
        let halo = |mode: usize| halo.get(mode).copied().unwrap_or_default();
        // The modes of the result: inside of the tile, then over tiles, each with its step.
        let mut sizes: Vec<i64> =
            (0..tile.len()).map(|mode| (size(mode) + halo(mode).0 + halo(mode).1) as i64).collect();
        let mut steps: Vec<(usize, i128)> = (0..tile.len()).map(|mode| (mode, 1)).collect();
        let mut first: Vec<i128> = (0..view.sizes.len()).map(|mode| -halo(mode).0).collect();
        for (mode, at) in at.iter().enumerate() {
            match at {
                Value::Hole => {
                    steps.push((mode, size(mode)));
                    sizes.push(((i128::from(view.sizes[mode]) + size(mode) - 1) / size(mode)) as i64);
                }
                other => {
                    let Some(n) = other.int() else { return undefined("a coordinate is no integer") };
                    first[mode] += n * size(mode);
                }
            }
        }
        let (from, modes) = (view.clone(), steps.iter().map(|(mode, _)| view.modes[*mode]).collect());
        Ok(view.with(sizes, modes, move |own| {
            let mut at = first.clone();
            steps.iter().zip(own).for_each(|((mode, step), own)| at[*mode] += own * step);
            from.spot(&at)
        }))
    }

    /// The elements at this offset along each mode.
    pub(super) fn shift(&self, view: &View, by: &[i128]) -> Result<View> {
        if let Store::Registers(_) = &self.stores[view.store] {
            return undefined("registers are shifted");
        }
        let (from, by, extents) = (view.clone(), by.to_vec(), view.extents.clone());
        let moved = move |at: &[i128]| {
            let mut at = from.spot(at).at.to_vec();
            at.iter_mut().zip(&by).for_each(|(at, by)| *at += by);
            spot(&extents, at.into())
        };
        Ok(view.with(view.sizes.clone(), view.modes.clone(), moved))
    }

    /// The nearest elements inside.
    pub(super) fn clamped(&self, view: &View) -> Result<View> {
        let Store::Global(buffer) = &self.stores[view.store] else { return Ok(view.clone()) };
        let (from, extents) = (view.clone(), buffer.extents.clone());
        if extents.contains(&0) {
            return undefined("there is no nearest element");
        }
        let near = move |at: &[i128]| {
            let own = from.spot(at).at;
            let at = own.iter().zip(&extents).map(|(at, n)| (*at).clamp(0, i128::from(*n) - 1));
            Spot { at: own.clone(), ..spot(&extents, at.collect()) }
        };
        Ok(View { whole: view.whole, ..view.with(view.sizes.clone(), view.modes.clone(), near) })
    }
}

/// The spot at coordinates of a store.
fn spot(extents: &[i64], at: Rc<[i128]>) -> Spot {
    let position = is_inside(extents, &at).then(|| index(extents, &at));
    Spot { position, at }
}

fn is_inside(sizes: &[i64], at: &[i128]) -> bool {
    at.iter().zip(sizes).all(|(at, n)| (0..i128::from(*n)).contains(at))
}

/// The position of coordinates that are inside.
fn index(sizes: &[i64], at: &[i128]) -> usize {
    at.iter().zip(sizes).rev().fold(0, |position, (at, n)| position * i128::from(*n) + at) as usize
}

impl View {
    /// All of a store.
    fn all(store: usize, elem: Elem, sizes: Vec<i64>) -> View {
        let (modes, extents) = ((0..sizes.len()).map(Some).collect(), Rc::<[i64]>::from(&sizes[..]));
        let own = extents.clone();
        let spots = Spots { of: Box::new(move |at| spot(&own, at.into())), all: OnceCell::new() };
        View { store, elem, sizes, spots: Rc::new(spots), extents, modes, whole: true }
    }

    /// Another view of the same store.
    pub(super) fn with(
        &self,
        sizes: Vec<i64>,
        modes: Vec<Option<usize>>,
        of: impl Fn(&[i128]) -> Spot + 'static,
    ) -> View {
        let spots = Rc::new(Spots { of: Box::new(of), all: OnceCell::new() });
        View { sizes, modes, spots, whole: false, ..self.clone() }
    }

    /// The spot at coordinates, also out of bounds.
    pub(super) fn spot(&self, at: &[i128]) -> Spot {
        match self.spots.all.get() {
            Some(all) if is_inside(&self.sizes, at) => all[index(&self.sizes, at)].clone(),
            _ => (self.spots.of)(at),
        }
    }

    /// The spots of all elements.
    pub(super) fn spots(&self) -> &[Spot] {
        let count = self.sizes.iter().product::<i64>();
        self.spots
            .all
            .get_or_init(|| (0..count).map(|n| (self.spots.of)(&coordinates_of(&self.sizes, n))).collect())
    }

    /// The coordinates of an element of an argument.
    fn coordinates(&self, spot: &Spot) -> At {
        let one = |mode: &Option<usize>| match mode {
            Some(mode) => {
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
        let one = |mode: &Option<usize>| match (mode, at) {
            (Some(mode), Some(at)) if at[*mode] != Along::Own => at[*mode],
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
            let Some(of) = of else { continue };
            let own = if self.whole { Along::Own } else { Along::Unclear };
            let is_repeated = from.sizes.len() != self.sizes.len() || from.sizes[mode] != self.sizes[mode];
            all[*of] = match at {
                Some(at) if !is_repeated && at[mode] != Along::Own => at[mode],
                _ => own,
            };
        }
        Some(all.into())
    }

    /// `x[(_, 0, k)]`
    pub(super) fn sliced(&self, index: &[Option<i128>]) -> View {
        let kept: Vec<usize> = (0..self.sizes.len()).filter(|mode| index[*mode].is_none()).collect();
        let mut sizes: Vec<i64> = kept.iter().map(|mode| self.sizes[*mode]).collect();
        let mut modes: Vec<_> = kept.iter().map(|mode| self.modes[*mode]).collect();
        if sizes.is_empty() {
            // One element is a tile of one mode.
            sizes.push(1);
            modes.push(None);
        }
        let (from, fixed) = (self.clone(), index.iter().map(|at| at.unwrap_or(0)).collect::<Vec<_>>());
        self.with(sizes, modes, move |own| {
            let mut at = fixed.clone();
            kept.iter().zip(own).for_each(|(mode, own)| at[*mode] = *own);
            let spot = from.spot(&at);
            Spot { position: spot.position.filter(|_| is_inside(&from.sizes, &at)), ..spot }
        })
    }

    /// The same elements under another shape, by the mode of this view of each mode; `None` repeats.
    pub(super) fn reshaped(&self, sizes: Vec<i64>, order: &[Option<usize>]) -> View {
        let modes = order.iter().map(|from| from.and_then(|from| self.modes[from])).collect();
        let whole = self.whole && sizes == self.sizes && order.iter().copied().eq((0..order.len()).map(Some));
        let (from, order) = (self.clone(), order.to_vec());
        let reshaped = self.with(sizes, modes, move |own| {
            let mut at = vec![0; from.sizes.len()];
            for (own, mode) in own.iter().zip(&order) {
                if let Some(mode) = mode {
                    at[*mode] = *own;
                }
            }
            from.spot(&at)
        });
        View { whole, ..reshaped }
    }

    /// The same elements, in order, under another shape.
    pub(super) fn regrouped(&self, sizes: Vec<i64>) -> View {
        let (from, own, modes) = (self.clone(), sizes.clone(), vec![None; sizes.len()]);
        self.with(sizes, modes, move |at| from.spot(&coordinates_of(&from.sizes, index(&own, at) as i64)))
    }
}

/// The coordinates of the element with this number.
fn coordinates_of(sizes: &[i64], n: i64) -> Vec<i128> {
    digits(sizes, n).into_iter().map(i128::from).collect()
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
