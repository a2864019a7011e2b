//! Out-of-bounds elements: a dataflow analysis finds the elements of a fragment whose coordinates are
//! outside of the tensor that they were copied from. A reduction masks these elements with its identity.
//!
//! One forward pass runs before loops are expanded. Every register tensor has edges, which are bounds on coordinates.
//! Copies and functions propagate them. A reduction drops the edges along the modes that it combines,
//! because an empty reduction leaves its target unchanged. Where edges are unknown, the value of
//! out-of-bounds elements may still be known.

mod masks;
mod out_of_bounds;
mod past_k;
mod propagation;
pub(crate) mod reads;
mod writes;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::isa::atom::Atom;
use crate::source::ast::Span;
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result};
use crate::thread::{Bin, Fact, Id};
use crate::tile::alternative::Policy;
use crate::tile::bounds::Assumed;
use crate::tile::elements::{Edge, ElementFacts};
use crate::tile::empty_loops;
use crate::tile::pair::Scanned;
use crate::tile::view::View;
use crate::tile::visit::preorder;
use crate::tile::{Across, Expr, How, Multiply, Op, ProductViews, Program, Space, Stmt};
use crate::values::affine::Coord;
use crate::values::flow::{Edit, Forward, Structured, end};
use crate::values::lanes::Lanes;
use crate::values::semiring::Semiring;

use out_of_bounds::{CombinedOver, Coordinate, OutOfBounds, State, forget, join};
use past_k::Writers;
use propagation::reads_coordinates;

/// The program with the masks of all reductions and the coordinates that functions read, beside their statements; and the facts
/// that a variant needs for that. Loops are not expanded yet: the iteration that copies a tile reads it.
pub(crate) fn find(
    mut program: Program,
    policy: Policy,
) -> std::result::Result<(Program, Vec<Fact>), Diagnostic> {
    program.number();
    let mut origins = Origins {
        program: &program,
        assumed: Assumed::new(&program, policy),
        elements: HashMap::new(),
        refused: BTreeMap::new(),
        loops: Vec::new(),
        followed: BTreeSet::new(),
        operands: BTreeSet::new(),
        writers: Writers::of(&program),
        assigned: BTreeSet::new(),
        added: BTreeSet::new(),
    };
    let (mut asks, mut checks) = (false, false);
    for stmt in preorder(&program.body) {
        asks |= stmt.needs_coordinates();
        checks |= origins.writers.may_combine(stmt);
        let assigned = match &stmt.op {
            Op::Copy { from, to, .. } => Some((from, to)),
            Op::Map { ins, to, value: Expr::In(0) } => ins.first().map(|from| (from, to)),
            _ => None,
        };
        origins.assigned.extend(assigned.map(|(from, to)| (from.tensor, to.tensor)));
    }
    let needs = origins.assumed.needs.clone();
    if asks || checks {
        origins.operands = crate::tile::fills::operands(&program.body);
        end(&mut origins, &program, &program.body, State::new());
    }
    let Origins { mut elements, mut refused, assumed, .. } = origins;
    // A check alone needs no more: a product that one variant may not combine is refused in another.
    let needs = if asks { assumed.needs } else { needs };
    if let Some((_, why)) = refused.pop_first() {
        return Err(why);
    }
    if !asks {
        return Ok((program, needs));
    }
    for stmt in &mut program.body {
        stmt.each_mut(&mut |stmt| stmt.elements = elements.remove(&stmt.id).map(Box::new));
    }
    if let Some(size) = program.zero {
        let reduced = empty_loops::reduced(program.clone());
        if preorder(&reduced.body).any(|stmt| stmt.elements.iter().any(|of| of.mentions(size))) {
            let why = Problem::new("elements are in bounds or not by a size that is 0");
            return Err(why.at(Span::default()));
        }
    }
    Ok((program, needs))
}

