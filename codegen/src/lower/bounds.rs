//! What lies beyond the edges of tensors: which elements of a fragment stand for places outside of the tensor that they
//! were copied from. A reduction takes its identity in place of those.
//!
//! The program is walked once before it is lowered. Every tensor in registers has edges: conditions on coordinates, taken
//! over by copies and functions, dropped along the modes that a reduction combines, because a reduction of nothing is
//! what its target held before. Where the edges are not known, it may still be known what stands beyond them.

use std::collections::HashMap;

use tilewright_layout::Value;

use super::Lower;
use super::address::leaves;
use super::transfer::align;
use crate::affine::{Affine, Coord};
use crate::diagnostic::Diagnostic;
use crate::elem::Elem;
use crate::index::Ix;
use crate::problem::Problem;
use crate::target::BLOCK_THREADS;
use crate::thread::{Bin, Id};
use crate::tile::{Across, Expr, How, Op, Past, Space, Stmt};
use crate::view::View;

/// A condition on an element: what its coordinates come to lies below an end, and not below 0.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Edge {
    /// What the user calls the coordinate.
    name: String,
    base: Affine,
    /// For each mode of the fragment its digits, leftmost first: how many, and how far each step goes.
    modes: Vec<Vec<(i64, i64)>>,
    end: Value,
}

/// What is known about a tensor.
#[derive(Clone, PartialEq, Debug)]
struct Beyond {
    /// Its edges; empty where it has no element beyond one, `None` where that is not known.
    edges: Option<Vec<Edge>>,
    /// What stands in every element beyond its edges, or in all elements where they have just been filled.
    holds: Option<f64>,
}

impl Beyond {
    const NOTHING: Beyond = Beyond { edges: Some(Vec::new()), holds: None };
    const UNKNOWN: Beyond = Beyond { edges: None, holds: None };

    fn is_nothing(&self) -> bool {
        self.edges.as_ref().is_some_and(Vec::is_empty)
    }

    /// Known on both ways.
    fn join(&self, other: &Beyond) -> Beyond {
        let holds = match (self.holds, other.holds) {
            (x, y) if x == y => x,
            (x, None) if other.is_nothing() => x,
            (None, y) if self.is_nothing() => y,
            _ => None,
        };
        Beyond { edges: self.edges.clone().filter(|_| self.edges == other.edges), holds }
    }
}

/// For each tensor that may have been written.
type State = HashMap<Id, Beyond>;

fn join(left: &State, right: &State) -> State {
    let mut both = left.clone();
    for (id, beyond) in right {
        let joined = both.get(id).map_or_else(|| beyond.clone(), |known| known.join(beyond));
        both.insert(*id, joined);
    }
    both
}

/// After a loop or in its next turn, edges that its variable moves are not where they were.
fn forget(state: &mut State, var: Id) {
    for beyond in state.values_mut() {
        let moves = |edge: &Edge| edge.base.any(&|coord| *coord == Coord::Var(var));
        if beyond.edges.as_ref().is_some_and(|edges| edges.iter().any(moves)) {
            beyond.edges = None;
        }
    }
}

/// What a reduction does about elements beyond edges.
pub(super) type Masks = HashMap<Id, std::result::Result<Vec<Edge>, Diagnostic>>;

/// The number that changes nothing when it is combined.
///
/// Integers have a least and a greatest number, floating-point ones have infinities.
pub(crate) fn identity(with: Bin, elem: Elem) -> Option<f64> {
    let (least, most) = match elem {
        Elem::I8 => (-128.0, 127.0),
        Elem::U8 => (0.0, 255.0),
        Elem::U32 => (0.0, f64::from(u32::MAX)),
        Elem::I32 => (f64::from(i32::MIN), f64::from(i32::MAX)),
        _ => (f64::NEG_INFINITY, f64::INFINITY),
    };
    match with {
        Bin::Add | Bin::Or | Bin::Xor => Some(0.0),
        Bin::Mul => Some(1.0),
        Bin::Max => Some(least),
        Bin::Min => Some(most),
        Bin::And if matches!(elem, Elem::U8 | Elem::U32) => Some(most),
        Bin::And => Some(-1.0),
        _ => None,
    }
}

