//! Out-of-bounds elements: a dataflow analysis of which elements of a fragment correspond to coordinates
//! outside of the tensor that they were copied from. A reduction masks those with its identity.
//!
//! One forward pass runs before lowering. Every register tensor has edges, which are bounds on coordinates.
//! Copies and functions propagate them. A reduction drops those along the modes that it combines, because an
//! empty reduction leaves its target unchanged. Where edges are unknown, the value of the elements beyond
//! them may still be known.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tilewright_layout::Value;

use super::Lower;
use super::beyond::{Beyond, Coordinates, Edge, State, along, apart, forget, join, taken_over, union};
use crate::atom::Atom;
use crate::diagnostic::Diagnostic;
use crate::index::Ix;
use crate::number::Number;
use crate::pair::align;
use crate::problem::{Problem, Result};
use crate::scan::Scan;
use crate::semiring::Semiring;
use crate::thread::{Bin, Id};
use crate::tile::{Across, Expr, How, Multiply, Op, Past, Space, Stmt};
use crate::view::View;

/// The results of the pass.
#[derive(Default)]
pub(super) struct Found {
    /// For each reduction the edges that mask its elements.
    pub(super) masks: HashMap<Id, Vec<Edge>>,
    /// The coordinates of the elements of functions that read them.
    pub(super) coordinates: HashMap<Id, Coordinates>,
}

/// The state of the pass.
#[derive(Default)]
struct Finder {
    /// For each reduction its masking edges, or the error if they are unknown; for products of operands with fills of their
    /// own an error if those change the result.
    masks: BTreeMap<Id, std::result::Result<Vec<Edge>, Diagnostic>>,
    /// For each function that reads coordinates those of its elements, or the error if they are unknown.
    coordinates: BTreeMap<Id, std::result::Result<Coordinates, Diagnostic>>,
    /// Loops around the current statement.
    loops: Vec<Id>,
    /// Sums whose products whole tiles have stated; see [`Op::Follows`].
    followed: Vec<Id>,
    /// See [`crate::fills::operands`].
    operands: BTreeSet<Id>,
}

