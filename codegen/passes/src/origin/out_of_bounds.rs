//! Edges: the analysis of a tensor's out-of-bounds elements, as values that join where paths of control meet. The
//! effect of statements on them is in [`super`].

use std::collections::HashMap;
use std::ops::Range;

use tilewright_layout::Value;

use crate::thread::Id;
use crate::tile::Across;
use crate::tile::elements::Edge;
use crate::tile::view::View;
use crate::values::affine::{Affine, Coord};
use crate::values::target::BLOCK_THREADS;

/// A coordinate of a tensor's elements along a mode.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Coordinate {
    /// It is known.
    At(Edge),
    /// There is none, as along a mode in which a row is repeated; since this statement, if one has left none.
    Unknown(Option<Id>),
    /// This statement has combined elements of different coordinates. The first one is kept for claims.
    Mixed(Edge, Id),
}

impl Coordinate {
    /// It, if it is known.
    pub(super) fn known(&self) -> Option<&Edge> {
        if let Coordinate::At(edge) = self { Some(edge) } else { None }
    }

    /// The coordinate of a view or of a tensor, from the other one's; unknown if it has none there.
    pub(super) fn and_then(self, view: impl FnOnce(Edge) -> Option<Edge>) -> Coordinate {
        match self {
            Coordinate::At(edge) => view(edge).map_or(Coordinate::Unknown(None), Coordinate::At),
            Coordinate::Mixed(edge, by) => {
                view(edge).map_or(Coordinate::Unknown(Some(by)), |edge| Coordinate::Mixed(edge, by))
            }
            unknown => unknown,
        }
    }

    /// The join of two control-flow paths.
    fn join(&self, other: &Coordinate) -> Coordinate {
        match (self, other) {
            (Coordinate::Mixed(..), _) => self.clone(),
            (_, Coordinate::Mixed(..)) => other.clone(),
            (Coordinate::At(x), Coordinate::At(y)) if x == y => self.clone(),
            (Coordinate::Unknown(Some(_)), _) => self.clone(),
            (_, Coordinate::Unknown(Some(_))) => other.clone(),
            _ => Coordinate::Unknown(None),
        }
    }

    fn moves(&self, moves: &dyn Fn(&Edge) -> bool) -> bool {
        matches!(self, Coordinate::At(edge) | Coordinate::Mixed(edge, _) if moves(edge))
    }
}

impl From<Option<Edge>> for Coordinate {
    fn from(edge: Option<Edge>) -> Coordinate {
        edge.map_or(Coordinate::Unknown(None), Coordinate::At)
    }
}

/// For each mode of a tensor or of a view the coordinate of its elements.
pub(super) type Coordinates = Vec<Coordinate>;

/// The analysis of a tensor.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct OutOfBounds {
    /// Its edges: empty if no element is out of bounds, `None` if unknown.
    pub(super) edges: Option<Vec<Edge>>,
    /// The value of every out-of-bounds element, or of all elements right after a fill.
    pub(super) contents: Option<f64>,
    /// The value of a fill before the loop, if the tensor may still be as that left it, with no element out
    /// of bounds.
    pub(super) begun: Option<f64>,
    /// The value of its out-of-bounds elements, if a function has computed them all from known values.
    pub(super) computed: Option<f64>,
    /// Its coordinates; `None` if it corresponds to no tensor's elements, as after a fill.
    pub(super) at: Option<Coordinates>,
    /// The loop nesting depth at which its oldest part was written.
    pub(super) age: usize,
    /// Has it only been filled, on all paths?
    pub(super) filled: bool,
    /// Are edges known, here or in a tensor that it was computed from, if a loop has an iteration, which it may not?
    pub(super) if_runs: bool,
    /// What is known about its parts, which do not overlap, if statements have written parts of a shared tensor.
    pub(super) parts: Vec<(Region, OutOfBounds)>,
}

/// A part of a tensor: its elements along each mode.
pub(super) type Region = Vec<Range<i64>>;

impl OutOfBounds {
    pub(super) const NONE: OutOfBounds = OutOfBounds::with(Some(Vec::new()), None);
    pub(super) const UNKNOWN: OutOfBounds = OutOfBounds::with(None, Some(Vec::new()));

    const fn with(edges: Option<Vec<Edge>>, at: Option<Coordinates>) -> OutOfBounds {
        let (contents, begun, computed, filled) = (None, None, None, false);
        OutOfBounds {
            edges,
            contents,
            begun,
            computed,
            at,
            age: 0,
            filled,
            if_runs: false,
            parts: Vec::new(),
        }
    }

