//! Synchronisation of rings that one group both fills and empties, as in pipelined loops: waits and barriers of the group
//! replace mbarriers.
//!
//! A ring states conditions, and this pass inserts the waits and barriers that ensure them:
//!
//! - `await`: the slot is full. Each thread waits for its own copies, which it counts by commit groups, one for each
//!   `publish`. A barrier after the wait covers other threads' copies, and stores of copies through registers.
//! - `acquire`: the slot is free. The barrier of an `await` also comes after all earlier releases, so with two slots or more,
//!   one barrier in each iteration ensures both conditions. With a single slot, a `release` has its own barrier.
//! - A ring begins at phase 0, with every slot free. A barrier comes first if its buffers may still be in use by an earlier
//!   ring, or by the same ring in an iteration of an outer loop.
//!
//! ```text
//! for k in 0..n {                       for k in 0..n {
//!     await k                               wait until at most 1 group is in flight; barrier
//!     acquire k + 2
//!     copies of iteration k + 2             copies of iteration k + 2
//!     publish k + 2                         commit
//!     work                                  work
//!     release k
//! }                                     }
//! ```

mod commits;

use std::collections::{BTreeMap, BTreeSet};

use crate::source::diagnostic::Diagnostic;
use crate::tile::visit::preorder;
use crate::tile::{How, Op, Program, Ring, Stmt};
use crate::values::affine::{Affine, Coord};
use crate::values::flow::{Edit, Forward, forward};
use crate::values::id::Id;

/// Replaces the statements of rings that one group fills and empties by waits and barriers. Removes these rings, which
/// are the last, and adds the commits that waits for copies count.
pub fn synchronised(program: Program) -> Result<Program, Diagnostic> {
    Ok(without_rings(commits::placed(program)?))
}

fn without_rings(mut program: Program) -> Program {
    if !program.rings.iter().any(Ring::is_of_one_group) {
        return program;
    }
    let body = std::mem::take(&mut program.body);
    let mut synchroniser = Synchroniser { asynchronous: asynchronous(&program, &body), program: &program };
    let body = forward(&mut synchroniser, &program, body, State::default());
    program.rings.retain(|ring| !ring.is_of_one_group());
    program.body = body;
    program
}

/// The rings whose fills may be asynchronous copies.
fn asynchronous(program: &Program, body: &[Stmt]) -> BTreeSet<Id> {
    let (mut filled, mut result) = (BTreeSet::new(), BTreeSet::new());
    let buffers = |ring: Id| &program.rings[ring as usize].buffers;
    for stmt in preorder(body) {
        match &stmt.op {
            Op::Acquire { ring, .. } => {
                filled.insert(*ring);
            }
            Op::Publish { ring, .. } => {
                filled.remove(ring);
            }
            Op::Copy { to, how: How::Derive | How::Async, .. } => {
                result.extend(filled.iter().copied().filter(|ring| buffers(*ring).contains(&to.tensor)));
            }
            _ => {}
        }
    }
    result
}

/// Tensors in shared memory that threads of a group may be using.
type Used = BTreeMap<Id, Id>;

/// The state at a point of the program, as far as it is known on every path.
#[derive(Clone, Default, PartialEq)]
struct State {
    /// The rings that have begun.
    rings: BTreeMap<Id, Ends>,
    /// Buffers that have been used since the last barrier of their group.
    used: Used,
}

impl State {
    /// A barrier of a group.
    fn meet(&mut self, by: Id) {
        self.used.retain(|_, of| *of != by);
        self.rings.values_mut().for_each(Ends::meet);
    }
}

/// Both ends of a ring.
#[derive(Clone, Copy, PartialEq)]
struct Ends {
    /// Slots that have been published, and not awaited.
    full: u32,
    /// Slots that every thread is known to have released.
    free: u32,
    /// Slots that are known to be released after the next barrier.
    released: u32,
}

impl Ends {
    fn new(slots: u32) -> Ends {
        Ends { full: 0, free: slots, released: slots }
    }

    fn meet(&mut self) {
        self.free = self.released;
    }

    /// A statement of the ring, and the barrier that it takes.
    fn pass(&mut self, op: &Op, slots: u32) -> Barrier {
        let barrier = match op {
            Op::Acquire { .. } if self.free == 0 => Barrier::Before,
            Op::Await { .. } => Barrier::Here,
            // No other slot is taken before this one is filled again.
            Op::Release { .. } if slots == 1 => Barrier::Here,
            _ => Barrier::None,
        };
        if barrier == Barrier::Before {
            self.meet();
        }
        match op {
            Op::Acquire { .. } => {
                self.free = self.free.saturating_sub(1);
                self.released = self.released.saturating_sub(1);
            }
            Op::Publish { .. } => self.full += 1,
            Op::Await { .. } => self.full = self.full.saturating_sub(1),
            Op::Release { .. } => self.released += 1,
            _ => {}
        }
        if barrier == Barrier::Here {
            self.meet();
        }
        barrier
    }

