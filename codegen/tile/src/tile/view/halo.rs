//! Views that exceed the bounds of tiles and tensors: shifted, with a halo, clamped.

use tilewright_layout::{Layout, Value};

use super::{View, too_far};
use crate::source::problem::{Problem, Result, count};
use crate::values::affine::{Affine, Coord};

impl View {
    /// For each mode of the tensor the first and the last coordinate of an element, counted from the origin, where they are
    /// known while compiling.
    fn reach(&self) -> Vec<Option<(i64, i64)>> {
        let mut all = vec![Some((0i64, 0i64)); self.base.len()];
        for (extent, step) in self.layout.leaves() {
            let Value::Basis { times, path } = step else { continue };
            let reach = &mut all[usize::from(path.steps()[0])];
            *reach = match (*reach, extent) {
                (Some((first, last)), Value::Int(extent)) => {
                    let far = (extent - 1).saturating_mul(times);
                    Some((first.saturating_add(far.min(0)), last.saturating_add(far.max(0))))
                }
                _ => None,
            };
        }
        all
    }

    /// Does it show the same elements of the tensor in the same places?
    pub fn is_same(&self, other: &View) -> bool {
        let places = |view: &View| (view.tensor, view.peer.clone());
        // A vector may be one mode or a tuple of one.
        let mut modes = self.layout.modes().zip(other.layout.modes());
        places(self) == places(other)
            && (&self.base, self.rank()) == (&other.base, other.rank())
            && modes.all(|(own, other)| own.leaves().eq(other.leaves()))
    }

    /// Has it certainly no element in common with another view?
    pub fn is_apart(&self, other: &View) -> bool {
        if self.tensor != other.tensor || self.peer != other.peer {
            return true;
        }
        let is_clamped = |view: &View| !view.nearest.is_empty() || !view.clamped.is_empty();
        if is_clamped(self) || is_clamped(other) {
            return false;
        }
        let distances = self.base.iter().zip(&other.base).map(|(own, other)| other.plus(own, -1)?.constant());
        let mut modes = self.reach().into_iter().zip(other.reach()).zip(distances);
        modes.any(|((own, other), distance)| match (own, other, distance) {
            (Some(own), Some(other), Some(distance)) => {
                own.1 < other.0.saturating_add(distance) || other.1.saturating_add(distance) < own.0
            }
            _ => false,
        })
    }

    /// For all values of the varying coordinates, does the view have the same elements or none of them?
    pub fn is_aligned(&self, varies: &dyn Fn(&Coord) -> bool) -> bool {
        self.base.iter().zip(self.reach()).all(|(base, reach)| {
            let Some((first, last)) = reach else { return !base.any(varies) };
            let extent = last - first + 1;
            let mut terms = base.terms.iter();
            terms.all(|(coord, factor)| factor % extent == 0 || !Affine::from(coord.clone()).any(varies))
        })
    }

    /// The view with out-of-bounds coordinates along a mode clamped, for readers that ignore those elements:
    /// reads need no guard.
    pub fn clamped(mut self, mode: usize) -> View {
        if !self.clamped.contains(&mode) {
            self.clamped.push(mode);
        }
        self
    }

    /// The view with other elements read instead, from the first on. If copies bypass the L1 cache and all blocks at an edge
    /// read the last row repeatedly, they wait for one slice of the L2 cache.
    pub fn wrapped(self, mode: usize) -> View {
        View { wraps: true, ..self.clamped(mode) }
    }

    /// The same with out-of-bounds coordinates along a mode clamped to the nearest element.
    pub fn nearest(mut self, mode: usize) -> View {
        if !self.nearest.contains(&mode) {
            self.nearest.push(mode);
        }
        self
    }

    /// The view shifted by a number of elements along each mode, in the same shape.
    pub fn shift(&self, by: &[Affine]) -> Result<View> {
        if by.len() != self.rank() {
            return Err(Problem::new(format!(
                "`{}` has {}, {}, and the shift names {}",
                self.name,
                count(self.rank(), "mode"),
                self.shape(),
                by.len()
            ))
            .help("write one number for each mode, 0 for those that stay")
            .arg(1));
        }
        let mut view = self.clone();
        for (index, (mode, by)) in self.layout.modes().zip(by).enumerate() {
            if by.constant() == Some(0) {
                continue;
            }
            let [(_, Value::Basis { times, path })] = mode.leaves().collect::<Vec<_>>()[..] else {
                return Err(Problem::new(format!(
                    "mode {index} of `{}` has the shape {}, and its elements are not equidistant",
                    self.name,
                    mode.shape()
                ))
                .help("shift the tile, then partition it")
                .arg(1));
            };
            let along = usize::from(path.steps()[0]);
            view.base[along] = view.base[along].plus(by, times).ok_or_else(too_far)?;
            if let Some((origin, _)) = &mut view.limits[along] {
                *origin = origin.plus(by, times).ok_or_else(too_far)?;
            }
        }
        Ok(view)
    }

    /// The same with a halo along its first modes: further elements before and after.
    pub fn with_halo(&self, halo: &[(i64, i64)]) -> Result<View> {
        let mut view = self.clone();
        let mut modes: Vec<Layout> = self.layout.modes().collect();
        for (index, &(before, after)) in halo.iter().enumerate() {
            if (before, after) == (0, 0) {
                continue;
            }
            let leaves: Vec<(Value, Value)> =
                modes.get(index).map_or(Vec::new(), |mode| mode.leaves().collect());
            let [(Value::Int(extent), Value::Basis { times, path })] = leaves[..] else {
                return Err(Problem::new(format!(
                    "mode {index} of `{}`, {}, cannot have a halo",
                    self.name,
                    self.shape()
                ))
                .help("give a halo to modes of the tile that have one extent, known while compiling"));
            };
            let wide = extent.checked_add(before).and_then(|n| n.checked_add(after)).filter(|n| *n < 1 << 31);
            let (Some(wide), true) = (wide, before >= 0 && after >= 0) else {
                return Err(Problem::new(format!("a halo of {before} and {after} elements"))
                    .help("write small numbers that are not negative, such as halo = (1, 1)"));
            };
            modes[index] = Layout::new(wide, Value::Basis { times, path })?;
            let along = usize::from(path.steps()[0]);
            view.base[along] = view.base[along].plus(&before.into(), -times).ok_or_else(too_far)?;
        }
        view.layout = Layout::from_modes(modes)?;
        Ok(view)
    }
}