/// The pass.
struct Origins<'p> {
    program: &'p Program,
    assumed: Assumed<'p>,
    /// The result for each statement.
    elements: HashMap<Id, ElementFacts>,
    /// Errors: a reduction's masks or a function's coordinates are not known, or fills of operands change a product.
    refused: BTreeMap<Id, Diagnostic>,
    /// Loops around the current statement.
    loops: Vec<Id>,
    /// Accumulators of products of whole tiles, whose coordinates the tiles state; see [`Op::Flow`].
    followed: BTreeSet<Id>,
    /// See [`crate::tile::fills::operands`].
    operands: BTreeSet<Id>,
    writers: Writers<'p>,
    /// Tensors and the targets of their copies: `sum = sum + x` adds to another tile first, which then is copied to `sum`.
    assigned: BTreeSet<(Id, Id)>,
    /// Accumulators to which functions of elements are added whose value out of bounds is not known.
    added: BTreeSet<Id>,
}

impl Forward<Program> for Origins<'_> {
    type State = State;

    fn join(one: State, other: &State) -> State {
        join(one, other)
    }

    fn pass(&mut self, stmt: &Stmt, state: &mut State) -> Edit<Stmt> {
        if stmt.needs_coordinates() {
            self.elements.entry(stmt.id).or_default();
        }
        match &stmt.op {
            Op::Copy { from, to, how: How::Atom(_), .. } => {
                let known = Some(self.known(from, state)).filter(OutOfBounds::is_none);
                self.update(to, known.unwrap_or(OutOfBounds::UNKNOWN), state);
            }
            Op::Copy { from, to, fill, .. } => self.copied(stmt.by, from, to, *fill, state),
            Op::Map { to, value, .. } if stmt.op.filled().is_some() => {
                let contents = if let Expr::Lit(x) = value { x.exact() } else { None };
                let age = self.loops.len();
                let known = OutOfBounds { contents, age, filled: true, ..OutOfBounds::NONE };
                self.written(stmt.by, to, known, state);
            }
            Op::Map { ins, to, value } => self.pass_map(stmt, ins, to, value, state),
            Op::Flow { a, b, acc } => {
                self.followed.insert(acc.tensor);
                self.check_product(stmt, ProductViews { a, b, acc }, Semiring::SUMS, state);
                self.multiplied(ProductViews { a, b, acc }, false, state);
            }
            Op::Contents { from, to } => self.filled_slot(from, to, state),
            Op::Gemm { acc, how: Multiply::Atom(_), .. } if self.followed.contains(&acc.tensor) => {}
            Op::Gemm { a, b, acc, how, .. } => {
                if how.row(self.program.tensor(acc.tensor).elem).is_ok_and(Atom::is_scalar) {
                    self.check_product(stmt, ProductViews { a, b, acc }, how.semiring(), state);
                }
                self.multiplied(ProductViews { a, b, acc }, matches!(how, Multiply::Atom(_)), state)
            }
            Op::Scan { from, to, carry, how } => self.scanned(stmt, &Scanned { from, to, carry }, how, state),
            Op::Gather { .. }
            | Op::Scatter { .. }
            | Op::Fold { .. }
            | Op::Lanes { .. }
            | Op::Probe { .. } => self.pass_masked(stmt, state),
            Op::For { var, .. } => self.loops.push(*var),
            Op::Tiles { vars, .. } => self.loops.extend(vars),
            Op::Take { number, .. } => forget(state, &|coord| is_number(coord, *number)),
            // An element in bounds is updated where it was initialised.
            Op::Atomic { .. } => {}
            _ => stmt.writes().into_iter().for_each(|to| self.update(to, OutOfBounds::UNKNOWN, state)),
        }
        Edit::Keep
    }

    /// Forgets edges and coordinates that depend on the variables of a block, or on the integers that it reads.
    fn leave(&mut self, block: &[Stmt], vars: &[Id], state: &mut State) {
        let taken = |stmt: &Stmt| if let Op::Take { number, .. } = stmt.op { Some(number) } else { None };
        let taken: Vec<Id> = preorder(block).filter_map(taken).collect();
        forget(state, &|coord| match coord {
            Coord::Var(var) => vars.contains(var),
            coord => taken.iter().any(|number| is_number(coord, *number)),
        });
    }

    fn after(&mut self, stmt: &Stmt, state: &mut State) {
        if let Op::For { .. } | Op::Tiles { .. } = stmt.op {
            self.loops.truncate(self.loops.len() - self.program.vars(stmt).len());
        }
        for id in stmt.preorder().flat_map(Stmt::writes).map(|to| to.tensor) {
            // Messages name the first statement after which a coordinate is unknown.
            let Some(at) = state.get_mut(&id).and_then(|of| of.at.as_mut()) else { continue };
            at.resize(self.program.tensor(id).rank(), Coordinate::Unknown(None));
            for at in at.iter_mut().filter(|at| **at == Coordinate::Unknown(None)) {
                *at = Coordinate::Unknown(Some(stmt.id));
            }
        }
    }

    fn after_loop(&mut self, var: Id, runs: bool, before: State, mut end: State) -> State {
        if self.program.zero.is_some_and(|size| empty_loops::is_empty(self.program, var, size)) {
            // Coordinates and edges come from the program's text, values from launches.
            let both = join(before, &end);
            end.iter_mut().for_each(|(id, of)| of.contents = both.get(id).and_then(|both| both.contents));
        } else if !runs {
            let mut both = join(before, &end);
            for (id, of) in both.iter_mut().filter(|(_, of)| of.edges.is_none()) {
                of.if_runs |= end.get(id).is_some_and(|end| end.edges.is_some());
            }
            return both;
        }
        end
    }

    /// The writes to shared memory.
    fn shared(&self, state: &State) -> Option<State> {
        let is_shared = |id: &Id| matches!(self.program.tensor(*id).space, Space::Shared { .. });
        let shared = state.iter().filter(|(id, _)| is_shared(id));
        Some(shared.map(|(id, of)| (*id, of.clone())).collect())
    }
}