    /// The facts of two paths.
    fn join(self, other: Ends) -> Ends {
        Ends {
            full: self.full.min(other.full),
            free: self.free.min(other.free),
            released: self.released.min(other.released),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Barrier {
    None,
    /// Ahead of the statement.
    Before,
    /// Instead of the statement.
    Here,
}

/// The ring of a statement that synchronises.
fn of_ring(stmt: &Stmt) -> Option<Id> {
    match &stmt.op {
        Op::Acquire { ring, .. }
        | Op::Publish { ring, .. }
        | Op::Await { ring, .. }
        | Op::Release { ring, .. } => Some(*ring),
        _ => None,
    }
}

struct Synchroniser<'p> {
    program: &'p Program,
    /// Rings that have commit groups.
    asynchronous: BTreeSet<Id>,
}

impl Forward<Program> for Synchroniser<'_> {
    type State = State;

    fn join(mut one: State, other: &State) -> State {
        one.rings.retain(|ring, ends| {
            other.rings.get(ring).inspect(|others| *ends = ends.join(**others)).is_some()
        });
        other.used.iter().for_each(|(buffer, by)| {
            one.used.entry(*buffer).or_insert(*by);
        });
        one
    }

    fn pass(&mut self, stmt: &Stmt, state: &mut State) -> Edit<Stmt> {
        if self.ring(stmt).is_some() {
            return Edit::Instead(self.synchronise(stmt, state));
        }
        match &stmt.op {
            Op::For { var, body, .. } => return Edit::Ahead(self.at_head(*var, body, state)),
            Op::Sync => state.meet(stmt.by),
            _ => {}
        }
        Edit::Keep
    }
}

impl Synchroniser<'_> {
    fn ring(&self, stmt: &Stmt) -> Option<(Id, &Ring)> {
        let id = of_ring(stmt)?;
        let ring = &self.program.rings[id as usize];
        ring.is_of_one_group().then_some((id, ring))
    }

    /// The barriers ahead of a loop with which rings begin.
    fn at_head(&self, var: Id, body: &[Stmt], state: &mut State) -> Vec<Stmt> {
        let first = |phase: &Affine| *phase == Coord::Var(var).into();
        let begin = |stmt: &Stmt| match (&stmt.op, self.ring(stmt)) {
            (Op::Acquire { phase, .. }, Some((id, _))) if first(phase) => self.begin(id, stmt, state),
            _ => None,
        };
        body.iter().filter_map(begin).collect()
    }

    /// A ring begins, perhaps with a barrier.
    fn begin(&self, id: Id, stmt: &Stmt, state: &mut State) -> Option<Stmt> {
        let ring = &self.program.rings[id as usize];
        let used = ring.buffers.iter().any(|buffer| state.used.contains_key(buffer));
        if used {
            state.meet(stmt.by);
        }
        state.rings.insert(id, Ends::new(ring.slots));
        used.then(|| Stmt { op: Op::Sync, ..stmt.clone() })
    }

    /// The replacement of a statement of a ring.
    fn synchronise(&self, stmt: &Stmt, state: &mut State) -> Vec<Stmt> {
        let Some((id, ring)) = self.ring(stmt) else { return Vec::new() };
        let mut placed = Vec::new();
        if let Op::Acquire { phase, .. } = &stmt.op
            && phase.constant() == Some(0)
        {
            placed.extend(self.begin(id, stmt, state));
        }
        let ends = state.rings.entry(id).or_insert(Ends::new(ring.slots));
        let barrier = ends.pass(&stmt.op, ring.slots);
        let in_flight = ends.full;
        let mut emit = |op| placed.push(Stmt { op, ..stmt.clone() });
        match stmt.op {
            _ if !self.asynchronous.contains(&id) => {}
            Op::Await { .. } => emit(Op::Wait { token: None, but: in_flight }),
            // A wait for all copies commits them.
            Op::Publish { .. } if ring.slots > 1 => emit(Op::CommitCopies),
            _ => {}
        }
        if barrier != Barrier::None {
            emit(Op::Sync);
            state.meet(stmt.by);
        }
        if barrier == Barrier::None || !matches!(stmt.op, Op::Release { .. }) {
            state.used.extend(ring.buffers.iter().map(|buffer| (*buffer, stmt.by)));
        }
        placed
    }
}
