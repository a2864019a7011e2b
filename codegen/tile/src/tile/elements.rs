//! The coordinates of a statement's elements in the user's tensors, and which of them are out of bounds.

use tilewright_layout::{Symbol, Value};

use crate::values::affine::{Affine, Coord};

/// What the pass `origin` finds out about a statement.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct ElementFacts {
    /// Its edges: elements outside are left out.
    pub masks: Vec<Edge>,
    /// The coordinates that its function reads.
    pub coordinates: Coordinates,
    /// The coordinates of each tile's elements, if the author claims a value for out-of-bounds elements.
    pub claims: Vec<Vec<Along>>,
}

impl ElementFacts {
    /// The coordinates that its code computes.
    pub fn used(&self) -> impl Iterator<Item = &Edge> {
        self.masks.iter().chain(self.coordinates.iter().flatten())
    }

    /// Does its code depend on this size?
    pub fn mentions(&self, size: Symbol) -> bool {
        self.used().any(|edge| edge.mentions(size))
    }
}

/// A coordinate of a fragment's elements and its bound: `0..end` is in bounds.
#[derive(Clone, Debug)]
pub struct Edge {
    /// The user's name of the coordinate.
    pub name: String,
    /// The coordinate of the first element.
    pub base: Affine,
    /// For each mode of the fragment its submodes, leftmost first: extent and stride.
    pub modes: Vec<Vec<(i64, i64)>>,
    /// Where the tensor ends.
    pub end: Value,
    /// Are negative coordinates in bounds? Elements before a tile that threads do not divide are accessed, as a slice may
    /// name them.
    pub only_above: bool,
    /// The part of the fragment to which it applies: the elements in bounds of all of these; empty for the whole fragment.
    pub part: Vec<Edge>,
}

impl PartialEq for Edge {
    /// Names are ignored: two tensors may share a coordinate.
    fn eq(&self, other: &Edge) -> bool {
        (&self.base, &self.modes, &self.end, self.only_above, &self.part)
            == (&other.base, &other.modes, &other.end, other.only_above, &other.part)
    }
}

impl Edge {
    /// Does it depend on this size?
    pub fn mentions(&self, size: Symbol) -> bool {
        let end = matches!(self.end, Value::Sym { of, .. } if of == size);
        end || self.base.symbols().contains(&size)
    }

    /// Is it the same, however digits of one element are written?
    pub fn is_same(&self, other: &Edge) -> bool {
        (self.end, self.only_above) == (other.end, other.only_above) && self.is_same_coordinate(other)
    }

    /// Is it the same coordinate, wherever the tensors end?
    pub fn is_same_coordinate(&self, other: &Edge) -> bool {
        let run = |modes: &[Vec<(i64, i64)>]| -> Vec<Vec<(i64, i64)>> {
            let run = |submodes: &Vec<(i64, i64)>| {
                submodes.iter().copied().filter(|(n, step)| *n > 1 && *step != 0).collect()
            };
            modes.iter().map(run).collect()
        };
        self.base == other.base
            && run(&self.modes) == run(&other.modes)
            && self.part.len() == other.part.len()
            && self.part.iter().zip(&other.part).all(|(own, other)| own.is_same(other))
    }

    /// Is it the same coordinate of some elements at another offset, like a tile's and the shifted tile's?
    pub fn is_shifted(&self, other: &Edge) -> bool {
        let is_apart = || self.part.iter().any(|own| other.part.iter().any(|other| own.is_disjoint(other)));
        self.distance(other).is_some_and(|distance| distance != 0) && self.end == other.end && !is_apart()
    }

    /// Have no elements both coordinates in bounds?
    fn is_disjoint(&self, other: &Edge) -> bool {
        let (Some(own), Some(end)) = (self.end.int(), other.end.int()) else { return false };
        self.distance(other).is_some_and(|distance| distance >= own || -distance >= end)
    }

    /// How much greater it is than the other coordinate, in all elements.
    fn distance(&self, other: &Edge) -> Option<i64> {
        self.base.plus(&other.base, -1).filter(|_| self.modes == other.modes)?.constant()
    }

    /// A coordinate with its bound.
    pub fn new(name: String, base: Affine, modes: Vec<Vec<(i64, i64)>>, end: Value) -> Edge {
        Edge { name, base, modes, end, only_above: false, part: Vec::new() }
    }

    /// Applies to its coordinate, and to its part's coordinates.
    pub fn try_map(self, f: &dyn Fn(Edge) -> Option<Edge>) -> Option<Edge> {
        let part = self.part.iter().cloned().map(f).collect::<Option<_>>()?;
        Some(Edge { part, ..f(Edge { part: Vec::new(), ..self })? })
    }

    /// Does it depend on a coordinate of this kind?
    pub fn moves(&self, test: &dyn Fn(&Coord) -> bool) -> bool {
        self.base.any(test) || self.part.iter().any(|of| of.base.any(test))
    }

    /// Does it run along a mode of its fragment?
    pub fn runs_along(&self, mode: usize) -> bool {
        self.modes.get(mode).is_some_and(|submodes| submodes.iter().any(|(_, step)| *step != 0))
    }

    /// Does it differ among the elements of its fragment, or among threads?
    pub fn differs(&self) -> bool {
        self.base.per_thread() || (0..self.modes.len()).any(|mode| self.runs_along(mode))
    }

    /// Does its part differ along a mode of its fragment?
    pub fn parts_along(&self, mode: usize) -> bool {
        self.part.iter().any(|of| of.runs_along(mode))
    }

    /// The edge of an operand's first mode, moved to one of the two modes of the accumulator.
    pub fn moved(mut self, onto: usize) -> Edge {
        self.part = self.part.into_iter().map(|of| of.moved(onto)).collect();
        let submodes = if self.modes.is_empty() { Vec::new() } else { self.modes.swap_remove(0) };
        self.modes = match onto {
            0 => vec![submodes, Vec::new()],
            _ => vec![Vec::new(), submodes],
        };
        self
    }

    /// The coordinate of a mode of this extent, which it runs along even with extent 1.
    pub fn along_mode(mut self, mode: usize, extent: i64) -> Edge {
        if extent == 1 && self.modes[mode].is_empty() {
            self.modes[mode] = vec![(1, 1)];
        }
        self
    }
}

/// A coordinate of elements, and whether elements that differ in it are combined.
#[derive(Clone, PartialEq, Debug)]
pub struct Along {
    /// The coordinate.
    pub edge: Edge,
    /// Are elements that differ in it combined?
    pub combined: bool,
}

/// For each mode of a fragment the coordinate of its elements, if it is known.
pub type Coordinates = Vec<Option<Edge>>;