    pub(super) fn is_none(&self) -> bool {
        self.edges.as_ref().is_some_and(Vec::is_empty)
    }

    /// The value of its out-of-bounds elements, if it is known.
    pub(super) fn value(&self) -> Option<f64> {
        self.computed.or(self.filled_with())
    }

    /// The same where statements have filled them, and a fill before a loop has left none.
    pub(super) fn filled_with(&self) -> Option<f64> {
        self.contents.filter(|_| self.begun.is_none())
    }

    /// Does the analysis depend on a loop or a condition?
    pub(super) fn depends_on_path(&self) -> bool {
        self.if_runs || self.begun.is_some() && self.edges.is_some()
    }

    fn forget(&mut self, moves: &dyn Fn(&Edge) -> bool) {
        if self.edges.as_ref().is_some_and(|edges| edges.iter().any(moves)) {
            self.edges = None;
        }
        for at in self.at.iter_mut().flatten().filter(|at| at.moves(moves)) {
            *at = Coordinate::Unknown(None);
        }
        self.parts.iter_mut().for_each(|(_, part)| part.forget(moves));
    }

    /// Is it as a fill with a known value leaves it: no element is out of bounds?
    fn is_fill(&self) -> bool {
        self.is_none() && self.contents.is_some()
    }

    /// The join of two control-flow paths: the facts of both.
    pub(super) fn join(&self, other: &OutOfBounds) -> OutOfBounds {
        let contents = match (self.contents, other.contents) {
            (x, y) if x == y => x,
            (x, None) if other.is_none() => x,
            (None, y) if self.is_none() => y,
            _ => None,
        };
        let (edges, begun) = match (&self.edges, &other.edges) {
            (x, y) if x == y => (x.clone(), agreed(self.begun, other.begun)),
            (Some(_), edges) if self.is_fill() => (edges.clone(), agreed(self.contents, other.begun)),
            (edges, Some(_)) if other.is_fill() => (edges.clone(), agreed(self.begun, other.contents)),
            _ => (None, Some(None)),
        };
        let at = match (&self.at, &other.at) {
            (None, at) | (at, None) => at.clone(),
            (Some(x), Some(y)) => Some(same_coordinates(x, y)),
        };
        let edges = edges.filter(|_| begun.is_some());
        let (age, filled) = (self.age.min(other.age), self.filled && other.filled);
        let computed = self.computed.filter(|_| self.computed == other.computed);
        let if_runs = self.if_runs || other.if_runs;
        let mut parts = Vec::new();
        if self.parts.iter().map(|(of, _)| of).eq(other.parts.iter().map(|(of, _)| of)) {
            let both = self.parts.iter().zip(&other.parts);
            parts.extend(both.map(|((of, own), (_, other))| (of.clone(), own.join(other))));
        }
        OutOfBounds { edges, contents, begun: begun.flatten(), computed, at, age, filled, if_runs, parts }
    }

    /// The facts of a tensor of this shape after a part of it has been written; `before` if it may have been written before.
    pub(super) fn with_part(
        before: Option<&OutOfBounds>,
        region: Region,
        part: OutOfBounds,
        whole: &Region,
    ) -> OutOfBounds {
        if region == *whole {
            return part;
        }
        let mut parts = match before {
            None => Vec::new(),
            Some(of) if of.parts.is_empty() => vec![(whole.clone(), of.clone())],
            Some(of) => of.parts.clone(),
        };
        let rest = |(of, known): (Region, OutOfBounds)| {
            difference(of, &region).into_iter().map(move |rest| (rest, known.clone()))
        };
        parts = parts.into_iter().flat_map(rest).collect();
        parts.push((region, part));
        OutOfBounds::union(parts, whole)
    }

