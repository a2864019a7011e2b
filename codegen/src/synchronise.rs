//! Synchronisation of rings that one group both fills and empties, as those of pipelined loops: waits and barriers of the
//! group take the place of mbarriers.
//!
//! A ring states what must hold, and this pass places what ensures it:
//!
//! - `await`: the slot is full. Each thread waits for its own copies, which it counts by commit groups, one for each
//!   `publish`; a barrier behind the wait covers those of other threads, and stores of copies through registers.
//! - `acquire`: the slot is free. The barrier of an `await` also stands behind all earlier releases, so from two slots on
//!   one barrier in each iteration serves both. With a single slot, a `release` has a barrier of its own.
//! - A ring begins at phase 0, with every slot free: a barrier comes first if its buffers may still be in use, by an earlier
//!   ring or by the same one in an iteration of a loop around.
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

use crate::affine::Coord;
use crate::diagnostic::Diagnostic;
use crate::id::Id;
use crate::tile::{How, LaunchRule, Op, Past, Program, Ring, Stmt};

/// The program with waits and barriers in place of the statements of rings that one group fills and empties, and without
/// these rings, which are its last ones; and with the commits that waits for copies count.
pub fn synchronised(program: Program) -> Result<Program, Diagnostic> {
    commits::placed(without_rings(program))
}

fn without_rings(mut program: Program) -> Program {
    if !program.rings.iter().any(Ring::is_of_one_group) {
        return program;
    }
    let body = std::mem::take(&mut program.body);
    let mut place =
        Place { asynchronous: asynchronous(&program, &body), program: &program, left: BTreeMap::new() };
    let body = place.body(body, &mut State::default());
    program.rings.retain(|ring| !ring.is_of_one_group());
    program.body = body;
    program
}

/// The rings whose fills may be asynchronous copies.
fn asynchronous(program: &Program, body: &[Stmt]) -> BTreeSet<Id> {
    let (mut filled, mut found) = (BTreeSet::new(), BTreeSet::new());
    let buffers = |ring: Id| &program.rings[ring as usize].buffers;
    for stmt in body {
        stmt.each(&mut |stmt| match &stmt.op {
            Op::Acquire { ring, .. } => {
                filled.insert(*ring);
            }
            Op::Publish { ring, .. } => {
                filled.remove(ring);
            }
            Op::Copy { to, how: How::Derive | How::Async, .. } => {
                found.extend(filled.iter().copied().filter(|ring| buffers(*ring).contains(&to.tensor)));
            }
            _ => {}
        });
    }
    found
}

/// Tensors in shared memory that threads of a group may be using.
type Used = BTreeMap<Id, Id>;

