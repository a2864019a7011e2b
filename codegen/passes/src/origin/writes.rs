//! The analysis of tensors after statements have written them.

use tilewright_layout::Value;

use super::Origins;
use super::out_of_bounds::{
    CombinedOver, Coordinate, OutOfBounds, Region, State, along, apart, taken_over, union,
};
use super::propagation::{of_whole, remaining, shown, stored};
use crate::thread::Id;
use crate::tile::elements::Edge;
use crate::tile::pair::{Scanned, align};
use crate::tile::view::View;
use crate::tile::view::leaf::leaves;
use crate::tile::{Across, Space, Stmt};
use crate::values::affine::{Affine, Coord};
use crate::values::number::Number;
use crate::values::scan::Scan;
use crate::view_elements::{Budget, Elements};

impl Origins<'_> {
    /// The analysis of a view's elements, over the coordinates of the target. `fill` replaces out-of-bounds elements of global memory.
    pub(super) fn read(&mut self, view: &View, to: &View, fill: Option<f64>, state: &State) -> OutOfBounds {
        let known = match self.program.tensor(view.tensor).space {
            Space::Global { .. } => {
                OutOfBounds { contents: fill, age: self.loops.len(), ..OutOfBounds::NONE }
            }
            Space::Shared { .. } | Space::Registers { .. } => {
                let known = state.get(&view.tensor).cloned().unwrap_or(OutOfBounds::NONE);
                let contents = fill.and_then(|fill| self.read_as(view, &known, fill));
                OutOfBounds { contents, parts: Vec::new(), ..known }
            }
        };
        OutOfBounds { edges: self.edges(view, to, state), at: self.at(view, to, state), ..known }
    }

    pub(super) fn copied(&mut self, by: Id, from: &View, to: &View, fill: Number, state: &mut State) {
        let [source, target] = [from, to].map(|view| self.program.tensor(view.tensor).elem);
        let known = self.read(from, to, fill.exact(), state);
        // Between floating-point types conversions are taken to keep the value; others keep 0 only.
        let same = source == target || (source.is_float() && target.is_float());
        let kept = |number: Option<f64>| number.filter(|x| same || *x == 0.0);
        let (contents, begun, if_runs) = (kept(known.contents), kept(known.begun), known.depends_on_path());
        let edges = known.edges.filter(|_| known.begun == begun);
        let (age, computed) = (self.loops.len(), None);
        let part = OutOfBounds { edges, contents, begun, computed, age, if_runs, ..known };
        self.written(by, to, part, state);
    }

    pub(super) fn scanned(
        &mut self,
        stmt: &Stmt,
        &Scanned { from, to, carry }: &Scanned<'_>,
        how: &Scan,
        state: &mut State,
    ) {
        let mask = match how.unmasked {
            true => {
                let modes = |mode| how.modes().contains(&mode);
                let combined = CombinedOver { modes: &modes, across: &how.across() };
                self.claimed(stmt, from, &how.identity, combined, state)
            }
            false => self.mask_of_tuples(from, &how.identity, "scan", state),
        };
        self.mask(stmt, mask);
        for ((from, carry), identity) in from.iter().zip(carry).zip(&how.identity) {
            self.reduced(from, carry, *identity, &how.across(), state);
        }
        for (from, to) in from.iter().zip(to) {
            let OutOfBounds { edges, begun, at, .. } = self.read(from, to, None, state);
            let age = self.loops.len();
            self.update(to, OutOfBounds { edges, begun, at, age, ..OutOfBounds::NONE }, state);
        }
    }

    /// The state of a reduction's target.
    pub(super) fn reduced(
        &mut self,
        from: &View,
        to: &View,
        identity: Number,
        across: &[Across],
        state: &mut State,
    ) {
        let before = state.get(&to.tensor).cloned().unwrap_or(OutOfBounds::NONE);
        let source = state.get(&from.tensor).cloned().unwrap_or(OutOfBounds::NONE);
        let contents = before.contents.filter(|x| *x == identity.to_f64());
        let combined: Vec<bool> = match (from.extents(), to.extents()) {
            (Some(from), Some(to)) => from.iter().zip(&to).map(|(from, to)| from != to).collect(),
            _ => vec![true; from.rank()],
        };
        let view = |edge: Edge| taken_over(edge, from);
        let runs = |submodes: &[(i64, i64)]| submodes.iter().any(|(extent, step)| *extent > 1 && *step != 0);
        let along_combined = |edge: &Edge| {
            edge.modes.iter().zip(&combined).any(|(submodes, combined)| *combined && runs(submodes))
        };
        // The rest of a coordinate of the source, on the modes of the target's tensor.
        let left = |edge: Edge| {
            let rest = edge.try_map(&|mut edge| {
                // Along a mode of extent 1 there is one coordinate.
                for (submodes, _) in edge.modes.iter_mut().zip(&combined).filter(|(_, combined)| **combined) {
                    submodes.clear();
                }
                Some(edge)
            });
            stored(rest?, to)
        };
        // Between threads whose elements are combined.
        let differs = |edge: &Edge| across.iter().any(|across| apart(&edge.base, *across));
        let is_combined = |edge: &Edge| along_combined(edge) || differs(edge);
        let kept = source.edges.and_then(|edges| {
            remaining(edges.into_iter().map(view).collect::<Option<_>>()?, &is_combined, &left)
        });
        let same_tensor = self.whole(to) && self.whole(from);
        let edges = match (before.edges, kept) {
            (Some(before), Some(kept)) if kept.is_empty() || same_tensor => {
                Some(union([before, kept].into()))
            }
            _ => None,
        };
        // Results have no coordinate along combined modes, nor along the other parts of a mode that is combined in part.
        let at = source.at.is_some().then(|| self.at(from, from, state)).flatten().unwrap_or_default();
        let one = |at: &Edge| !is_combined(at);
        let kept = |(at, combined): (Coordinate, &bool)| {
            at.and_then(|at| Some(at).filter(|at| !combined && one(at)))
        };
        let kept = at.into_iter().zip(&combined).map(kept);
        let at = Some(self.stored(kept.collect(), to));
        // Where only the fill is combined, no result is out of bounds.
        let begun = source.begun.filter(|_| edges.as_ref().is_some_and(|edges| !edges.is_empty()));
        let age = before.age;
        state.insert(to.tensor, OutOfBounds { edges, contents, begun, at, age, ..OutOfBounds::NONE });
    }

    /// The analysis of a view's elements.
    pub(super) fn known(&mut self, view: &View, state: &State) -> OutOfBounds {
        match self.program.tensor(view.tensor).space {
            Space::Global { .. } => match (0..view.base.len()).any(|mode| self.guarded(view, mode)) {
                true => OutOfBounds::UNKNOWN,
                false => OutOfBounds::NONE,
            },
            Space::Shared { .. } | Space::Registers { .. } => {
                state.get(&view.tensor).cloned().unwrap_or(OutOfBounds::NONE)
            }
        }
    }

    /// Updates the state of a view that threads write, each its part.
    pub(super) fn written(&mut self, by: Id, to: &View, part: OutOfBounds, state: &mut State) {
        let Some((known_part, region)) = self.in_shared(by, &part, to) else {
            return self.update(to, part, state);
        };
        self.written_region(to.tensor, region, known_part, state);
    }

    /// Updates the state of a shared tensor where a region is written, if the region is known.
    fn written_region(&self, of: Id, region: Option<Region>, part: OutOfBounds, state: &mut State) {
        let before = state.get(&of);
        let known = match (region, self.program.tensor(of).extents()) {
            (Some(region), Some(sizes)) => {
                let whole = sizes.into_iter().map(|size| 0..size).collect();
                OutOfBounds::with_part(before, region, part, &whole)
            }
            _ => before.map_or(part.clone(), |known| known.join(&part)),
        };
        state.insert(of, known);
    }

    /// Updates the state of a ring's tensor: a producer has filled the current slot, or a part of it.
    pub(super) fn filled_slot(&mut self, from: &View, to: &View, state: &mut State) {
        let OutOfBounds { edges, at, .. } = self.read(from, to, None, state);
        let part = OutOfBounds { edges, contents: Some(0.0), at, age: self.loops.len(), ..OutOfBounds::NONE };
        // Statements of an iteration see one slot.
        let mut slot = to.clone();
        let is_phase = |coord: &Coord| matches!(coord, Coord::Phase(_));
        let slots: Vec<usize> = (0..to.base.len()).filter(|mode| to.base[*mode].any(&is_phase)).collect();
        slots.iter().for_each(|mode| slot.base[*mode] = 0.into());
        let is_known = slot.base.iter().all(|base| base.constant().is_some());
        let Some(sizes) = self.program.tensor(to.tensor).extents() else {
            return self.update(to, OutOfBounds::UNKNOWN, state);
        };
        let written = region(&slot, 1, &sizes).filter(|_| is_known).map(|mut written| {
            slots.iter().for_each(|mode| written[*mode] = 0..sizes[*mode]);
            written
        });
        let Some(written) = written else {
            let whole = sizes.iter().map(|size| 0..*size).collect();
            let parts = vec![(whole, OutOfBounds::UNKNOWN)];
            state.insert(to.tensor, OutOfBounds { parts, ..OutOfBounds::UNKNOWN });
            return;
        };
        // Earlier contents of the slot have been replaced, unless they are other parts of the same ones.
        if state.get(&to.tensor).is_some_and(|of| of.parts.is_empty()) {
            state.remove(&to.tensor);
        }
        self.written_region(to.tensor, Some(written), on_tensor(&part, &slot, &sizes, 1), state);
    }

    /// Updates a tensor's state: a partial write is joined with the earlier state.
    pub(super) fn update(&mut self, to: &View, known_part: OutOfBounds, state: &mut State) {
        let tensor = self.program.tensor(to.tensor);
        let known_part = match (tensor.space, self.whole(to)) {
            (Space::Global { .. }, _) => return,
            (Space::Registers { .. }, true) => {
                let all_stored = |edges: Vec<Edge>| edges.into_iter().map(|edge| stored(edge, to)).collect();
                let edges = known_part.edges.and_then(all_stored);
                let at = known_part.at.map(|at| self.stored(at, to));
                OutOfBounds { edges, at, ..known_part }
            }
            (Space::Shared { .. }, _) | (Space::Registers { .. }, false) => {
                // Elements that are not written keep their state; edges are known for whole fragments only. What threads
                // have outside of the tile is not stored.
                let limits = self.limits_of(to);
                let stored = |edge: &Edge| !limits.iter().any(|limit| limit.is_same(edge));
                let edges =
                    known_part.edges.map(|edges| edges.into_iter().filter(stored).collect::<Vec<_>>());
                let edges = edges.filter(Vec::is_empty);
                let part = OutOfBounds { edges, at: Some(Vec::new()), ..known_part };
                state.get(&to.tensor).map_or(part.clone(), |known| known.join(&part))
            }
        };
        state.insert(to.tensor, known_part);
    }

    /// The value of a view's out-of-bounds elements, if threads outside of its tile's limits read this fill.
    pub(super) fn read_as(&mut self, view: &View, known: &OutOfBounds, fill: f64) -> Option<f64> {
        match self.limits_of(view).is_empty() {
            true => known.contents,
            false if known.is_none() => Some(fill),
            false => known.contents.filter(|contents| *contents == fill),
        }
    }

    /// The limits of a tile that threads do not divide, as edges.
    pub(super) fn limits_of(&mut self, view: &View) -> Vec<Edge> {
        let mut all = Vec::new();
        for mode in 0..view.base.len() {
            if let Some((origin, extent)) = self.assumed.bounds(&[]).limited(view, mode) {
                all.extend(self.limit(view, mode, origin, extent, view.name.clone()));
            }
        }
        all
    }

    /// One of them: the tile begins at `origin`.
    fn limit(&self, view: &View, mode: usize, origin: Affine, extent: i64, name: String) -> Option<Edge> {
        let base = view.base[mode].plus(&origin, -1)?;
        let modes = along(view, mode);
        let submodes = modes.iter().flatten();
        let back: i64 = submodes.map(|(extent, step)| (extent - 1).saturating_mul((*step).min(0))).sum();
        let only_above = self.program.range(&base).lo.saturating_add(back.into()) < 0;
        Some(Edge { only_above, ..Edge::new(name, base, modes, Value::Int(extent)) })
    }

    /// Does a view show every element of its tensor once?
    pub(super) fn whole(&self, view: &View) -> bool {
        let tensor = self.program.tensor(view.tensor);
        let mut steps = leaves(view);
        steps.retain(|leaf| leaf.extent > 1);
        steps.sort_unstable_by_key(|leaf| leaf.step);
        let whole = |(mode, own): (usize, tilewright_layout::Layout)| {
            let mut along = steps.iter().filter(|leaf| leaf.mode == mode);
            let reach = along
                .try_fold(1i64, |next, leaf| (next == leaf.step).then(|| next.saturating_mul(leaf.extent)));
            own.size().ok() == reach
        };
        tensor.layout.layout().modes().enumerate().all(whole)
            && view.base.iter().all(|base| base.constant() == Some(0))
    }

    /// The edges of a view, over the coordinates of a fragment that is written whole.
    pub(super) fn edges(&mut self, view: &View, to: &View, state: &State) -> Option<Vec<Edge>> {
        let pair = align(view, to).ok()?;
        let view = pair.from;
        let tensor = self.program.tensor(view.tensor);
        let along = |mode: usize| along(&view, mode);
        if !matches!(tensor.space, Space::Global { .. }) {
            let known = state.get(&view.tensor).cloned().unwrap_or(OutOfBounds::NONE).edges?;
            let taken = known.into_iter().map(|edge| taken_over(edge, &view));
            let taken: Vec<Edge> = taken.collect::<Option<_>>()?;
            return Some(union(vec![taken, self.limits_of(&view)]));
        }
        let mut all = Vec::new();
        let extents: Vec<Value> = tensor.plain().leaves().map(|leaf| leaf.0).collect();
        for (mode, end) in extents.into_iter().enumerate() {
            let name = format!("{}_{mode}", view.name);
            // Elements that are clamped to the nearest one in bounds have no edge.
            if self.outside(&view, mode) && !view.nearest.contains(&mode) {
                all.push(Edge::new(name.clone(), view.base[mode].clone(), along(mode), end));
            }
            if let Some((origin, extent)) = self.assumed.bounds(&[]).limited(&view, mode) {
                all.push(self.limit(&view, mode, origin, extent, name)?);
            }
        }
        Some(all)
    }

    /// The analysis of the elements of a shared tensor that all threads together write, in terms of the whole tensor, and
    /// which elements these are. It is derived from one thread's part, where elements keep their coordinates.
    fn in_shared(&mut self, by: Id, part: &OutOfBounds, to: &View) -> Option<(OutOfBounds, Option<Region>)> {
        // Threads' elements outside of the tile are not stored.
        let limits = self.limits_of(to);
        let tensor = self.program.tensor(to.tensor);
        let threads = i64::from(self.program.threads_of(by));
        let sizes = tensor.extents()?;
        let only_threads = |base: &Affine| {
            !base.any(&|coord| {
                !matches!(coord, Coord::Thread(_) | Coord::Submode { .. } | Coord::Swizzled(..))
            })
        };
        let known = matches!(tensor.space, Space::Shared { .. })
            && self.program.groups[by as usize].members == 1
            && to.base.iter().all(only_threads)
            && to.limits.iter().flatten().all(|(origin, _)| only_threads(origin));
        if !known {
            return None;
        }
        let mut part = part.clone();
        if let Some(edges) = &mut part.edges {
            edges.retain(|edge| !limits.iter().any(|limit| limit.is_same(edge)));
        }
        Some((on_tensor(&part, to, &sizes, threads), region(to, threads, &sizes)))
    }
}