    /// The facts of a tensor from its parts' facts.
    fn union(parts: Vec<(Region, OutOfBounds)>, whole: &Region) -> OutOfBounds {
        let all = || parts.iter().map(|(_, of)| of);
        let size = |region: &Region| region.iter().map(|of| of.end - of.start).product::<i64>();
        let written: i64 = parts.iter().map(|(of, _)| size(of)).sum();
        let mut regions: Vec<(&Edge, Vec<&Region>)> = Vec::new();
        for (region, edge) in
            parts.iter().flat_map(|(region, of)| of.edges.iter().flatten().map(move |edge| (region, edge)))
        {
            match regions.iter_mut().find(|(known, _)| *known == edge) {
                Some((_, regions)) => regions.push(region),
                None => regions.push((edge, vec![region])),
            }
        }
        let mut edges = Vec::new();
        for (edge, regions) in regions {
            match regions.iter().map(|of| size(of)).sum::<i64>() == written {
                true => edges.push(edge.clone()),
                false => edges.extend(regions.into_iter().map(|region| in_region(edge, region, whole))),
            }
        }
        let mut begun = Some(None);
        all().for_each(|of| begun = begun.and_then(|begun| agreed(begun, of.begun)));
        let are_known = begun.is_some() && all().all(|of| of.edges.is_some());
        // Elements that are in bounds have other values, unless all parts have been filled.
        let some_outside = all().any(|of| !of.is_none());
        let mut contents = all().filter(|of| !some_outside || !of.is_none()).map(|of| of.contents);
        let first = contents.next().flatten();
        let contents = first.filter(|first| contents.all(|other| other == Some(*first)));
        let mut at = None;
        for known in all().filter_map(|of| of.at.as_ref()) {
            at = Some(match at {
                None => known.clone(),
                Some(at) => same_coordinates(&at, known),
            });
        }
        let age = all().map(|of| of.age).min().unwrap_or(0);
        let filled = all().all(|of| of.filled);
        let if_runs = all().any(|of| of.if_runs);
        let (edges, begun, computed) = (are_known.then_some(edges), begun.flatten(), None);
        OutOfBounds { edges, contents, begun, computed, at, age, filled, if_runs, parts }
    }
}

/// Where both have the same coordinates.
fn same_coordinates(x: &Coordinates, y: &Coordinates) -> Coordinates {
    x.iter().zip(y).map(|(x, y)| x.join(y)).collect()
}

/// An edge of the elements of a region.
fn in_region(edge: &Edge, region: &Region, whole: &Region) -> Edge {
    let mut edge = edge.clone();
    for (mode, (part, whole)) in
        region.iter().zip(whole).enumerate().filter(|(_, (part, whole))| part != whole)
    {
        let mut modes = vec![Vec::new(); region.len()];
        modes[mode] = vec![(whole.end, 1)];
        let end = Value::Int(part.end - part.start);
        edge.part.push(Edge::new(edge.name.clone(), (-part.start).into(), modes, end));
    }
    edge
}

/// The elements of a region that are not in the other one, as regions.
fn difference(mut of: Region, other: &Region) -> Vec<Region> {
    if of.iter().zip(other).any(|(of, other)| of.end <= other.start || other.end <= of.start) {
        return vec![of];
    }
    let mut all = Vec::new();
    for (mode, other) in other.iter().enumerate() {
        for part in [of[mode].start..other.start, other.end..of[mode].end] {
            if !part.is_empty() {
                let mut rest = of.clone();
                rest[mode] = part;
                all.push(rest);
            }
        }
        of[mode] = of[mode].start.max(other.start)..of[mode].end.min(other.end);
    }
    all
}

/// The value of both, or of the one that has a value; `None` if they differ.
fn agreed(x: Option<f64>, y: Option<f64>) -> Option<Option<f64>> {
    match (x, y) {
        (Some(x), Some(y)) if x != y => None,
        (x, y) => Some(x.or(y)),
    }
}

/// The analysis of each tensor that may have been written.
/// Over what a statement combines the elements of its tiles.
#[derive(Clone, Copy)]
pub(super) struct CombinedOver<'a> {
    /// The modes.
    pub(super) modes: &'a dyn Fn(usize) -> bool,
    /// The threads.
    pub(super) across: &'a [Across],
}

pub(super) type State = HashMap<Id, OutOfBounds>;

pub(super) fn join(mut both: State, other: &State) -> State {
    for (id, outside) in other {
        let joined = both.get(id).map_or_else(|| outside.clone(), |known| known.join(outside));
        both.insert(*id, joined);
    }
    both
}

/// Forgets edges that depend on a loop's variable, which differ after the loop and in its next iteration, or on an
/// integer that is read again.
pub(super) fn forget(state: &mut State, changes: &dyn Fn(&Coord) -> bool) {
    let moves = |edge: &Edge| edge.moves(changes);
    state.values_mut().for_each(|outside| outside.forget(&moves));
}

/// For each mode of a view the digits that run along a mode of its tensor: extent and stride.
pub(super) fn along(view: &View, mode: usize) -> Vec<Vec<(i64, i64)>> {
    let submodes = |part: tilewright_layout::Layout| {
        part.leaves()
            .map(|(extent, stride)| match stride {
                Value::Basis { times, path } if usize::from(path.steps()[0]) == mode => {
                    (extent.int().unwrap_or(1), times)
                }
                _ => (extent.int().unwrap_or(1), 0),
            })
            .collect()
    };
    view.layout.modes().map(submodes).collect()
}

