//! Masks: conditions that an element is in bounds, for reductions, scans and scatters.

use super::Lower;
use crate::passes::origin::Edge;
use crate::thread::index::Ix;

impl Lower<'_> {
    /// The condition that an element, given by its coordinates in the fragment, is inside all edges.
    pub(super) fn inside(&mut self, edges: &[Edge], coordinates: &[Ix]) -> Option<Ix> {
        let mut guard = self.int(1);
        for edge in edges {
            let at = self.coordinate_at(edge, coordinates);
            let end = self.value(edge.end);
            let at = self.start_of_vector(at, end);
            guard = self.and_within(guard, at, end);
        }
        (self.kernel.exprs.constant(guard) != Some(1)).then_some(guard)
    }

    /// A coordinate of an element, by its coordinates in the fragment.
    pub(super) fn coordinate_at(&mut self, of: &Edge, coordinates: &[Ix]) -> Ix {
        let (invariant, varying) = self.split_invariant(&of.base);
        let invariant = self.affine(&invariant);
        let invariant = self.name(invariant, &of.name);
        let varying = self.affine(&varying);
        let mut at = self.exprs().add(invariant, varying);
        for (digits, &coordinate) in of.modes.iter().zip(coordinates) {
            let indices = self.digits(digits.iter().map(|&(extent, _)| extent.into()), coordinate);
            at = self.strided(at, &indices, digits.iter().map(|&(_, step)| step.into()));
        }
        at
    }
}