/// The analysis of a tensor's elements from the analysis of a view of each of `threads` threads.
fn on_tensor(part: &OutOfBounds, to: &View, sizes: &[i64], threads: i64) -> OutOfBounds {
    let of = |edge: &Edge| of_whole(edge, to, sizes, threads);
    let edges = part.edges.as_ref().and_then(|edges| edges.iter().map(of).collect());
    let at = part.at.as_ref().map(|at| {
        let mut all = vec![Coordinate::Unknown(None); sizes.len()];
        for (mode, at) in at.iter().enumerate().take(to.rank()) {
            for index in shown(to, mode) {
                let whole = |at: Edge| Some(of(&at)?.along_mode(index, sizes[index]));
                all[index] = at.clone().and_then(whole);
            }
        }
        all
    });
    OutOfBounds { edges, at, ..part.clone() }
}

/// The region of a tensor that threads, whose parts may exceed their tile, together write; `None` if it is no box.
fn region(to: &View, threads: i64, sizes: &[i64]) -> Option<Region> {
    /// The most elements that are visited: about the bytes of shared memory.
    const MOST: u32 = 1 << 18;
    let elements = Elements::of(to, &mut Budget::of(MOST))?;
    if threads.saturating_mul(elements.len() as i64) > MOST.into() {
        return None;
    }
    let mut written = vec![false; sizes.iter().product::<i64>() as usize];
    let mut region: Region = sizes.iter().map(|size| *size..0).collect();
    for thread in 0..threads {
        let of = |at: &Affine| at.eval(&|_| thread);
        let base: Vec<i64> = to.base.iter().map(of).collect();
        let end = |(size, limit): (&i64, &Option<(Affine, i64)>)| {
            limit.as_ref().map_or(*size, |(origin, extent)| *size.min(&(of(origin) + extent)))
        };
        let ends: Vec<i64> = sizes.iter().zip(&to.limits).map(end).collect();
        for element in 0..elements.len() {
            let at = || base.iter().zip(&elements.along).map(|(base, along)| base + along[element]);
            if !at().zip(&ends).all(|(at, end)| (0..*end).contains(&at)) {
                continue;
            }
            written[at().zip(sizes).rev().fold(0, |index, (at, size)| index * size + at) as usize] = true;
            for (of, at) in region.iter_mut().zip(at()) {
                *of = of.start.min(at)..of.end.max(at + 1);
            }
        }
    }
    let size: i64 = region.iter().map(|of| (of.end - of.start).max(0)).product();
    (size > 0 && written.into_iter().filter(|written| *written).count() as i64 == size).then_some(region)
}
