//! Views: tiles of tensors, slices, other shapes of the same elements.

use std::rc::Rc;

use tilewright_codegen::Elem;

use super::value::{Beyond, Cell, Elements, Spot, Store, Type, Value, View, digits, place};
use super::{Block, Result, undefined};
use crate::reference::Num;

impl<'k> Block<'k> {
    /// An argument as a whole.
    pub(super) fn tensor(&self, store: usize, elem: Elem) -> Value<'k> {
        let Store::Global(buffer) = &self.stores[store] else { return Value::Unit };
        let sizes = buffer.extents.clone();
        let spot = |n: usize| Spot {
            place: Some(n),
            at: digits(&sizes, n as i64).into_iter().map(i128::from).collect(),
        };
        let spots = Rc::new((0..buffer.count()).map(spot).collect());
        Value::View(View { store, elem, sizes, spots })
    }

    /// Registers.
    pub(super) fn fresh(&mut self, elem: Elem, sizes: &[i64], cells: Vec<Option<Cell>>) -> View {
        self.memory(elem, sizes, cells.len(), Store::Registers(cells))
    }

    /// Memory for so many elements of a block's own.
    pub(super) fn memory(&mut self, elem: Elem, sizes: &[i64], count: usize, store: Store) -> View {
        let spot = |n: usize| Spot {
            place: Some(n),
            at: digits(sizes, n as i64).into_iter().map(i128::from).collect(),
        };
        let spots = Rc::new((0..count).map(spot).collect());
        self.stores.push(store);
        View { store: self.stores.len() - 1, elem, sizes: sizes.to_vec(), spots }
    }

    /// The same elements in registers of their own; what is in memory stays there.
    pub(super) fn second(&mut self, view: View) -> View {
        let Store::Registers(cells) = &self.stores[view.store] else { return view };
        let cells = Store::Registers(cells.clone());
        self.stores.push(cells);
        View { store: self.stores.len() - 1, ..view }
    }

    /// Elements that get a name have memory of their own.
    pub(super) fn settled(&mut self, of: Elements) -> Result<Value<'k>> {
        let Type::Elem(elem) = of.ty else { return Ok(Value::Elements(of)) };
        if of.sizes.is_empty() {
            return Ok(Value::Elements(of));
        }
        Ok(Value::View(self.fresh(elem, &of.sizes, of.cells.into_iter().map(Some).collect())))
    }

    /// The elements of a view; those out of bounds are filled.
    pub(super) fn read(&self, view: &View, fill: f64) -> Result<Elements> {
        let cell = |spot: &Spot| -> Result<Cell> {
            let Some(place) = spot.place else {
                let num = Num::literal(fill, view.elem);
                return Ok(Cell { num, beyond: Beyond::Yes, at: Some(spot.at.clone()) });
            };
            match &self.stores[view.store] {
                Store::Global(buffer) => match buffer.all[buffer.place(place)] {
                    Some(num) => Ok(Cell { num, beyond: Beyond::No, at: Some(spot.at.clone()) }),
                    None => undefined("a gap is read"),
                },
                Store::Shared(cells) | Store::Registers(cells) => match &cells[place] {
                    Some(cell) => Ok(cell.clone()),
                    None => undefined("an element is read before it is written"),
                },
            }
        };
        let cells = view.spots.iter().map(cell).collect::<Result<_>>()?;
        Ok(Elements { sizes: view.sizes.clone(), ty: Type::Elem(view.elem), cells, argument: false })
    }

    /// Stores elements, which are as many or one.
    pub(super) fn write(&mut self, view: &View, from: &Elements) -> Result<()> {
        for (n, spot) in view.spots.iter().enumerate() {
            let Some(to) = spot.place else { continue };
            let cell = &from.cells[from.broadcast(&view.sizes, n)?];
            match &mut self.stores[view.store] {
                Store::Global(buffer) => {
                    let to = buffer.place(to);
                    buffer.all[to] = Some(cell.num);
                }
                Store::Shared(cells) | Store::Registers(cells) => cells[to] = Some(cell.clone()),
            }
        }
        Ok(())
    }

    /// `tile(x, (BM, BK), (block.x, _))`, with so many elements before and after each mode.
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
        for (mode, at) in at.iter().enumerate() {
            match at {
                Value::Hole => {
                    let count = (i128::from(view.sizes[mode]) + size(mode) - 1) / size(mode);
                    over.push(mode);
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
            for (mode, digit) in digits.iter().enumerate() {
                match mode < tile.len() {
                    true => coordinates[mode] += i128::from(*digit),
                    false => {
                        let of = over[mode - tile.len()];
                        coordinates[of] += i128::from(*digit) * size(of);
                    }
                }
            }
            view.spot(coordinates)
        });
        Ok(View { spots: Rc::new(spots.collect()), sizes, ..view.clone() })
    }

    /// The elements at so many more along each mode, of a tile of an argument.
    pub(super) fn shift(&self, view: &View, by: &[i128]) -> Result<View> {
        let Store::Global(buffer) = &self.stores[view.store] else {
            return undefined("no argument is shifted");
        };
        let extents = buffer.extents.clone();
        let moved = |spot: &Spot| {
            let mut at: Vec<i128> = spot.at.to_vec();
            for (mode, by) in by.iter().enumerate() {
                if let Some(at) = at.get_mut(mode) {
                    *at += by;
                }
            }
            whole_spot(&extents, at)
        };
        Ok(View { spots: Rc::new(view.spots.iter().map(moved).collect()), ..view.clone() })
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
    Spot { place: inside.then(|| place(extents, &small)), at: at.into() }
}