/// All edges, without duplicates.
pub(super) fn union(all: Vec<Vec<Edge>>) -> Vec<Edge> {
    let mut union: Vec<Edge> = Vec::new();
    for edge in all.into_iter().flatten() {
        if !union.contains(&edge) {
            union.push(edge);
        }
    }
    union
}

/// An edge of a fragment as an edge of a view of it.
pub(super) fn taken_over(edge: Edge, view: &View) -> Option<Edge> {
    edge.try_map(&|edge| coordinate_in(edge, view))
}

/// The same of one coordinate.
fn coordinate_in(edge: Edge, view: &View) -> Option<Edge> {
    let mut base = edge.base.clone();
    let mut modes: Vec<Vec<(i64, i64)>> = view
        .layout
        .modes()
        .map(|mode| mode.leaves().map(|(n, _)| (n.int().unwrap_or(1), 0)).collect())
        .collect();
    for (mode, submodes) in edge.modes.iter().enumerate() {
        match submodes[..] {
            [] => {}
            // One stride: any view of it has one too.
            [(_, step)] => {
                base = base.plus(&view.base[mode], step)?;
                for (to, from) in modes.iter_mut().zip(along(view, mode)) {
                    if from.iter().all(|submode| submode.1 == 0) {
                        continue;
                    }
                    // Another mode of the fragment may have contributed digits here, split differently.
                    if to.len() != from.len() {
                        return None;
                    }
                    to.iter_mut().zip(from).for_each(|(to, from)| to.1 += from.1 * step);
                }
            }
            // Several submodes: the whole mode is one mode of the view, or each submode is.
            _ => {
                let extent: i64 = submodes.iter().map(|submode| submode.0).product();
                let mut shown = along(view, mode)
                    .into_iter()
                    .enumerate()
                    .filter(|(_, part)| part.iter().any(|d| d.1 != 0));
                let (index, part) = shown.next()?;
                let taken = modes[index].iter().any(|submode| submode.1 != 0);
                if shown.next().is_some() || taken || view.base[mode] != Affine::default() {
                    return None;
                }
                modes[index] = match part[..] == [(extent, 1)] {
                    true => submodes.clone(),
                    false => part
                        .iter()
                        .map(|leaf| Some((leaf.0, step_of(submodes, leaf.0, leaf.1)?)))
                        .collect::<Option<_>>()?,
                };
            }
        }
    }
    Some(Edge { base, modes, ..edge })
}

/// The step of a leaf of a view that runs through a mode of these digits.
fn step_of(submodes: &[(i64, i64)], extent: i64, by: i64) -> Option<i64> {
    let mut below = 1;
    for (count, step) in submodes {
        // It remains within this submode.
        if by % below == 0 && by / below * extent <= *count {
            return Some(by / below * step);
        }
        below *= count;
    }
    (extent == 1 || by == 0).then_some(0)
}

/// Do threads that are combined have different values of this?
pub(super) fn apart(base: &Affine, across: Across) -> bool {
    let lanes = match across {
        Across::Thread => return false,
        Across::Warp(lanes) => Some(i64::from(lanes)),
        Across::Block | Across::Cluster(_) | Across::Blocks(_) => None,
        Across::Submodes(_) => {
            // Evaluated for every thread: does it equal the value in the first thread of its group?
            let at = |thread: u32| {
                let lookup = |coord: &Coord| i64::from(matches!(coord, Coord::Thread(_))) * i64::from(thread);
                base.eval(&lookup)
            };
            return (0..BLOCK_THREADS).any(|thread| at(thread) != at(across.first(thread)));
        }
    };
    let blocks = match across {
        Across::Cluster(blocks) | Across::Blocks(blocks) => Some(i64::from(blocks)),
        Across::Thread | Across::Warp(_) | Across::Block | Across::Submodes(_) => None,
    };
    base.terms.iter().any(|(coord, _)| match coord {
        Coord::Thread(_) | Coord::Swizzled(..) => true,
        Coord::Block(_) | Coord::ClusterRank => blocks.is_some(),
        // The index of a group of lanes, or of a cluster, is uniform within it.
        Coord::Submode { of, over, .. } => match (lanes, blocks, &of.terms[..]) {
            (Some(lanes), _, [(Coord::Thread(_), 1)]) if of.constant == 0 && over % lanes == 0 => false,
            (_, Some(blocks), [(Coord::Block(_), 1)]) if of.constant == 0 && over % blocks == 0 => false,
            _ => of.any(&|coord| match coord {
                Coord::Block(_) | Coord::ClusterRank => blocks.is_some(),
                coord => matches!(coord, Coord::Thread(_)),
            }),
        },
        coord => Affine::from(coord.clone()).per_thread(),
    })
}