impl Origins<'_> {
    /// The result for a statement; in a loop, the last one counts.
    fn put<T>(&mut self, stmt: &Stmt, result: Result<T>, to: impl FnOnce(&mut ElementFacts, T)) {
        match result {
            Ok(result) => {
                self.refused.remove(&stmt.id);
                to(self.elements.entry(stmt.id).or_default(), result);
            }
            Err(why) => _ = self.refused.insert(stmt.id, why.at(stmt.span)),
        }
    }

    /// The edges of a statement: it leaves out the elements outside.
    fn mask(&mut self, stmt: &Stmt, masks: Result<Vec<Edge>>) {
        self.put(stmt, masks, |elements, masks| elements.masks = masks);
    }

    /// Can an element of a view be out of bounds along a mode, by its tile's limit or the tensor's extent?
    fn guarded(&mut self, view: &View, mode: usize) -> bool {
        self.assumed.relying(&[], |bounds, needs| bounds.guarded(view, mode, needs))
    }

    /// Can it be out of the tensor's own bounds?
    fn outside(&mut self, view: &View, mode: usize) -> bool {
        self.assumed.relying(&[], |bounds, needs| bounds.outside(view, mode, needs))
    }

    fn pass_map(&mut self, stmt: &Stmt, ins: &[View], to: &View, value: &Expr, state: &mut State) {
        let mut known = self.mapped(stmt.id, ins, to, value, state);
        known.computed = self.computed(ins, to, value, state);
        if reads_coordinates(value) {
            // Elements of no tensor have coordinates in their tile.
            let in_tile = ins.iter().find(|view| self.program.is_coordinates(view.tensor));
            let at = match (&known.at, in_tile) {
                (None, Some(in_tile)) => self.at(in_tile, to, state),
                (at, _) => at.clone(),
            };
            let read = self.coordinates_read(value, &at.unwrap_or_default());
            self.put(stmt, read, |elements, at| elements.coordinates = at);
        }
        self.written(stmt.by, to, known, state);
    }

    /// A statement that leaves out elements which are out of bounds, or has a claim about them.
    fn pass_masked(&mut self, stmt: &Stmt, state: &mut State) {
        match &stmt.op {
            // An element is out of bounds where its index is.
            Op::Gather { at, to, .. } => {
                let ins: Vec<View> = at.iter().map(|(_, view)| view.clone()).collect();
                let all = (1..ins.len() as u8).fold(Expr::In(0), |all, next| {
                    Expr::Bin(Bin::Rem, Box::new(all), Box::new(Expr::In(next)))
                });
                let known = self.mapped(stmt.id, &ins, to, &all, state);
                self.claim(stmt, &ins, CombinedOver { modes: &|_| false, across: &[] }, state);
                self.written(stmt.by, to, known, state);
            }
            Op::Scatter { from, at, to, claimed, .. } => {
                let all: Vec<View> = [from].into_iter().chain(at.iter().map(|(_, at)| at)).cloned().collect();
                let combined = CombinedOver { modes: &|_| true, across: &[] };
                let mask = match *claimed {
                    true => self.claimed(stmt, &all[1..], &[], combined, state),
                    false => self.mask_of_scatter(&all, to, state),
                };
                self.mask(stmt, mask);
                // Elements that are out of bounds are not stored.
                self.update(to, OutOfBounds { edges: Some(Vec::new()), ..OutOfBounds::UNKNOWN }, state);
            }
            // Where it is not known which elements are out of bounds, all are shown.
            Op::Probe { of, .. } => {
                let mask = self.mask_of_probe(&of[0], state);
                self.mask(stmt, Ok(mask));
            }
            Op::Fold { from, to, with, across, identity, claimed } => {
                let combined = CombinedOver { modes: &differ(from, to), across: &[*across] };
                let mask = match *claimed {
                    true => self.claimed(stmt, from, identity, combined, state),
                    false => {
                        let name = Expr::operation(with).and_then(Bin::reduction_name);
                        self.mask_of_tuples(from, identity, name.unwrap_or("reduce"), state)
                    }
                };
                self.mask(stmt, mask);
                for ((from, to), identity) in from.iter().zip(to).zip(identity) {
                    self.reduced(from, to, *identity, &[*across], state);
                }
            }
            Op::Lanes { ins, to, how, lanes, unmasked } => {
                let known = match how {
                    // An element of another thread.
                    Lanes::Shuffle(_) if !self.known(&ins[0], state).is_none() => OutOfBounds::UNKNOWN,
                    Lanes::Shuffle(_) | Lanes::Ballot | Lanes::Match => {
                        OutOfBounds { at: Some(Vec::new()), ..OutOfBounds::NONE }
                    }
                };
                if stmt.needs_coordinates() {
                    let combined = CombinedOver { modes: &|_| false, across: &[Across::Warp(*lanes)] };
                    let mask = match *unmasked {
                        true => self.claimed(stmt, &ins[..1], &[], combined, state),
                        false => self.mask_of_lanes(&ins[0], how, state),
                    };
                    self.mask(stmt, mask);
                }
                self.update(to, known, state);
            }
            _ => {}
        }
    }
}

/// The modes along which elements of a reduction's sources are combined.
fn differ<'v>(from: &'v [View], to: &'v [View]) -> impl Fn(usize) -> bool + 'v {
    let extents = |all: &[View]| all.first().and_then(View::extents);
    let (from, to) = (extents(from), extents(to));
    move |mode| match (&from, &to) {
        (Some(from), Some(to)) => from.get(mode) != to.get(mode),
        _ => true,
    }
}

fn is_number(coord: &Coord, of: Id) -> bool {
    matches!(coord, Coord::Loaded { number, .. } if *number == of)
}