impl Lower<'_> {
    /// Finds the masks of all reductions, and the coordinates that functions read.
    pub(super) fn found(&mut self, body: &[Stmt]) -> std::result::Result<Found, Diagnostic> {
        let mut asks = false;
        body.iter().for_each(|stmt| stmt.each(&mut |stmt| asks |= stmt.needs_coordinates()));
        let mut finder = Finder::default();
        if asks {
            finder.operands = crate::fills::operands(body);
            self.walk(body, &mut State::new(), &mut finder);
        }
        let first = |one: Option<(&Id, &Diagnostic)>| one.map(|(id, why)| (*id, why.clone()));
        let masks = first(finder.masks.iter().find_map(|(id, of)| Some((id, of.as_ref().err()?))));
        let coordinates =
            first(finder.coordinates.iter().find_map(|(id, of)| Some((id, of.as_ref().err()?))));
        if let Some((_, why)) = masks.into_iter().chain(coordinates).min_by_key(|(id, _)| *id) {
            return Err(why);
        }
        Ok(Found {
            masks: finder.masks.into_iter().filter_map(|(id, of)| Some((id, of.ok()?))).collect(),
            coordinates: finder.coordinates.into_iter().filter_map(|(id, of)| Some((id, of.ok()?))).collect(),
        })
    }

    fn walk(&mut self, body: &[Stmt], state: &mut State, found: &mut Finder) {
        for stmt in body {
            self.pass(stmt, state, found);
        }
    }

    fn pass(&mut self, stmt: &Stmt, state: &mut State, found: &mut Finder) {
        match &stmt.op {
            Op::Copy { from, to, how: How::Atom(_), .. } => {
                let beyond = self.known(from, state);
                let beyond = if beyond.is_nothing() { beyond } else { Beyond::UNKNOWN };
                self.update(to, beyond, state);
            }
            Op::Copy { from, to, fill, .. } => {
                self.copied(stmt.by, (from, to), *fill, (state, found.loops.len()))
            }
            Op::Fill { to, value } => {
                let holds = if let Expr::Lit(x) = value { Some(x.to_f64()) } else { None };
                self.update(to, Beyond { holds, age: found.loops.len(), ..Beyond::NOTHING }, state);
            }
            Op::Map { ins, to, value } => {
                let beyond = self.mapped(ins, to, value, (state, &found.loops));
                if value.any(&|part| matches!(part, Expr::At(_))) {
                    // Elements of no tensor have coordinates in their tile.
                    let in_tile = ins.iter().find(|view| self.program.is_coordinates(view.tensor));
                    let at = match (&beyond.at, in_tile) {
                        (None, Some(in_tile)) => self.at(in_tile, to, state),
                        (at, _) => at.clone(),
                    };
                    let at = at.unwrap_or_default();
                    let missing = (0..=u8::MAX).find(|&mode| {
                        value.any(&|part| *part == Expr::At(mode))
                            && at.get(usize::from(mode)).is_none_or(Option::is_none)
                    });
                    let known = missing.map_or(Ok(at), |mode| Err(no_coordinate(mode).at(stmt.span)));
                    found.coordinates.insert(stmt.id, known);
                }
                self.written(stmt.by, to, beyond, state);
            }
            // An element is out of bounds where the number of its place is.
            Op::Gather { at, to, .. } => {
                let ins: Vec<View> = at.iter().map(|(_, view)| view.clone()).collect();
                let all = (1..ins.len() as u8).fold(Expr::In(0), |all, next| {
                    Expr::Bin(Bin::Rem, Box::new(all), Box::new(Expr::In(next)))
                });
                let beyond = self.mapped(&ins, to, &all, (state, &found.loops));
                self.written(stmt.by, to, beyond, state);
            }
            Op::Scatter { from, at, to, beyond, .. } => {
                let all: Vec<View> = [from].into_iter().chain(at.iter().map(|(_, at)| at)).cloned().collect();
                let mask = if *beyond { Ok(Vec::new()) } else { self.mask_of_fold(&all, state) };
                let mask = mask.map_err(|why| why.help(UNKNOWN_PLACES));
                found.masks.insert(stmt.id, mask.map_err(|why| why.at(stmt.span)));
                // Elements that are out of bounds are not stored.
                self.update(to, Beyond { edges: Some(Vec::new()), ..Beyond::UNKNOWN }, state);
            }
            Op::Follows { a, b, acc } => {
                found.followed.push(acc.tensor);
                self.multiplied((a, b, acc), false, state);
            }
            Op::Holds { from, to } => {
                let edges = self.edges(from, to, state);
                let edges = edges.and_then(|all| all.into_iter().map(|edge| edge.stored(to)).collect());
                let at = self.at(from, to, state).map(|at| self.stored(at, to));
                let age = found.loops.len();
                state.insert(to.tensor, Beyond { edges, holds: Some(0.0), begun: None, at, age });
            }
            Op::Gemm { acc, how: Multiply::Atom(_), .. } if found.followed.contains(&acc.tensor) => {}
            Op::Gemm { a, b, acc, how, .. } => {
                self.check_product(stmt, state, found);
                self.multiplied((a, b, acc), matches!(how, Multiply::Atom(_)), state)
            }
            Op::Fold { from, to, across, beyond, .. } => {
                let mask = if *beyond { Ok(Vec::new()) } else { self.mask_of_fold(from, state) };
                found.masks.insert(stmt.id, mask.map_err(|why| why.at(stmt.span)));
                for (from, to) in from.iter().zip(to) {
                    self.reduced(from, to, None, &[*across], state);
                }
            }
            Op::Reduce { from, to, with, across, beyond: said } => {
                let same = with.identity(self.program.tensor(to.tensor).elem);
                let mask = if said.is_some() { Ok(Vec::new()) } else { mask_of_reduction(from, same, state) };
                found.masks.insert(stmt.id, mask.map_err(|why| why.at(stmt.span)));
                self.reduced(from, to, same, &[*across], state);
            }
            Op::Scan { from, to, carry, how } => self.scanned(stmt, (from, to, carry), how, state, found),
            Op::For { var, body, .. } | Op::Pipelined { var, body, .. } => {
                self.repeated(*var, body, state, found)
            }
            Op::Tiles { vars, body, .. } => self.for_each_tile(vars, body, state, found),
            Op::Step { var, past, body, .. } => {
                let before = state.clone();
                self.walk(body, state, found);
                forget(state, *var);
                if *past == Past::Skip {
                    *state = join(&before, state);
                }
            }
            Op::If { then, other, .. } | Op::When { then, other, .. } => {
                let mut second = state.clone();
                self.walk(then, state, found);
                self.walk(other, &mut second, found);
                *state = join(state, &second);
            }
            Op::Roles(roles) => self.pass_roles(roles, state, found),
            Op::Ordered { body, .. } => self.walk(body, state, found),
            Op::Take { .. } | Op::Atomic { .. } | Op::Signal { .. } | Op::AwaitFlag { .. } => {}
            Op::SyncCluster | Op::Sync | Op::Wait { .. } | Op::WaitCopies { .. } | Op::CommitCopies => {}
            Op::Leave { .. } => {}
            Op::Acquire { .. }
            | Op::Publish { .. }
            | Op::Await { .. }
            | Op::Release { .. }
            | Op::Advance { .. } => {}
        }
    }

    /// A product of operands with fills of their own: those must not change the result.
    fn check_product(&mut self, stmt: &Stmt, state: &State, found: &mut Finder) {
        let Op::Gemm { a, b, acc, how, .. } = &stmt.op else { return };
        let (with, elem) = (how.semiring(), self.program.tensor(acc.tensor).elem);
        let other = [a, b].iter().any(|view| found.operands.contains(&view.tensor));
        if (with != Semiring::SUMS || other) && how.row(elem).is_ok_and(Atom::is_scalar) {
            let kept = self.changes_nothing([a, b], with, elem, state);
            found.masks.insert(stmt.id, kept.map(|()| Vec::new()).map_err(|why| why.at(stmt.span)));
        }
    }

    fn scanned(
        &mut self,
        stmt: &Stmt,
        (from, to, carry): (&[View], &[View], &[View]),
        how: &Scan,
        state: &mut State,
        found: &mut Finder,
    ) {
        let mask = self.left_out(from, &how.nothing, state);
        found.masks.insert(stmt.id, mask.map_err(|why| why.at(stmt.span)));
        for (from, carry) in from.iter().zip(carry) {
            self.reduced(from, carry, None, &how.across(), state);
        }
        for (from, to) in from.iter().zip(to) {
            let edges = self.edges(from, to, state);
            let at = self.at(from, to, state);
            let age = found.loops.len();
            self.update(to, Beyond { edges, holds: None, begun: None, at, age }, state);
        }
    }

    fn repeated(&mut self, var: Id, body: &[Stmt], state: &mut State, found: &mut Finder) {
        let before = state.clone();
        found.loops.push(var);
        self.walk(body, state, found);
        forget(state, var);
        // An iteration starts from the state before the loop or after the previous iteration.
        *state = join(&before, state);
        self.walk(body, state, found);
        found.loops.pop();
        forget(state, var);
        if !self.runs(var) {
            *state = join(&before, state);
        }
    }

    fn for_each_tile(&mut self, vars: &[Id], body: &[Stmt], state: &mut State, found: &mut Finder) {
        let before = state.clone();
        for _ in 0..2 {
            found.loops.extend(vars);
            self.walk(body, state, found);
            found.loops.truncate(found.loops.len() - vars.len());
            vars.iter().for_each(|var| forget(state, *var));
            *state = join(&before, state);
        }
    }

    /// A copy: fills replace what is out of bounds in global memory.
    fn copied(
        &mut self,
        by: Id,
        (from, to): (&View, &View),
        fill: Number,
        (state, age): (&mut State, usize),
    ) {
        let (source, target) = (self.program.tensor(from.tensor), self.program.tensor(to.tensor));
        let known = state.get(&from.tensor).cloned().unwrap_or(Beyond::NOTHING);
        let (holds, begun) = match source.space {
            Space::Global { .. } => (Some(fill.to_f64()), None),
            Space::Shared { .. } | Space::Registers { .. } => {
                let holds = self.read_as(from, &known, fill.to_f64());
                (holds, known.begun)
            }
        };
        // Between floating-point types conversions are taken to keep the value; others keep 0 only.
        let same = source.elem == target.elem || (source.elem.is_float() && target.elem.is_float());
        let kept = |number: Option<f64>| number.filter(|x| same || *x == 0.0);
        let edges = self.edges(from, to, state).filter(|_| begun.is_none() || kept(begun).is_some());
        let at = self.at(from, to, state);
        let beyond = Beyond { edges, holds: kept(holds), begun: kept(begun), at, age };
        self.written(by, to, beyond, state);
    }

    /// The edges of all tensors of a fold.
    fn mask_of_fold(&mut self, from: &[View], state: &State) -> Result<Vec<Edge>> {
        let all: Option<Vec<Vec<Edge>>> = from
            .iter()
            .map(|view| {
                let begun = state.get(&view.tensor).is_some_and(|of| of.begun.is_some());
                self.known(view, state).edges.filter(|_| !begun)
            })
            .collect();
        let edges = all.map(union).ok_or_else(|| unknown(&from[0].name))?;
        one_place(&from[0].name, edges)
    }

    /// The edges whose out-of-bounds elements a scan replaces by the identity.
    fn left_out(&self, from: &[View], nothing: &[Number], state: &State) -> Result<Vec<Edge>> {
        let of = |view: &View| state.get(&view.tensor).cloned().unwrap_or(Beyond::NOTHING);
        let harmless = |(view, nothing): (&View, &Number)| {
            let known = of(view);
            known.is_nothing() || known.holds == Some(nothing.to_f64())
        };
        if from.iter().zip(nothing).all(harmless) {
            return Ok(Vec::new());
        }
        let all: Option<Vec<Vec<Edge>>> =
            from.iter().map(|view| of(view).edges.filter(|_| of(view).begun.is_none())).collect();
        one_place(&from[0].name, all.map(union).ok_or_else(|| unknown(&from[0].name))?)
    }

    /// Does a loop run at least once, whatever the sizes?
    fn runs(&self, var: Id) -> bool {
        let var = &self.program.vars[var as usize];
        var.to.plus(&var.from, -1).is_some_and(|count| self.program.range(&count).lo >= 1)
    }

    /// Roles run concurrently: each starts from its own registers as before, and may see any role's writes to
    /// shared memory.
    fn pass_roles(&mut self, roles: &[(Id, Vec<Stmt>)], state: &mut State, found: &mut Finder) {
        let mut entry = state.clone();
        // In the second pass every role starts from the others' results.
        for _ in 0..2 {
            let mut after = entry.clone();
            for (_, body) in roles {
                let mut own = entry.clone();
                self.walk(body, &mut own, found);
                after = join(&after, &own);
            }
            *state = after.clone();
            after.retain(|id, _| matches!(self.program.tensor(*id).space, Space::Shared { .. }));
            entry = join(&entry, &after);
        }
    }

    /// What is known about a view's elements.
    pub(super) fn known(&mut self, view: &View, state: &State) -> Beyond {
        match self.program.tensor(view.tensor).space {
            Space::Global { .. } => match (0..view.base.len()).any(|mode| self.guarded(view, mode)) {
                true => Beyond::UNKNOWN,
                false => Beyond::NOTHING,
            },
            Space::Shared { .. } | Space::Registers { .. } => {
                state.get(&view.tensor).cloned().unwrap_or(Beyond::NOTHING)
            }
        }
    }

    /// Updates the state of what threads write, each its part.
    fn written(&mut self, by: Id, to: &View, part: Beyond, state: &mut State) {
        let Some((beyond, all)) = self.in_shared(by, &part, to) else {
            return self.update(to, part, state);
        };
        let known = state.get(&to.tensor).filter(|_| !all);
        let beyond = known.map_or_else(|| beyond.clone(), |known| known.join(&beyond));
        state.insert(to.tensor, beyond);
    }

    /// Updates a tensor's state: a partial write joins with what was known.
    fn update(&mut self, to: &View, beyond: Beyond, state: &mut State) {
        let tensor = self.program.tensor(to.tensor);
        let beyond = match (tensor.space, self.whole(to)) {
            (Space::Global { .. }, _) => return,
            (Space::Registers { .. }, true) => {
                let stored = |edges: Vec<Edge>| edges.into_iter().map(|edge| edge.stored(to)).collect();
                let edges = beyond.edges.and_then(stored);
                let at = beyond.at.map(|at| self.stored(at, to));
                Beyond { edges, at, ..beyond }
            }
            (Space::Shared { .. }, _) | (Space::Registers { .. }, false) => {
                // Elements that are not written keep their state; edges are known for whole fragments only. What threads
                // have beyond the tile is not stored.
                let limits = self.limits_of(to);
                let stored = |edge: &Edge| !limits.iter().any(|limit| limit.is_same(edge));
                let edges = beyond.edges.map(|edges| edges.into_iter().filter(stored).collect::<Vec<_>>());
                let edges = edges.filter(Vec::is_empty);
                let part = Beyond { edges, at: Some(Vec::new()), ..beyond };
                state.get(&to.tensor).map_or(part.clone(), |known| known.join(&part))
            }
        };
        state.insert(to.tensor, beyond);
    }

    /// The value of what is out of bounds in a view, if threads beyond the limits of its tile read this fill.
    pub(super) fn read_as(&mut self, view: &View, known: &Beyond, fill: f64) -> Option<f64> {
        match self.limits_of(view).is_empty() {
            true => known.holds,
            false if known.is_nothing() => Some(fill),
            false => known.holds.filter(|holds| *holds == fill),
        }
    }

    /// The limits of a tile that threads do not divide, as edges.
    pub(super) fn limits_of(&mut self, view: &View) -> Vec<Edge> {
        let mut all = Vec::new();
        for mode in 0..view.base.len() {
            if let Some((origin, extent)) = self.limited(view, mode)
                && let Some(base) = view.base[mode].plus(&origin, -1)
            {
                all.push(Edge::new(view.name.clone(), base, along(view, mode), Value::Int(extent)));
            }
        }
        all
    }

    /// Does a view show every element of its tensor once?
    fn whole(&self, view: &View) -> bool {
        let tensor = self.program.tensor(view.tensor);
        let mut steps: Vec<(usize, i64, i64)> = Vec::new();
        for (extent, stride) in view.layout.leaves() {
            match (extent, stride) {
                (Value::Int(1), _) => {}
                (Value::Int(extent), Value::Basis { times, path }) => {
                    steps.push((usize::from(path.steps()[0]), times, extent));
                }
                _ => return false,
            }
        }
        steps.sort_unstable();
        let whole = |(mode, own): (usize, tilewright_layout::Layout)| {
            let along = steps.iter().filter(|(of, ..)| *of == mode);
            let reach = along.into_iter().try_fold(1i64, |next, (_, times, extent)| {
                (next == *times).then(|| next.saturating_mul(*extent))
            });
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
            let known = state.get(&view.tensor).cloned().unwrap_or(Beyond::NOTHING).edges?;
            let taken = known.into_iter().map(|edge| taken_over(edge, &view, &along));
            let taken: Vec<Edge> = taken.collect::<Option<_>>()?;
            return Some(union(vec![taken, self.limits_of(&view)]));
        }
        let mut all = Vec::new();
        let extents: Vec<Value> = tensor.plain().leaves().map(|leaf| leaf.0).collect();
        for (mode, end) in extents.into_iter().enumerate() {
            let name = format!("{}_{mode}", view.name);
            // Elements that are clamped to the nearest one in bounds have no edge.
            if self.outside(&view, mode) && !view.nearest.contains(&mode) {
                all.push(Edge { name: name.clone(), base: view.base[mode].clone(), modes: along(mode), end });
            }
            if let Some((origin, extent)) = self.limited(&view, mode) {
                let base = view.base[mode].plus(&origin, -1)?;
                all.push(Edge { name, base, modes: along(mode), end: Value::Int(extent) });
            }
        }
        Some(all)
    }

    /// The state of a reduction's target.
    fn reduced(&mut self, from: &View, to: &View, same: Option<f64>, across: &[Across], state: &mut State) {
        let before = state.get(&to.tensor).cloned().unwrap_or(Beyond::NOTHING);
        let source = state.get(&from.tensor).cloned().unwrap_or(Beyond::NOTHING);
        let holds = before.holds.filter(|x| Some(*x) == same);
        let combined: Vec<bool> = match (from.extents(), to.extents()) {
            (Some(from), Some(to)) => from.iter().zip(&to).map(|(from, to)| from != to).collect(),
            _ => vec![true; from.rank()],
        };
        let view = |edge: Edge| taken_over(edge, from, &|mode| along(from, mode));
        let runs = |digits: &[(i64, i64)]| digits.iter().any(|(extent, step)| *extent > 1 && *step != 0);
        let along_combined = |edge: &Edge| {
            edge.modes.iter().zip(&combined).any(|(digits, combined)| *combined && runs(digits))
        };
        // What is left of a coordinate of the source, on the modes of the target's tensor.
        let left = |mut edge: Edge| {
            // Along a mode of extent 1 there is one place.
            for (digits, _) in edge.modes.iter_mut().zip(&combined).filter(|(_, combined)| **combined) {
                digits.clear();
            }
            edge.stored(to)
        };
        let kept = source.edges.and_then(|edges| {
            let edges: Vec<Edge> = edges.into_iter().map(view).collect::<Option<_>>()?;
            let stays = |edge: &Edge| {
                !along_combined(edge) && !across.iter().any(|across| apart(&edge.base, *across))
            };
            edges.into_iter().filter(stays).map(left).collect::<Option<Vec<_>>>()
        });
        let same_place = self.whole(to) && self.whole(from);
        let edges = match (before.edges, kept) {
            (Some(before), Some(kept)) if kept.is_empty() || same_place => Some(union([before, kept].into())),
            _ => None,
        };
        // Along what is combined, results stand for no coordinate.
        let at = source.at.is_some().then(|| self.at(from, from, state)).flatten().unwrap_or_default();
        let kept = at.into_iter().zip(&combined).map(|(at, combined)| at.filter(|_| !combined));
        let at = Some(self.stored(kept.collect(), to));
        state.insert(to.tensor, Beyond { edges, holds, begun: None, at, age: before.age });
    }

    /// The condition that an element, given by its coordinates in the fragment, is inside all edges.
    pub(super) fn inside(&mut self, edges: &[Edge], coordinates: &[Ix]) -> Option<Ix> {
        let mut guard = self.int(1);
        for edge in edges {
            let at = self.coordinate_at(edge, coordinates);
            let end = self.value(edge.end);
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

/// How elements are left out of a scatter where edges are unknown.
const UNKNOWN_PLACES: &str =
    "give them a place out of bounds, such as -1, and say so: scatter(…, beyond = -1)";

/// The edges whose out-of-bounds elements a reduction replaces by its identity.
fn mask_of_reduction(from: &View, same: Option<f64>, state: &State) -> Result<Vec<Edge>> {
    let beyond = state.get(&from.tensor).cloned().unwrap_or(Beyond::NOTHING);
    let begun = beyond.begun.is_none() || beyond.begun == same;
    match beyond.edges {
        Some(edges) if edges.is_empty() => Ok(edges),
        _ if beyond.holds.is_some() && beyond.holds == same => Ok(Vec::new()),
        Some(edges) if begun => one_place(&from.name, edges),
        _ => {
            let (function, fill) = match same {
                Some(x) if x == f64::NEG_INFINITY => ("maximum", "f32::NEG_INFINITY".into()),
                Some(x) if x == f64::INFINITY => ("minimum", "f32::INFINITY".into()),
                Some(x) if x != 0.0 => ("reduce", format!("{x:?}")),
                _ => ("sum", "0.0".into()),
            };
            Err(unknown_in(&from.name, function, &fill))
        }
    }
}

/// Edges of one coordinate, unless elements are computed from several places along it: at the edge these are in bounds
/// in one place and out of bounds in another.
fn one_place(name: &str, edges: Vec<Edge>) -> Result<Vec<Edge>> {
    let shifted = |one: &Edge| edges.iter().any(|other| one.is_shifted(other));
    if !edges.iter().any(shifted) {
        return Ok(edges);
    }
    Err(Problem::new(format!(
        "`{name}` is computed from a tile and from the same tile shifted, so it is not known which of its elements lie beyond the edge"
    ))
    .help("set those that do, and combine all: `let t = map((x, near), |x, near, at| if at.0 < N { near - x } else { 0.0 })`, then sum(t, beyond = 0.0)"))
}

/// The error where a function reads coordinates that are unknown.
fn no_coordinate(mode: u8) -> Problem {
    Problem::new(format!(
        "it is not known which coordinates elements have along mode {mode} here, so `at.{mode}` has no value"
    ))
    .help("give `map` a tile of the tensor whose coordinates are meant as well, such as map((x, tile_of_y), |x, _, at| …): it is not read; coordinates within a tile are iota((64, 32), 0)")
}

/// The error where it is unknown which elements are out of bounds.
fn unknown(name: &str) -> Problem {
    unknown_in(name, "sum", "0.0")
}

/// The same with the fill that changes nothing in a reduction.
fn unknown_in(name: &str, function: &str, fill: &str) -> Problem {
    Problem::new(format!(
        "it is not known which elements of `{name}` lie beyond the edge of a tensor, so they cannot be left out"
    ))
    .help(format!("reduce what was copied from global memory in the same iteration, copy to registers first with a fill that changes nothing, copy(x, piece, fill = {fill}), or set those elements and say what they hold: {function}(x, beyond = {fill})"))
}
