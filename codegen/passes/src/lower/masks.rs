//! Masks: conditions that an element is in bounds, for reductions, scans and scatters; and claims of authors about elements
//! that are out of bounds.

use super::Lower;
use crate::thread::index::Ix;
use crate::thread::{Claim, Op, Val};
use crate::tile::elements::{Along, Edge};
use crate::tile::view::View;
use crate::tile::view::leaf::leaves;
use crate::values::elem::Elem;
use crate::values::number::Number;

impl Lower<'_> {
    /// The condition that an element, given by its coordinates in the fragment, is inside all edges.
    pub(super) fn inside(&mut self, edges: &[Edge], coordinates: &[Ix]) -> Option<Ix> {
        let all = self.int(1);
        let mut guard = all;
        for edge in edges {
            if edge.part.is_empty() {
                guard = self.and_inside(guard, edge, coordinates);
                continue;
            }
            let part = edge.part.iter().fold(all, |part, of| self.and_inside(part, of, coordinates));
            let inside = self.and_inside(all, edge, coordinates);
            let outside = self.exprs().not(inside);
            let outside = self.exprs().all(part, outside);
            let inside = self.exprs().not(outside);
            guard = self.exprs().all(guard, inside);
        }
        (self.kernel.exprs.constant(guard) != Some(1)).then_some(guard)
    }

    /// Conjoins a condition with that an element is inside an edge, whatever part the edge applies to.
    fn and_inside(&mut self, condition: Ix, edge: &Edge, coordinates: &[Ix]) -> Ix {
        let (at, end) = (self.coordinate_at(edge, coordinates), self.value(edge.end));
        let at = self.start_of_vector(at, end);
        match edge.only_above {
            true => self.and_below(condition, at, end),
            false => self.and_within(condition, at, end),
        }
    }

    /// States that a value is a number where the element of the view is out of bounds by a coordinate along which elements are
    /// combined. The claim names no integers, so that the source is the same without it.
    pub(super) fn claim(&mut self, value: &Val, all: &[Along], view: &View, at: &[Ix], number: Number) {
        let coordinates = self.coordinates(view, &leaves(view), at);
        let (mut inside, mut kept, mut all_at) = (self.int(1), self.int(1), Vec::new());
        for Along { edge, combined } in all {
            let base = self.affine(&edge.base);
            let (at, end) = (self.along(edge, base, &coordinates), self.value(edge.end));
            let within = self.exprs().within(at, end);
            let bounds = if *combined { &mut inside } else { &mut kept };
            *bounds = self.kernel.exprs.all(*bounds, within);
            all_at.push(at);
        }
        let exprs = &mut self.kernel.exprs;
        let outside = exprs.not(inside);
        let outside = exprs.all(kept, outside);
        let inside = exprs.not(outside);
        if exprs.constant(inside) != Some(1) {
            self.emit(Op::Claim(Claim { value: value.clone(), inside, number, at: all_at, strict: false }));
        }
    }

    /// States for strict runs that the indices of an element are in bounds, or that one of them is -1. The element is of a tile with
    /// these coordinates; where they are out of bounds, its indices do not matter.
    pub(super) fn indexed(&mut self, indices: Vec<Ix>, guard: Ix, own: &[Along], coordinates: &[Ix]) {
        let (none, mut wrong) = (self.int(-1), self.exprs().not(guard));
        for &index in &indices {
            let is_none = self.exprs().eq(index, none);
            let named = self.exprs().not(is_none);
            wrong = self.exprs().all(wrong, named);
        }
        for Along { edge, .. } in own {
            let base = self.affine(&edge.base);
            let (at, end) = (self.along(edge, base, coordinates), self.value(edge.end));
            let within = self.exprs().within(at, end);
            wrong = self.exprs().all(wrong, within);
        }
        let (inside, value) = (self.exprs().not(wrong), Val::lit(0, Elem::I32));
        let claim = Claim { value, inside, number: Number::Int(-1), at: indices, strict: true };
        self.emit(Op::Claim(claim));
    }

    /// A coordinate of an element, by its coordinates in the fragment.
    pub(super) fn coordinate_at(&mut self, of: &Edge, coordinates: &[Ix]) -> Ix {
        let (invariant, varying) = self.split_invariant(&of.base);
        let invariant = self.affine(&invariant);
        let invariant = self.name(invariant, &of.name);
        let varying = self.affine(&varying);
        let base = self.exprs().add(invariant, varying);
        self.along(of, base, coordinates)
    }

    /// The same from where it begins.
    fn along(&mut self, of: &Edge, base: Ix, coordinates: &[Ix]) -> Ix {
        let mut at = base;
        for (submodes, &coordinate) in of.modes.iter().zip(coordinates) {
            let indices = self.submodes(submodes.iter().map(|&(extent, _)| extent.into()), coordinate);
            at = self.strided(at, &indices, submodes.iter().map(|&(_, step)| step.into()));
        }
        at
    }
}
