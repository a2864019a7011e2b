//! The origin of a tensor's elements: coordinates of the user's tensors, through copies, functions and
//! products.

use std::rc::Rc;

use tilewright_layout::Value;

use super::coordinate_function::{Function, Verdict};
use crate::thread::Id;
use crate::tile::view::View;
use crate::view_elements::{Budget, Mask};

/// One coordinate that elements come from.
#[derive(Clone, Debug)]
pub(super) struct Axis<F> {
    /// The extent that it runs along: two coordinates correspond where this is the same.
    pub(super) extent: Value,
    /// The global tensor and its mode.
    pub(super) of: (Id, usize),
    /// The view that read it, for messages.
    pub(super) through: Through,
    /// The function that gives it; `None` if that is not known.
    pub(super) at: Option<F>,
}

/// A view that was read: of global memory, or an operand of a product.
#[derive(Clone, Debug)]
pub(super) struct Through {
    pub(super) view: Rc<str>,
    pub(super) tensor: Id,
    pub(super) operand: bool,
}

impl Through {
    pub(super) fn of(view: &View) -> Through {
        Through { view: view.name.as_str().into(), tensor: view.tensor, operand: false }
    }
}

/// All coordinates of a tensor's elements.
#[derive(Clone, Debug)]
pub(super) struct Coordinates<F> {
    pub(super) axes: Vec<Axis<F>>,
    /// Are they sums of products?
    pub(super) sums: bool,
}

/// The analysis of a tensor.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) enum Origin<F> {
    /// Only constants were written, which have no coordinates.
    #[default]
    Any,
    /// It cannot be followed.
    Unknown,
    /// Elements come from these coordinates.
    Known(Coordinates<F>),
}

impl<F: PartialEq> PartialEq for Axis<F> {
    fn eq(&self, other: &Self) -> bool {
        self.extent == other.extent && self.of == other.of && self.at == other.at
    }
}

impl<F: PartialEq> PartialEq for Coordinates<F> {
    fn eq(&self, other: &Self) -> bool {
        self.sums == other.sums && self.axes == other.axes
    }
}

impl<F> Origin<F> {
    /// The origin where the coordinates are known; it is unknown if they have no others.
    pub(super) fn and_then<G>(
        &self,
        others: impl FnOnce(&Coordinates<F>) -> Option<Coordinates<G>>,
    ) -> Origin<G> {
        match self {
            Origin::Any => Origin::Any,
            Origin::Unknown => Origin::Unknown,
            Origin::Known(coordinates) => others(coordinates).map_or(Origin::Unknown, Origin::Known),
        }
    }
}

impl<F: Clone + PartialEq> Origin<F> {
    /// The join of two states: the facts of both paths.
    pub(super) fn join(&self, other: &Origin<F>) -> Origin<F> {
        match (self, other) {
            (Origin::Any, known) | (known, Origin::Any) => known.clone(),
            (Origin::Known(x), Origin::Known(y)) => x.join(y).map_or(Origin::Unknown, Origin::Known),
            _ => Origin::Unknown,
        }
    }
}

impl<F: Clone + PartialEq> Coordinates<F> {
    fn join(&self, other: &Coordinates<F>) -> Option<Coordinates<F>> {
        let alike = |(x, y): (&Axis<F>, &Axis<F>)| x.extent == y.extent && x.of == y.of;
        if self.axes.len() != other.axes.len() || !self.axes.iter().zip(&other.axes).all(alike) {
            return None;
        }
        let both = self
            .axes
            .iter()
            .zip(&other.axes)
            .map(|(x, y)| Axis { at: x.at.clone().filter(|_| x.at == y.at), ..x.clone() });
        Some(Coordinates { axes: both.collect(), sums: self.sums || other.sums })
    }
}

impl<F> Coordinates<F> {
    /// The same coordinates with other functions.
    pub(super) fn each<G>(&self, mut at: impl FnMut(&F) -> Option<G>) -> Coordinates<G> {
        let axes = self.axes.iter().map(|axis| Axis {
            extent: axis.extent,
            of: axis.of,
            through: axis.through.clone(),
            at: axis.at.as_ref().and_then(&mut at),
        });
        Coordinates { axes: axes.collect(), sums: self.sums }
    }
}

/// The origin of a function's result: all coordinates of its inputs, equal ones once.
///
/// If two elements of one tensor at different coordinates are combined, as in a stencil or a sorting
/// network, the origin of the result is not known.
pub(super) fn combined(ins: &[Origin<Function>], threads: u32, budget: &mut Budget) -> Origin<Function> {
    let mut all: Option<Coordinates<Function>> = None;
    let several = ins.iter().filter(|origin| **origin != Origin::Any).count() > 1;
    for origin in ins {
        let mut coordinates = match origin {
            Origin::Any => continue,
            Origin::Unknown => return Origin::Unknown,
            Origin::Known(coordinates) => coordinates.clone(),
        };
        if several && !coordinates.sums {
            // Constants are broadcast.
            coordinates.axes.retain(|axis| axis.at.as_ref().is_some_and(|at| !at.is_constant()));
        }
        all = Some(match all {
            None => coordinates,
            Some(all) => united(all, coordinates, threads, budget),
        });
    }
    all.map_or(Origin::Any, Origin::Known)
}

fn united(
    mut all: Coordinates<Function>,
    more: Coordinates<Function>,
    threads: u32,
    budget: &mut Budget,
) -> Coordinates<Function> {
    let known = all.axes.len();
    let mut met = vec![false; known];
    let mut alone = Vec::new();
    for axis in more.axes {
        let mut agrees = |other: &Axis<Function>| {
            other.extent == axis.extent
                && match (&other.at, &axis.at) {
                    (Some(x), Some(y)) => x.compare(y, &Mask::default(), threads, budget) == Verdict::Same,
                    (None, None) => other.of == axis.of,
                    _ => false,
                }
        };
        match (0..known).find(|&index| agrees(&all.axes[index])) {
            Some(index) => met[index] = true,
            None => alone.push(axis),
        }
    }
    for axis in alone {
        match (0..known).find(|&index| !met[index] && all.axes[index].of == axis.of) {
            Some(index) => all.axes[index].at = None,
            None => all.axes.push(axis),
        }
    }
    all.sums |= more.sums;
    all
}