impl Lower<'_> {
    /// Finds the masks of all reductions.
    pub(super) fn masks(&mut self, body: &[Stmt]) -> Masks {
        let mut reduces = false;
        body.iter().for_each(|stmt| stmt.each(&mut |s| reduces |= matches!(s.op, Op::Reduce { .. })));
        let mut masks = Masks::new();
        if reduces {
            self.walk(body, &mut State::new(), &mut masks);
        }
        masks
    }

    fn walk(&mut self, body: &[Stmt], state: &mut State, masks: &mut Masks) {
        for stmt in body {
            self.pass(stmt, state, masks);
        }
    }

    fn pass(&mut self, stmt: &Stmt, state: &mut State, masks: &mut Masks) {
        match &stmt.op {
            Op::Copy { from, to, how: How::Atom(_), .. } => {
                let beyond = self.known(from, state);
                let beyond = if beyond.is_nothing() { beyond } else { Beyond::UNKNOWN };
                self.update(to, beyond, state);
            }
            Op::Copy { from, to, fill, .. } => {
                let (source, target) = (self.program.tensor(from.tensor), self.program.tensor(to.tensor));
                let holds = match source.space {
                    Space::Global { .. } => Some(fill.to_f64()),
                    _ => state.get(&from.tensor).and_then(|beyond| beyond.holds),
                };
                // What a conversion makes of a number is that number, but for few.
                let same = source.elem == target.elem || (source.elem.is_float() && target.elem.is_float());
                let edges = self.edges(from, to, state);
                self.update(to, Beyond { edges, holds: holds.filter(|x| same || *x == 0.0) }, state);
            }
            Op::Fill { to, value } => {
                let holds = if let Expr::Lit(x) = value { Some(x.to_f64()) } else { None };
                self.update(to, Beyond { holds, ..Beyond::NOTHING }, state);
            }
            Op::Map { ins, to, .. } => {
                let all: Option<Vec<Vec<Edge>>> =
                    ins.iter().map(|view| self.edges(view, to, state)).collect();
                self.update(to, Beyond { edges: all.map(union), holds: None }, state);
            }
            Op::Gemm { a, b, acc, .. } => {
                let clean = self.known(a, state).is_nothing() && self.known(b, state).is_nothing();
                if !clean {
                    state.insert(acc.tensor, Beyond::UNKNOWN);
                }
            }
            Op::Reduce { from, to, with, across } => {
                let elem = self.program.tensor(to.tensor).elem;
                let same = identity(*with, elem);
                let beyond = state.get(&from.tensor).cloned().unwrap_or(Beyond::NOTHING);
                let mask = match &beyond.edges {
                    Some(edges) if edges.is_empty() => Ok(Vec::new()),
                    _ if beyond.holds.is_some() && beyond.holds == same => Ok(Vec::new()),
                    Some(edges) => Ok(edges.clone()),
                    None => Err(Problem::new(format!(
                        "it is not known which elements of `{}` lie beyond the edge of a tensor, so they cannot be left out",
                        from.name
                    ))
                    .help("reduce what was copied from global memory to registers in the same turn, or copy with a fill that changes nothing, such as fill = 0.0")
                    .at(stmt.span)),
                };
                masks.insert(stmt.id, mask);
                self.reduced(from, to, same, *across, state);
            }
            Op::For { var, body, .. } => {
                let before = state.clone();
                self.walk(body, state, masks);
                forget(state, *var);
                // A turn finds what was before the loop, or what the turn before left.
                *state = join(&before, state);
                self.walk(body, state, masks);
                forget(state, *var);
                *state = join(&before, state);
            }
            Op::Tiles { vars, body, .. } => {
                let before = state.clone();
                for _ in 0..2 {
                    self.walk(body, state, masks);
                    vars.iter().for_each(|var| forget(state, *var));
                    *state = join(&before, state);
                }
            }
            Op::Step { var, past, body, .. } => {
                let before = state.clone();
                self.walk(body, state, masks);
                forget(state, *var);
                if *past == Past::Skip {
                    *state = join(&before, state);
                }
            }
            Op::If { then, other, .. } | Op::When { then, other, .. } => {
                let mut second = state.clone();
                self.walk(then, state, masks);
                self.walk(other, &mut second, masks);
                *state = join(state, &second);
            }
            Op::Roles(roles) => self.pass_roles(roles, state, masks),
            _ => {
                for body in stmt.bodies() {
                    self.walk(body, state, masks);
                }
            }
        }
    }

    /// Roles run at the same time: each finds its own registers as they were before, and in shared memory what any of
    /// them writes.
    fn pass_roles(&mut self, roles: &[(Id, Vec<Stmt>)], state: &mut State, masks: &mut Masks) {
        let mut entry = state.clone();
        // The second time round every role has seen what the others leave.
        for _ in 0..2 {
            let mut after = entry.clone();
            for (_, body) in roles {
                let mut own = entry.clone();
                self.walk(body, &mut own, masks);
                after = join(&after, &own);
            }
            *state = after.clone();
            after.retain(|id, _| matches!(self.program.tensor(*id).space, Space::Shared { .. }));
            entry = join(&entry, &after);
        }
    }

    /// What a view shows of what is known about its tensor.
    fn known(&mut self, view: &View, state: &State) -> Beyond {
        match self.program.tensor(view.tensor).space {
            Space::Global { .. } => match (0..view.base.len()).any(|mode| self.guarded(view, mode)) {
                true => Beyond::UNKNOWN,
                false => Beyond::NOTHING,
            },
            _ => state.get(&view.tensor).cloned().unwrap_or(Beyond::NOTHING),
        }
    }

    /// A tensor's new state: what was known stays known unless all of it is written.
    fn update(&mut self, to: &View, beyond: Beyond, state: &mut State) {
        let tensor = self.program.tensor(to.tensor);
        let beyond = match (tensor.space, self.whole(to)) {
            (Space::Global { .. }, _) => return,
            (Space::Registers { .. }, true) => beyond,
            _ => {
                // The rest keeps what it had; where edges are, only whole fragments say.
                let edges = beyond.edges.filter(Vec::is_empty);
                let part = Beyond { edges, holds: beyond.holds };
                state.get(&to.tensor).map_or(part.clone(), |known| known.join(&part))
            }
        };
        state.insert(to.tensor, beyond);
    }

    /// Is a view all of its tensor, coordinate by coordinate?
    fn whole(&self, view: &View) -> bool {
        let tensor = self.program.tensor(view.tensor);
        let whole = View::whole(view.tensor, "", &tensor.layout.shape());
        whole.is_ok_and(|whole| whole.layout == view.layout && whole.base == view.base)
    }

    /// The edges of a view, over the coordinates of a fragment that is written whole.
    fn edges(&mut self, view: &View, to: &View, state: &State) -> Option<Vec<Edge>> {
        let pair = align(view, to).ok()?;
        let view = pair.from;
        let tensor = self.program.tensor(view.tensor);
        let along = |mode: usize| -> Vec<Vec<(i64, i64)>> {
            let digits = |part: tilewright_layout::Layout| {
                part.leaves()
                    .map(|(extent, stride)| match stride {
                        Value::Basis { times, path } if usize::from(path.steps()[0]) == mode => {
                            (extent.int().unwrap_or(1), times)
                        }
                        _ => (extent.int().unwrap_or(1), 0),
                    })
                    .collect()
            };
            view.layout.modes().map(digits).collect()
        };
        if !matches!(tensor.space, Space::Global { .. }) {
            let known = state.get(&view.tensor).cloned().unwrap_or(Beyond::NOTHING).edges?;
            let taken = known.into_iter().map(|edge| taken_over(edge, &view, &along));
            return taken.collect();
        }
        let mut all = Vec::new();
        let extents: Vec<Value> = tensor.plain().leaves().map(|leaf| leaf.0).collect();
        for (mode, end) in extents.into_iter().enumerate() {
            let name = format!("{}_{mode}", view.name);
            // What is repeated beyond the edge is an element like any other.
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
    fn reduced(&mut self, from: &View, to: &View, same: Option<f64>, across: Across, state: &mut State) {
        let before = state.get(&to.tensor).cloned().unwrap_or(Beyond::NOTHING);
        let source = state.get(&from.tensor).cloned().unwrap_or(Beyond::NOTHING);
        let holds = before.holds.filter(|x| Some(*x) == same);
        let combined: Vec<bool> = match (from.extents(), to.extents()) {
            (Some(from), Some(to)) => from.iter().zip(&to).map(|(from, to)| from != to).collect(),
            _ => vec![true; from.rank()],
        };
        let kept = source.edges.map(|edges| {
            let stays = |edge: &Edge| {
                let runs =
                    |digits: &[(i64, i64)]| digits.iter().any(|(extent, step)| *extent > 1 && *step != 0);
                !edge.modes.iter().zip(&combined).any(|(digits, combined)| *combined && runs(digits))
                    && !apart(&edge.base, across)
            };
            edges.into_iter().filter(|edge| stays(edge)).collect::<Vec<_>>()
        });
        let same_place = self.whole(to) && self.whole(from);
        let edges = match (before.edges, kept) {
            (Some(before), Some(kept)) if kept.is_empty() || same_place => {
                let kept = kept.into_iter().map(|mut edge| {
                    // Along a mode of extent 1 there is one place.
                    for (digits, _) in edge.modes.iter_mut().zip(&combined).filter(|(_, combined)| **combined)
                    {
                        digits.clear();
                    }
                    edge
                });
                Some(union([before, kept.collect()].into()))
            }
            _ => None,
        };
        state.insert(to.tensor, Beyond { edges, holds });
    }

    /// The condition under which an element, by its coordinates in the fragment, lies inside all edges.
    pub(super) fn inside(&mut self, edges: &[Edge], coordinates: &[Ix]) -> Option<Ix> {
        let mut guard = self.int(1);
        for edge in edges {
            let (still, moving) = self.parts(&edge.base);
            let still = self.affine(&still);
            let still = self.name(still, &edge.name);
            let moving = self.affine(&moving);
            let mut at = self.exprs().add(still, moving);
            for (digits, &coordinate) in edge.modes.iter().zip(coordinates) {
                let mut rest = coordinate;
                for (place, &(extent, step)) in digits.iter().enumerate() {
                    let digit = match place + 1 == digits.len() {
                        true => rest,
                        false => self.exprs().rem(rest, extent),
                    };
                    rest = self.exprs().div(rest, extent);
                    let step = self.int(step);
                    let term = self.exprs().mul(digit, step);
                    at = self.exprs().add(at, term);
                }
            }
            let end = self.value(edge.end);
            guard = self.and_within(guard, at, end);
        }
        (self.kernel.exprs.constant(guard) != Some(1)).then_some(guard)
    }
}

/// Every edge once.
fn union(all: Vec<Vec<Edge>>) -> Vec<Edge> {
    let mut union: Vec<Edge> = Vec::new();
    for edge in all.into_iter().flatten() {
        if !union.contains(&edge) {
            union.push(edge);
        }
    }
    union
}

/// An edge of a fragment as an edge of a view of it.
fn taken_over(edge: Edge, view: &View, along: &dyn Fn(usize) -> Vec<Vec<(i64, i64)>>) -> Option<Edge> {
    let mut base = edge.base.clone();
    let mut modes: Vec<Vec<(i64, i64)>> = view
        .layout
        .modes()
        .map(|mode| mode.leaves().map(|(n, _)| (n.int().unwrap_or(1), 0)).collect())
        .collect();
    for (mode, digits) in edge.modes.iter().enumerate() {
        match digits[..] {
            [] => {}
            // One step size: any view of it has one.
            [(_, step)] => {
                base = base.plus(&view.base[mode], step)?;
                for (to, from) in modes.iter_mut().zip(along(mode)) {
                    if from.iter().all(|digit| digit.1 == 0) {
                        continue;
                    }
                    // Digits of another mode of the fragment may stand here already, split otherwise.
                    if to.len() != from.len() {
                        return None;
                    }
                    to.iter_mut().zip(from).for_each(|(to, from)| to.1 += from.1 * step);
                }
            }
            // Several digits stay together: the view shows the whole mode, as one of its own.
            _ => {
                let extent: i64 = digits.iter().map(|digit| digit.0).product();
                let mut shown =
                    along(mode).into_iter().enumerate().filter(|(_, part)| part.iter().any(|d| d.1 != 0));
                let (place, part) = shown.next()?;
                let taken = modes[place].iter().any(|digit| digit.1 != 0);
                let whole = part[..] == [(extent, 1)] && view.base[mode] == Affine::default();
                if shown.next().is_some() || taken || !whole {
                    return None;
                }
                modes[place] = digits.clone();
            }
        }
    }
    Some(Edge { base, modes, ..edge })
}

/// Do threads that are combined have different values of this?
fn apart(base: &Affine, across: Across) -> bool {
    let lanes = match across {
        Across::Thread => return false,
        Across::Warp(lanes) => Some(i64::from(lanes)),
        Across::Block => None,
        Across::Digits(_) => {
            // Whatever it is made of: is it the same as for the first of them?
            let at = |thread: u32| {
                let lookup = |coord: &Coord| i64::from(matches!(coord, Coord::Thread(_))) * i64::from(thread);
                base.eval(&lookup)
            };
            return (0..BLOCK_THREADS).any(|thread| at(thread) != at(across.first(thread)));
        }
    };
    base.terms.iter().any(|(coord, _)| match coord {
        Coord::Thread(_) | Coord::Swizzled(..) => true,
        // The number of a group of lanes is the same for the group.
        Coord::Digit { of, over, .. } => match (lanes, &of.terms[..]) {
            (Some(lanes), [(Coord::Thread(_), 1)]) if of.constant == 0 && over % lanes == 0 => false,
            _ => of.any(&|coord| matches!(coord, Coord::Thread(_))),
        },
        coord => Affine::from(coord.clone()).per_thread(),
    })
}

/// The leaves of a reduction's two sides, mode by mode: where the target's element for one of the source is.
pub(super) fn target_at(lower: &mut Lower<'_>, from: &View, to: &View, at: &[Ix]) -> Vec<Ix> {
    let (mut places, mut first) = (Vec::new(), 0);
    for (source, target) in from.layout.modes().zip(to.layout.modes()) {
        let count = source.leaves().len();
        // The index within the mode, leftmost digit fastest.
        let (mut index, mut step) = (lower.int(0), 1);
        for (&digit, (extent, _)) in at[first..first + count].iter().zip(source.leaves()) {
            let by = lower.int(step);
            let term = lower.exprs().mul(digit, by);
            index = lower.exprs().add(index, term);
            step *= extent.int().unwrap_or(1);
        }
        first += count;
        let one = target.size().is_ok_and(|size| size == 1);
        let last = target.leaves().len();
        for (place, (extent, _)) in target.leaves().enumerate() {
            let digit = match (one, place + 1 == last) {
                (true, _) => lower.int(0),
                (false, true) => index,
                (false, false) => lower.exprs().rem(index, extent.int().unwrap_or(1)),
            };
            index = lower.exprs().div(index, extent.int().unwrap_or(1));
            places.push(digit);
        }
    }
    debug_assert_eq!(places.len(), leaves(to).len());
    places
}
