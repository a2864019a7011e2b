//! The coordinates of a statement's elements in the user's tensors, and which of them are out of bounds.

use tilewright_layout::{Symbol, Value};

use crate::values::affine::Affine;

/// What [`crate::passes::origin`] finds out about a statement.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Elements {
    /// Its edges: elements outside are left out.
    pub(crate) masks: Vec<Edge>,
    /// The coordinates that its function reads.
    pub(crate) coordinates: Coordinates,
    /// The coordinates of each tile's elements, if the author claims a value for out-of-bounds elements.
    pub(crate) claims: Vec<Vec<Along>>,
}

impl Elements {
    /// The coordinates that its code computes.
    pub(crate) fn used(&self) -> impl Iterator<Item = &Edge> {
        self.masks.iter().chain(self.coordinates.iter().flatten())
    }

    /// Does its code depend on this size?
    pub(crate) fn mentions(&self, size: Symbol) -> bool {
        self.used().any(|edge| edge.mentions(size))
    }
}

/// A coordinate of a fragment's elements and its bound: `0..end` is in bounds.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    /// The user's name of the coordinate.
    pub(crate) name: String,
    pub(crate) base: Affine,
    /// For each mode of the fragment its submodes, leftmost first: extent and stride.
    pub(crate) modes: Vec<Vec<(i64, i64)>>,
    pub(crate) end: Value,
    /// Are negative coordinates in bounds? Elements before a tile that threads do not divide are accessed, as a slice may
    /// name them.
    pub(crate) only_above: bool,
}

impl PartialEq for Edge {
    /// Names are ignored: two tensors may share a coordinate.
    fn eq(&self, other: &Edge) -> bool {
        (&self.base, &self.modes, &self.end, self.only_above)
            == (&other.base, &other.modes, &other.end, other.only_above)
    }
}

impl Edge {
    /// Does it depend on this size?
    pub(crate) fn mentions(&self, size: Symbol) -> bool {
        let end = matches!(self.end, Value::Sym { of, .. } if of == size);
        end || self.base.symbols().contains(&size)
    }
}

/// A coordinate of elements, and whether elements that differ in it are combined.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Along {
    pub(crate) edge: Edge,
    pub(crate) combined: bool,
}

/// For each mode of a fragment the coordinate of its elements, if it is known.
pub(crate) type Coordinates = Vec<Option<Edge>>;