impl View {
    /// The spot at coordinates of a whole tensor.
    fn spot(&self, at: Vec<i128>) -> Spot {
        whole_spot(&self.sizes, at)
    }

    /// `x[(_, 0, k)]`
    pub(super) fn sliced(&self, index: &[Option<i128>]) -> View {
        let kept: Vec<usize> = (0..self.sizes.len()).filter(|mode| index[*mode].is_none()).collect();
        let mut sizes: Vec<i64> = kept.iter().map(|mode| self.sizes[*mode]).collect();
        if sizes.is_empty() {
            // One element is a tile of one mode.
            sizes.push(1);
        }
        let spot = |n: i64| {
            let digits = digits(&sizes, n);
            let mut at: Vec<i128> = index.iter().map(|at| at.unwrap_or(0)).collect();
            kept.iter().zip(digits).for_each(|(mode, digit)| at[*mode] = digit.into());
            let inside = at.iter().zip(&self.sizes).all(|(at, n)| (0..i128::from(*n)).contains(at));
            if !inside {
                return Spot { place: None, at: at.into() };
            }
            let at: Vec<i64> = at.iter().map(|at| *at as i64).collect();
            self.spots[place(&self.sizes, &at)].clone()
        };
        let spots = (0..sizes.iter().product::<i64>()).map(spot).collect();
        View { sizes, spots: Rc::new(spots), ..self.clone() }
    }

    /// The same elements under another shape, by the mode of this view of each mode; `None` repeats.
    pub(super) fn reshaped(&self, sizes: Vec<i64>, from: &[Option<usize>]) -> View {
        let spot = |n: i64| {
            let digits = digits(&sizes, n);
            let mut at = vec![0; self.sizes.len()];
            for (digit, from) in digits.iter().zip(from) {
                if let Some(from) = from {
                    at[*from] = *digit;
                }
            }
            self.spots[place(&self.sizes, &at)].clone()
        };
        let spots = (0..sizes.iter().product::<i64>()).map(spot).collect();
        View { spots: Rc::new(spots), sizes, ..self.clone() }
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
        Ok(place(&self.sizes, &digits(sizes, n as i64)))
    }
}