/// The state at a point of the program, as far as it is known on every path.
#[derive(Clone, Default)]
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
    /// Those that are known after the next barrier.
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

    /// At the head of a loop: what is known in every iteration.
    fn at_head(self, ring: Id, slots: u32, body: &[Stmt]) -> Ends {
        let mut head = self;
        loop {
            let mut end = head;
            for stmt in body {
                stmt.each(&mut |stmt| {
                    if of_ring(stmt) == Some(ring) {
                        end.pass(&stmt.op, slots);
                    }
                });
            }
            let both = Ends {
                full: head.full.min(end.full),
                free: head.free.min(end.free),
                released: head.released.min(end.released),
            };
            if both == head {
                return head;
            }
            head = both;
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

struct Place<'p> {
    program: &'p Program,
    /// Rings that have commit groups.
    asynchronous: BTreeSet<Id>,
    /// What may be in use where the loop around is left early.
    left: Used,
}

impl Place<'_> {
    fn ring(&self, stmt: &Stmt) -> Option<(Id, &Ring)> {
        let id = of_ring(stmt)?;
        let ring = &self.program.rings[id as usize];
        ring.is_of_one_group().then_some((id, ring))
    }

    fn body(&mut self, body: Vec<Stmt>, state: &mut State) -> Vec<Stmt> {
        let mut placed = Vec::new();
        for stmt in body {
            self.statement(stmt, state, &mut placed);
        }
        placed
    }

    fn statement(&mut self, mut stmt: Stmt, state: &mut State, placed: &mut Vec<Stmt>) {
        if self.ring(&stmt).is_some() {
            return self.synchronise(&stmt, state, placed);
        }
        let persistent = self.program.launch == LaunchRule::Persistent;
        match &mut stmt.op {
            Op::For { body, .. } | Op::Tiles { body, .. } => {
                let body = std::mem::take(body);
                let again = !matches!(stmt.op, Op::Tiles { .. }) || persistent;
                self.at_head(&stmt, &body, again, state, placed);
                let (entry, around) = (state.used.clone(), std::mem::take(&mut self.left));
                let body = self.body(body, state);
                // It may run no iteration.
                state.used.extend(entry);
                state.used.extend(std::mem::replace(&mut self.left, around));
                if let Op::For { body: all, .. } | Op::Tiles { body: all, .. } = &mut stmt.op {
                    *all = body;
                }
            }
            Op::Step { body, past, .. } => {
                // What an unpredicated step waits for first is waited for ahead of it.
                while *past != Past::Skip && body.first().is_some_and(|first| self.ring(first).is_some()) {
                    let first = body.remove(0);
                    self.synchronise(&first, state, placed);
                }
                *body = self.body(std::mem::take(body), state);
            }
            Op::If { then, other, .. } | Op::When { then, other, .. } => {
                let mut second = state.clone();
                *then = self.body(std::mem::take(then), state);
                *other = self.body(std::mem::take(other), &mut second);
                state.used.extend(second.used);
            }
            Op::Roles(roles) => {
                let entry = state.clone();
                for (_, body) in roles {
                    let mut own = entry.clone();
                    *body = self.body(std::mem::take(body), &mut own);
                    state.used.extend(own.used);
                }
            }
            Op::Sync => state.meet(stmt.by),
            Op::Leave { .. } => self.left.extend(state.used.clone()),
            _ => {
                for body in stmt.bodies_mut() {
                    *body = self.body(std::mem::take(body), state);
                }
            }
        }
        placed.push(stmt);
    }

    /// The head of a loop: what is known of rings in every iteration, and the barrier of one that begins with the loop.
    fn at_head(&self, looped: &Stmt, body: &[Stmt], again: bool, state: &mut State, placed: &mut Vec<Stmt>) {
        for stmt in body {
            let first = |var: Id, phase: &crate::affine::Affine| *phase == Coord::Var(var).into();
            if let (Op::For { var, .. }, Op::Acquire { phase, .. }) = (&looped.op, &stmt.op)
                && first(*var, phase)
                && let Some((id, _)) = self.ring(stmt)
            {
                self.begin(id, stmt, state, placed);
            }
            stmt.each(&mut |inner| {
                let Some((id, ring)) = self.ring(inner) else { return };
                match state.rings.get_mut(&id) {
                    Some(ends) => *ends = ends.at_head(id, ring.slots, body),
                    // It begins in each iteration: those before may still use its buffers.
                    None if again && ring.slots > 1 => {
                        state.used.extend(ring.buffers.iter().map(|buffer| (*buffer, inner.by)));
                    }
                    None => {}
                }
            });
        }
    }

    /// A ring begins.
    fn begin(&self, id: Id, stmt: &Stmt, state: &mut State, placed: &mut Vec<Stmt>) {
        let ring = &self.program.rings[id as usize];
        if ring.buffers.iter().any(|buffer| state.used.contains_key(buffer)) {
            placed.push(Stmt { op: Op::Sync, ..stmt.clone() });
            state.meet(stmt.by);
        }
        state.rings.insert(id, Ends::new(ring.slots));
    }

    /// A statement of a ring.
    fn synchronise(&self, stmt: &Stmt, state: &mut State, placed: &mut Vec<Stmt>) {
        let Some((id, ring)) = self.ring(stmt) else { return };
        if let Op::Acquire { phase, .. } = &stmt.op
            && phase.constant() == Some(0)
        {
            self.begin(id, stmt, state, placed);
        }
        let ends = state.rings.entry(id).or_insert(Ends::new(ring.slots));
        let barrier = ends.pass(&stmt.op, ring.slots);
        let in_flight = ends.full;
        let mut place = |op| placed.push(Stmt { op, ..stmt.clone() });
        match stmt.op {
            _ if !self.asynchronous.contains(&id) => {}
            Op::Await { .. } => place(Op::WaitCopies { pending: in_flight }),
            // A wait for all copies commits them.
            Op::Publish { .. } if ring.slots > 1 => place(Op::CommitCopies),
            _ => {}
        }
        if barrier != Barrier::None {
            place(Op::Sync);
            state.meet(stmt.by);
        }
        if barrier == Barrier::None || !matches!(stmt.op, Op::Release { .. }) {
            state.used.extend(ring.buffers.iter().map(|buffer| (*buffer, stmt.by)));
        }
    }
}
