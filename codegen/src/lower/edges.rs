//! Edges: whether an element could lie outside its tensor, under which condition it lies inside, and what becomes of tiles
//! that stick out.

use tilewright_layout::{Symbol, Value};

use super::address::{Leaf, leaves};
use super::{Lower, Policy};
use crate::affine::{Affine, Coord};
use crate::index::Ix;
use crate::range::{Range, most};
use crate::thread::Fact;
use crate::tile;
use crate::view::View;

/// How far beyond a tensor's last coordinate an access may point whose offset a fact holds to 32 bits.
const FARTHEST: u32 = 1 << 16;

impl Lower<'_> {
    /// Could an element of this view lie outside mode `mode` of its tensor? Where a fact would rule it out and the policy
    /// takes facts for granted, it is recorded and the answer is no.
    pub(super) fn guarded(&mut self, view: &View, mode: usize) -> bool {
        // Both are asked: each may record the fact that rules it out.
        let outside = self.outside(view, mode);
        self.limited(view, mode).is_some() || outside
    }

    /// The same for the tensor's own extent alone.
    pub(super) fn outside(&mut self, view: &View, mode: usize) -> bool {
        let tensor = self.program.tensor(view.tensor);
        let extent = match tensor.space {
            tile::Space::Global { .. } => tensor.plain().leaves().nth(mode).map(|leaf| leaf.0),
            tile::Space::Shared { .. } => {
                tensor.plain().mode(mode).and_then(|mode| mode.size()).ok().map(Value::Int)
            }
            tile::Space::Registers { .. } => None,
        };
        let Some(extent) = extent else {
            return false;
        };
        if let Some((iteration, ..)) = self.begins(view, mode) {
            let iteration = self.affine(&iteration);
            // In the first turn, where all there is may be less than a tile.
            return self.kernel.exprs.get(iteration).lo < 1;
        }
        let (mut moving, mut inner) =
            (Vec::new(), Affine { constant: view.base[mode].constant, terms: Vec::new() });
        for (coord, factor) in &as_tiles(&view.base[mode]).terms {
            match self.extent_of(coord) {
                Some(of) => moving.push((of, *factor)),
                None => inner.terms.push((coord.clone(), *factor)),
            }
        }
        let along: Vec<Leaf> = leaves(view).into_iter().filter(|leaf| leaf.mode == mode).collect();
        let inner = self.affine(&inner);
        let (mut lo, mut hi) = (self.kernel.exprs.get(inner).lo, self.kernel.exprs.get(inner).hi);
        for leaf in along {
            let end = (leaf.extent - 1).saturating_mul(leaf.step);
            (lo, hi) = (lo.saturating_add(end.min(0)), hi.saturating_add(end.max(0)));
        }
        // A dynamic mode of the view runs over the whole extent behind it.
        let open = view.layout.leaves().filter_map(|(n, d)| match (n, d) {
            (Value::Sym { .. }, Value::Basis { times, path }) if usize::from(path.steps()[0]) == mode => {
                Some((n, times))
            }
            _ => None,
        });
        moving.extend(open);
        let last = |of: &Value| of.int().map_or(i64::MAX, |n| n - 1);
        let mut reach = hi;
        for (of, factor) in &moving {
            let end = last(of).saturating_mul(*factor);
            (lo, reach) = (lo.saturating_add(end.min(0)), reach.saturating_add(end.max(0)));
        }
        if lo < 0 {
            return true;
        }
        if let Value::Int(extent) = extent
            && reach < extent
        {
            return false;
        }
        // Tiles of `factor` along this mode, as many as it takes to cover it: whole when `factor` divides the extent.
        let covers = |(of, factor): &(Value, i64)| *factor > 0 && extent.ceil_div(*factor) == Some(*of);
        let Some(tiles) = moving.iter().position(covers) else {
            return true;
        };
        let factor = moving.remove(tiles).1;
        let others = moving
            .iter()
            .map(|(of, factor)| last(of).saturating_mul(*factor).max(0))
            .fold(0, i64::saturating_add);
        hi.saturating_add(others) >= factor || !self.suppose_whole(factor, extent)
    }

    /// The tile of a turn along a mode, if its first is the one that is not whole: the turn, the extent, and how many
    /// elements whole ones have. `None` where all are whole.
    pub(super) fn begins(&mut self, view: &View, mode: usize) -> Option<(Affine, Symbol, i64)> {
        let begins = |(coord, _): &(Coord, i64)| match coord {
            Coord::Begin { iteration, of, tile } => Some(((**iteration).clone(), *of, *tile)),
            _ => None,
        };
        let (iteration, of, tile) = view.base[mode].terms.iter().find_map(begins)?;
        let whole = self.suppose_whole(tile, Value::Sym { times: 1, of, over: 1 });
        (!whole).then_some((iteration, of, tile))
    }

    /// Do elements from inside stand for those past the edge of this mode, and could there be such?
    pub(super) fn holds(&mut self, view: &View, mode: usize) -> bool {
        (view.clamped.contains(&mode) || view.nearest.contains(&mode)) && self.outside(view, mode)
    }

    /// A coordinate, or the last one where a vector fits that both it and the extent are multiples of.
    pub(super) fn clamped(&mut self, view: &View, mode: usize, coordinate: Ix) -> Ix {
        let extent = self.program.tensor(view.tensor).plain().leaves().nth(mode).map(|leaf| leaf.0);
        let extent = extent.unwrap_or(Value::Int(1));
        let multiple =
            if view.nearest.contains(&mode) { 1 } else { self.kernel.exprs.get(coordinate).multiple };
        let fits = |n: &i64| multiple % n == 0 && (extent.factor() % n == 0 || self.supposed(*n, extent));
        let vector = [16, 8, 4, 2].into_iter().find(fits).unwrap_or(1);
        let (extent, vector) = (self.value(extent), self.int(vector));
        let last = self.exprs().sub(extent, vector);
        let zero = self.int(0);
        let begun = self.exprs().max(coordinate, zero);
        self.exprs().min(begun, last)
    }

    /// May offsets of a view be taken to fit 32 bits? A fact says so of all that lies so near to the tensor that launch can
    /// include it; what may lie farther away is computed in 64 bits.
    pub(super) fn is_small(&mut self, view: &View) -> bool {
        let global = matches!(self.program.tensor(view.tensor).space, tile::Space::Global { .. });
        if !global || self.policy == Policy::General {
            return false;
        }
        let beyond: Option<Vec<u32>> = (0..view.base.len()).map(|mode| self.beyond(view, mode)).collect();
        let Some(beyond) = beyond else { return false };
        let place = self.places[view.tensor as usize];
        for fact in &mut self.kernel.needs {
            if let Fact::Small { param, beyond: known } = fact
                && *param == place
            {
                known.iter_mut().zip(&beyond).for_each(|(known, &now)| *known = now.max(*known));
            }
        }
        true
    }

    /// How far elements of a view, or those of its tile one iteration past the last of a loop that runs ahead, can lie
    /// beyond the first or the last coordinate of a mode. `None` where that is farther than [`FARTHEST`].
    fn beyond(&self, view: &View, mode: usize) -> Option<u32> {
        let extent = self.program.tensor(view.tensor).plain().leaves().nth(mode)?.0;
        let base = as_tiles(&view.base[mode]);
        let mut terms: Vec<(Range, Option<Value>, i64)> = Vec::new();
        for (coord, factor) in &base.terms {
            terms.push((self.program.range_of(coord).times(*factor), self.extent_of(coord), *factor));
        }
        for (count, stride) in view.layout.leaves() {
            match stride {
                Value::Basis { times, path } if usize::from(path.steps()[0]) == mode => {
                    terms.push((Range::below(most(count)).times(times), Some(count), times));
                }
                _ => {}
            }
        }
        // Tiles of `factor` along this mode, as many as it takes to cover it, all begin inside.
        let covers =
            |of: &Option<Value>, factor: i64| factor > 0 && of.is_some() && extent.ceil_div(factor) == *of;
        let mut last = extent.int().map_or(0, |n| i128::from(n) - 1);
        if let Some(tiles) = terms.iter().position(|(_, of, factor)| covers(of, *factor)) {
            terms.remove(tiles);
            last = 0;
        }
        let all = terms.iter().fold(Range::only(base.constant), |all, (range, ..)| all.plus(*range));
        let mut past = all.hi.saturating_sub(last).max(0);
        if self.scope.ahead {
            let loops = base.terms.iter().filter(|(coord, _)| matches!(coord, Coord::Var(_)));
            past = past.saturating_add(loops.map(|(_, by)| i128::from(*by.max(&0))).sum());
        }
        let beyond = past.max(-all.lo);
        u32::try_from(beyond).ok().filter(|&beyond| beyond <= FARTHEST)
    }

    /// The size below which a coordinate stays that is not negative, if one is known.
    fn extent_of(&self, coord: &Coord) -> Option<Value> {
        self.program.below(coord)
    }

    /// The limit of a ragged partition along a mode of the tensor, where the view can pass it.
    pub(super) fn limited(&mut self, view: &View, mode: usize) -> Option<(Affine, i64)> {
        let (origin, extent) = view.limits.get(mode)?.clone()?;
        let within = view.base[mode].plus(&origin, -1).unwrap_or_default();
        let within = self.affine(&within);
        let steps = leaves(view).into_iter().filter(|leaf| leaf.mode == mode);
        let far: i64 = steps.map(|leaf| (leaf.extent - 1) * leaf.step.max(0)).sum();
        (self.kernel.exprs.get(within).hi.saturating_add(far) >= extent).then_some((origin, extent))
    }

    /// The condition under which the element at `at` lies inside its tensor; `None` when it always does.
    pub(super) fn guard(&mut self, view: &View, leaves: &[Leaf], at: &[Ix]) -> Option<Ix> {
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
                let (coordinate, extent) =
                    (self.coordinate(view, mode, leaves, at), self.value(extents[mode]));
                let end = match self.begins(view, mode) {
                    Some((iteration, of, tile)) => {
                        let next = iteration.plus(&1.into(), 1).unwrap_or_default();
                        self.begin_later(&next, of, tile)
                    }
                    None => extent,
                };
                guard = self.and_within(guard, coordinate, end);
            }
            if let Some((origin, extent)) = self.limited(view, mode) {
                let within = view.base[mode].plus(&origin, -1).unwrap_or_default();
                let within = self.affine(&within);
                let steps = self.steps(leaves, at, mode);
                let (within, extent) = (self.exprs().add(within, steps), self.int(extent));
                let below = self.exprs().lt(within, extent);
                guard = self.exprs().all(guard, below);
            }
        }
        (self.kernel.exprs.constant(guard) != Some(1)).then_some(guard)
    }

    /// A condition, and that a coordinate lies from 0 to before an end.
    pub(super) fn and_within(&mut self, condition: Ix, at: Ix, end: Ix) -> Ix {
        let below = self.exprs().lt(at, end);
        let condition = self.exprs().all(condition, below);
        if self.kernel.exprs.get(at).lo >= 0 {
            return condition;
        }
        let zero = self.int(0);
        let negative = self.exprs().lt(at, zero);
        let inside = self.exprs().not(negative);
        self.exprs().all(condition, inside)
    }

    /// Where the tile of a turn begins whose first is not whole.
    pub(super) fn begin(&mut self, iteration: &Affine, of: Symbol, tile: i64) -> Ix {
        let (later, zero) = (self.begin_later(iteration, of, tile), self.int(0));
        self.exprs().max(later, zero)
    }

    /// The same for turns after the first.
    pub(super) fn begin_later(&mut self, iteration: &Affine, of: Symbol, tile: i64) -> Ix {
        let (iteration, whole) = (self.affine(iteration), self.int(tile));
        let turns = self.exprs().mul(iteration, whole);
        let short = self.short(of, tile);
        self.exprs().sub(turns, short)
    }

    /// How many elements the first tile lacks where all others are whole.
    fn short(&mut self, of: Symbol, tile: i64) -> Ix {
        let extent = Value::Sym { times: 1, of, over: 1 };
        if self.suppose_whole(tile, extent) {
            return self.int(0);
        }
        let (extent, one, most) = (self.value(extent), self.int(1), self.int(tile - 1));
        let before = self.exprs().sub(extent, one);
        let past = self.exprs().rem(before, tile);
        let short = self.exprs().sub(most, past);
        self.name(short, &format!("{}_short", of.name()))
    }
}

/// A coordinate whose tiles are all whole, or counted as if they were.
pub(super) fn as_tiles(base: &Affine) -> Affine {
    let mut all = Affine::from(base.constant);
    for (coord, by) in &base.terms {
        let (term, by) = match coord {
            Coord::Begin { iteration, tile, .. } => ((**iteration).clone(), by * tile),
            coord => (coord.clone().into(), *by),
        };
        all = all.plus(&term, by).unwrap_or_default();
    }
    all
}
