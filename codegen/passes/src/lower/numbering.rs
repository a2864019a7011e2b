//! Layouts evaluated at coordinates that are index expressions: offsets from indices of leaves, and indices of leaves from
//! the coordinate of a mode. All numbering of elements is computed here.

use tilewright_layout::{Layout, Tuple, Value};

use super::Lower;
use crate::source::problem::Result;
use crate::thread::index::Ix;
use crate::tile::view::View;
use crate::tile::view::leaf::{Leaf, leaves};

impl Lower<'_> {
    /// A number and the sum of indices times strides.
    pub(super) fn strided(&mut self, from: Ix, at: &[Ix], strides: impl IntoIterator<Item = Value>) -> Ix {
        let mut sum = from;
        for (&at, stride) in at.iter().zip(strides) {
            let stride = self.value(stride);
            let term = self.exprs().mul(at, stride);
            sum = self.exprs().add(sum, term);
        }
        sum
    }

    /// The indices of the leaves of a mode from its coordinate, leftmost fastest; the last is the remaining quotient.
    pub(super) fn submodes(&mut self, extents: impl IntoIterator<Item = Value>, coordinate: Ix) -> Vec<Ix> {
        let mut extents = extents.into_iter().peekable();
        let (mut at, mut rest) = (Vec::new(), coordinate);
        while let Some(extent) = extents.next() {
            match extent.int().filter(|_| extents.peek().is_some()) {
                Some(n) => {
                    at.push(self.exprs().rem(rest, n));
                    rest = self.exprs().div(rest, n);
                }
                None => at.push(rest),
            }
        }
        at
    }

    /// The coordinate of a mode from the indices of its leaves, leftmost fastest.
    pub(super) fn flat(&mut self, extents: &[i64], at: &[Ix]) -> Result<Ix> {
        let layout = Layout::compact(Tuple::flat(extents))?;
        let zero = self.int(0);
        Ok(self.strided(zero, at, layout.leaves().map(|leaf| leaf.1)))
    }

    /// The coordinate of each mode of a view from the indices of its leaves.
    pub(super) fn modes_at(&mut self, view: &View, at: &[Ix]) -> Result<Vec<Ix>> {
        let (all, mut first) = (extents_of(&leaves(view)), 0);
        let mut coordinates = Vec::new();
        for mode in view.layout.modes() {
            let leaves = first..first + mode.leaves().len();
            coordinates.push(self.flat(&all[leaves.clone()], &at[leaves.clone()])?);
            first = leaves.end;
        }
        Ok(coordinates)
    }

    /// The target's indices of leaves for an element of a reduction's source: along a mode of extent 1 all elements have
    /// one index.
    pub(super) fn target_at(&mut self, from: &View, to: &View, at: &[Ix]) -> Result<Vec<Ix>> {
        let mut indices = Vec::new();
        for (coordinate, target) in self.modes_at(from, at)?.into_iter().zip(to.layout.modes()) {
            match target.size() {
                Ok(1) => indices.extend(vec![self.int(0); target.leaves().len()]),
                _ => indices.extend(self.submodes(target.leaves().map(|leaf| leaf.0), coordinate)),
            }
        }
        debug_assert_eq!(indices.len(), leaves(to).len());
        Ok(indices)
    }
}

/// The extents of leaves.
pub(super) fn extents_of(leaves: &[Leaf]) -> Vec<i64> {
    leaves.iter().map(|leaf| leaf.extent).collect()
}

/// Loops over these extents, with their names.
pub(super) fn named(extents: impl IntoIterator<Item = i64>) -> Vec<(String, i64)> {
    const NAMES: [&str; 12] = ["i", "j", "l", "m", "n", "o", "p", "q", "r", "s", "t", "u"];
    NAMES.into_iter().cycle().map(str::to_owned).zip(extents).collect()
}

/// Loops over leaves; the leaf `which` is counted in vectors of `width` elements.
pub(super) fn vectors_of(leaves: &[Leaf], which: usize, width: i64) -> Vec<(String, i64)> {
    let extent = |(at, leaf): (usize, &Leaf)| if at == which { leaf.extent / width } else { leaf.extent };
    named(leaves.iter().enumerate().map(extent))
}
