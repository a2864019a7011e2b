//! Views beyond the bounds of tiles and tensors: shifted, with a halo, clamped.

use tilewright_layout::{Layout, Value};

use super::View;
use crate::affine::Affine;
use crate::problem::{Problem, Result};

impl View {
    /// The same with out-of-bounds coordinates along a mode clamped, for readers that ignore those elements:
    /// reads need no guard.
    pub fn clamped(mut self, mode: usize) -> View {
        if !self.clamped.contains(&mode) {
            self.clamped.push(mode);
        }
        self
    }

    /// The same with others read instead, from the first on. Where copies bypass the L1 cache and all blocks at an edge read the
    /// last row again and again, they wait for one slice of the L2 cache.
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

    /// The view shifted by so many elements along each mode, in the same shape.
    pub fn shift(&self, by: &[Affine]) -> Result<View> {
        if by.len() != self.rank() {
            return Err(Problem::new(format!(
                "`{}` has {} modes, {}, and the shift names {}",
                self.name,
                self.rank(),
                self.shape(),
                by.len()
            ))
            .help("write one number for each mode, 0 for those that stay")
            .arg(1));
        }
        let mut view = self.clone();
        for (place, (mode, by)) in self.layout.modes().zip(by).enumerate() {
            if by.constant() == Some(0) {
                continue;
            }
            let [(_, Value::Basis { times, path })] = mode.leaves().collect::<Vec<_>>()[..] else {
                return Err(Problem::new(format!(
                    "mode {place} of `{}` has the shape {}, and its elements are not equally far apart",
                    self.name,
                    mode.shape()
                ))
                .help("shift the tile, then partition it")
                .arg(1));
            };
            let along = usize::from(path.steps()[0]);
            let far = || Problem::new("a coordinate passes 63 bits");
            view.base[along] = view.base[along].plus(by, times).ok_or_else(far)?;
            if let Some((origin, _)) = &mut view.limits[along] {
                *origin = origin.plus(by, times).ok_or_else(far)?;
            }
        }
        Ok(view)
    }

    /// The same with a halo along its first modes: so many elements more before and after.
    pub fn with_halo(&self, halo: &[(i64, i64)]) -> Result<View> {
        let mut view = self.clone();
        let mut modes: Vec<Layout> = self.layout.modes().collect();
        for (place, &(before, after)) in halo.iter().enumerate() {
            if (before, after) == (0, 0) {
                continue;
            }
            let leaves: Vec<(Value, Value)> =
                modes.get(place).map_or(Vec::new(), |mode| mode.leaves().collect());
            let [(Value::Int(extent), Value::Basis { times, path })] = leaves[..] else {
                return Err(Problem::new(format!(
                    "mode {place} of `{}`, {}, cannot have a halo",
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
            modes[place] = Layout::new(wide, Value::Basis { times, path })?;
            let along = usize::from(path.steps()[0]);
            view.base[along] = view.base[along]
                .plus(&before.into(), -times)
                .ok_or_else(|| Problem::new("a coordinate passes 63 bits"))?;
        }
        view.layout = Layout::from_modes(modes)?;
        Ok(view)
    }
}
