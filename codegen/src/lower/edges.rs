//! Bounds checks: whether an access can be out of bounds, the guard against that, and partial tiles.

use tilewright_layout::{Symbol, Value};

use super::{Lower, Policy};
use crate::affine::{Affine, Coord};
use crate::index::Ix;
use crate::range::{Range, most};
use crate::thread::Fact;
use crate::tile;
use crate::view::View;
use crate::view::leaf::{Leaf, leaves};

/// How far beyond a tensor's last coordinate an access may point whose offset a launch fact bounds to 32
/// bits.
const FARTHEST: u32 = 1 << 16;

impl Lower<'_> {
    /// Can an element of this view be out of bounds along mode `mode`? Where a fact would rule it out and the
    /// policy allows it, the variant needs the fact, and the answer is no.
    pub(super) fn guarded(&mut self, view: &View, mode: usize) -> bool {
        self.relying(|lower, needs| lower.guarded_with(view, mode, needs))
    }

    /// The same, with the facts that rule it out added to `needs`.
    pub(super) fn guarded_with(&mut self, view: &View, mode: usize, needs: &mut Vec<Fact>) -> bool {
        // Both are asked: a fact may rule out either.
        let outside = self.outside_with(view, mode, needs);
        self.limited(view, mode).is_some() || outside
    }

    /// Can it be beyond the tensor's own extent?
    pub(super) fn outside(&mut self, view: &View, mode: usize) -> bool {
        self.relying(|lower, needs| lower.outside_with(view, mode, needs))
    }

    /// The same, with the facts that rule it out added to `needs`.
    pub(super) fn outside_with(&mut self, view: &View, mode: usize, needs: &mut Vec<Fact>) -> bool {
        let tensor = self.program.tensor(view.tensor);
        // Coordinates within a tile have no end but that of the tile, which is a limit.
        if self.program.is_coordinates(view.tensor) {
            return false;
        }
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
        if let Some((iteration, ..)) = self.begins(view, mode, needs) {
            let iteration = self.affine(&iteration);
            // Only the first tile can be partial.
            return self.kernel.exprs.get(iteration).lo < 1;
        }
        let (mut bounded, mut inner) =
            (Vec::new(), Affine { constant: view.base[mode].constant, terms: Vec::new() });
        for (coord, factor) in &as_tiles(&view.base[mode]).terms {
            match self.extent_of(coord) {
                Some(of) => bounded.push((of, *factor)),
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
        bounded.extend(open);
        let last = |of: &Value| of.int().map_or(i64::MAX, |n| n - 1);
        let mut reach = hi;
        for (of, factor) in &bounded {
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
        // Tiles of `factor` that cover this mode are all full when `factor` divides the extent.
        let covers = |(of, factor): &(Value, i64)| *factor > 0 && extent.ceil_div(*factor) == Some(*of);
        let Some(tiles) = bounded.iter().position(covers) else {
            return true;
        };
        let factor = bounded.remove(tiles).1;
        let others = bounded
            .iter()
            .map(|(of, factor)| last(of).saturating_mul(*factor).max(0))
            .fold(0, i64::saturating_add);
        hi.saturating_add(others) >= factor || !self.suppose_whole(factor, extent, needs)
    }

    /// Where the partial tile comes first along a mode: the iteration, the extent, and the tile size. `None`
    /// where all tiles are full, perhaps by a fact that is added to `needs`.
    pub(super) fn begins(
        &self,
        view: &View,
        mode: usize,
        needs: &mut Vec<Fact>,
    ) -> Option<(Affine, Symbol, i64)> {
        let begins = |(coord, _): &(Coord, i64)| {
            let Coord::Begin { iteration, of, tile } = coord else { return None };
            Some(((**iteration).clone(), *of, *tile))
        };
        let (iteration, of, tile) = view.base[mode].terms.iter().find_map(begins)?;
        let whole = self.suppose_whole(tile, Value::Sym { times: 1, of, over: 1 }, needs);
        (!whole).then_some((iteration, of, tile))
    }

    /// Are out-of-bounds coordinates of this mode clamped, and can there be any?
    pub(super) fn clamps(&mut self, view: &View, mode: usize) -> bool {
        (view.clamped.contains(&mode) || view.nearest.contains(&mode)) && self.outside(view, mode)
    }

    /// Clamps a coordinate to the last one at which a vector fits, for a width that divides both it and the
    /// extent.
    pub(super) fn clamped(&mut self, view: &View, mode: usize, coordinate: Ix) -> Ix {
        let extent = self.program.tensor(view.tensor).plain().leaves().nth(mode).map(|leaf| leaf.0);
        let extent = extent.unwrap_or(Value::Int(1));
        let multiple =
            if view.nearest.contains(&mode) { 1 } else { self.kernel.exprs.get(coordinate).multiple };
        let fits =
            |n: &i64| multiple % n == 0 && (extent.factor() % n == 0 || self.supposed(*n, extent, &[]));
        let vector = [16, 8, 4, 2].into_iter().find(fits).unwrap_or(1);
        let (extent, vector) = (self.value(extent), self.int(vector));
        let last = self.exprs().sub(extent, vector);
        let zero = self.int(0);
        let begun = self.exprs().max(coordinate, zero);
        self.exprs().min(begun, last)
    }

    /// For the comparison of a coordinate with a size: a vector is in bounds entirely or not at all where it is known that
    /// its length divides the size, so its first coordinate is compared.
    pub(super) fn start_of_vector(&mut self, at: Ix, end: Ix) -> Ix {
        let Some(&(of, _)) = self.symbols.iter().find(|(_, size)| *size == end) else { return at };
        let known = |n: &i64| self.supposed(*n, Value::Sym { times: 1, of, over: 1 }, &[]);
        let lengths: Vec<i64> = [16, 8, 4, 2].into_iter().filter(known).collect();
        lengths.into_iter().find_map(|n| self.exprs().split(at, n)).map_or(at, |(start, _)| start)
    }

    /// Can offsets of a view be assumed to fit 32 bits? A launch fact covers addresses near the tensor. Those
    /// that may be farther away are computed in 64 bits.
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

    /// How far elements of a view can lie outside of a mode's coordinates, its tile one iteration past the
    /// last of a prefetching loop included. `None` where that is farther than [`FARTHEST`].
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
        // Tiles of `factor` that cover this mode all begin in bounds.
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

    /// The exclusive upper bound of a non-negative coordinate, if one is known.
    fn extent_of(&self, coord: &Coord) -> Option<Value> {
        self.program.below(coord)
    }

    /// The limit of a ragged partition along a mode of the tensor, where the view can exceed it.
    pub(super) fn limited(&mut self, view: &View, mode: usize) -> Option<(Affine, i64)> {
        let (origin, extent) = view.limits.get(mode)?.clone()?;
        let within = view.base[mode].plus(&origin, -1).unwrap_or_default();
        let within = self.affine(&within);
        let steps = leaves(view).into_iter().filter(|leaf| leaf.mode == mode);
        let far: i64 = steps.map(|leaf| (leaf.extent - 1) * leaf.step.max(0)).sum();
        (self.kernel.exprs.get(within).hi.saturating_add(far) >= extent).then_some((origin, extent))
    }

    /// The guard of the element at `at`: it is in bounds. `None` when it always is.
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
                let end = match self.relying(|lower, needs| lower.begins(view, mode, needs)) {
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

    /// Conjoins a condition with `0 <= at < end`.
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

    /// Where an iteration's tile begins if the partial tile comes first.
    pub(super) fn begin(&mut self, iteration: &Affine, of: Symbol, tile: i64) -> Ix {
        let (later, zero) = (self.begin_later(iteration, of, tile), self.int(0));
        self.exprs().max(later, zero)
    }

    /// The same for iterations after the first.
    pub(super) fn begin_later(&mut self, iteration: &Affine, of: Symbol, tile: i64) -> Ix {
        let (iteration, whole) = (self.affine(iteration), self.int(tile));
        let full_tiles = self.exprs().mul(iteration, whole);
        let short = self.short(of, tile);
        self.exprs().sub(full_tiles, short)
    }

    /// How many elements short of a full tile the first one is.
    fn short(&mut self, of: Symbol, tile: i64) -> Ix {
        let extent = Value::Sym { times: 1, of, over: 1 };
        if self.relying(|lower, needs| lower.suppose_whole(tile, extent, needs)) {
            return self.int(0);
        }
        let (extent, one, most) = (self.value(extent), self.int(1), self.int(tile - 1));
        let before = self.exprs().sub(extent, one);
        let past = self.exprs().rem(before, tile);
        let short = self.exprs().sub(most, past);
        self.name(short, &format!("{}_short", of.name()))
    }
}

/// A coordinate as if all tiles were full.
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
