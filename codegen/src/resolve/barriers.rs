//! Barriers between statements on whole tiles: before a thread reads what another has written to shared
//! memory, and before it overwrites what another may still read. Statements over parts of threads have the
//! barriers that their author wrote.

use std::collections::{BTreeMap, BTreeSet};

use crate::flow::{Edit, Forward, forward};
use crate::thread::Id;
use crate::tile::whole;
use crate::tile::{How, Op, Program, Space, Stmt};

/// Accesses to a tensor since the last barrier.
#[derive(Clone, Copy, Default, PartialEq)]
struct Since {
    read: bool,
    written: bool,
    /// Copies to it may be in flight.
    flying: bool,
    /// The statement that has written it, if there is only one.
    by: Option<Id>,
    /// Has a statement on whole tiles written it?
    whole: bool,
}

type State = BTreeMap<Id, Since>;

/// The statements with waits and barriers.
pub(super) fn placed(program: &Program, body: Vec<Stmt>) -> Vec<Stmt> {
    // Rings wait for their slots.
    let mut filled: BTreeSet<Id> =
        program.rings.iter().flat_map(|ring| ring.buffers.iter().copied()).collect();
    super::each(&body, &mut |stmt| {
        if let Op::Pipelined { body, .. } = &stmt.op {
            // The loop itself waits for its copies.
            filled.extend(
                body.iter()
                    .filter(|stmt| is_asynchronous(program, stmt))
                    .flat_map(Stmt::writes)
                    .map(|to| to.tensor),
            );
        }
    });
    forward(&mut Barriers { program, filled }, program, body, State::new())
}

/// Is it an asynchronous copy from global to shared memory, in flight until a wait?
fn is_asynchronous(program: &Program, stmt: &Stmt) -> bool {
    let Op::Copy { from, to, how: How::Derive | How::Async | How::Staged, token: None, .. } = &stmt.op else {
        return false;
    };
    let space = |id: Id| program.tensor(id).space;
    matches!((space(from.tensor), space(to.tensor)), (Space::Global { .. }, Space::Shared { .. }))
}

struct Barriers<'p> {
    program: &'p Program,
    /// What pipelined loops fill.
    filled: BTreeSet<Id>,
}

impl Forward<Program> for Barriers<'_> {
    type State = State;

    fn join(mut one: State, other: &State) -> State {
        for (id, since) in other {
            let known = one.entry(*id).or_default();
            known.by = match (known.written, since.written) {
                (true, true) if known.by != since.by => None,
                (true, _) => known.by,
                (false, _) => since.by,
            };
            known.read |= since.read;
            known.whole |= since.whole;
            known.written |= since.written;
            known.flying |= since.flying;
        }
        one
    }

    fn pass(&mut self, stmt: &Stmt, state: &mut State) -> Edit<Stmt> {
        match &stmt.op {
            Op::For { body, .. } | Op::Pipelined { body, .. } | Op::Tiles { body, .. } => {
                // Hazards with statements before a loop get a barrier before it, not in each iteration.
                let mut meets = None;
                super::each(body, &mut |inner| meets = meets.or(self.conflict(inner, state)));
                Edit::Ahead(meet(meets, stmt, state))
            }
            Op::Sync => {
                synchronised(state);
                Edit::Keep
            }
            Op::WaitCopies { pending: 0 } => {
                landed(state);
                Edit::Keep
            }
            _ => {
                let placed = meet(self.conflict(stmt, state), stmt, state);
                self.record(stmt, state);
                Edit::Ahead(placed)
            }
        }
    }
}

impl Barriers<'_> {
    /// The tensors that a statement reads and those that it writes, as far as other threads can see the
    /// writes; without those that pipelined loops fill.
    fn touched(&self, stmt: &Stmt) -> (Vec<Id>, Vec<Id>) {
        let ours = |id: &Id| match self.program.tensor(*id).space {
            Space::Shared { .. } => !self.filled.contains(id),
            Space::Global { mutable } => mutable,
            Space::Registers { .. } => false,
        };
        let reads = stmt.reads().into_iter().map(|view| view.tensor).filter(ours).collect();
        (reads, stmt.writes().into_iter().map(|view| view.tensor).filter(ours).collect())
    }

    /// Is a barrier needed before this? If so, also a wait for copies?
    fn conflict(&self, stmt: &Stmt, state: &State) -> Option<bool> {
        let (reads, writes) = self.touched(stmt);
        let since = |id: &Id| state.get(id).copied().unwrap_or_default();
        // An element that is read as an integer is one of a whole tile if a statement on whole tiles has written it.
        let takes = matches!(&stmt.op, Op::Take { from, .. } if since(&from.tensor).whole);
        if !takes && !whole::is_cooperative(self.program, stmt.by, &stmt.op) {
            return None;
        }
        let read = reads.iter().map(since).filter(|since| since.written);
        // One statement in a loop may write a result in global memory piece by piece.
        let shared = |id: &Id| matches!(self.program.tensor(*id).space, Space::Shared { .. });
        let other = |id: &Id| shared(id) || since(id).by != Some(stmt.id);
        let again = |id: &&Id| since(id).read || (since(id).written && other(id));
        let written = writes.iter().filter(again).map(since);
        let all: Vec<Since> = read.chain(written).collect();
        (!all.is_empty()).then(|| all.iter().any(|since| since.flying))
    }

    fn record(&self, stmt: &Stmt, state: &mut State) {
        let (reads, writes) = self.touched(stmt);
        for id in reads {
            state.entry(id).or_default().read = true;
        }
        for id in writes {
            let since = state.entry(id).or_default();
            since.by = if since.written && since.by != Some(stmt.id) { None } else { Some(stmt.id) };
            since.written = true;
            since.whole |= whole::is_cooperative(self.program, stmt.by, &stmt.op);
            since.flying |= is_asynchronous(self.program, stmt);
        }
    }
}

/// The barrier ahead of a statement that needs one, and the wait for copies if it needs that, too.
fn meet(meets: Option<bool>, stmt: &Stmt, state: &mut State) -> Vec<Stmt> {
    let Some(flying) = meets else { return Vec::new() };
    let mut ops = Vec::new();
    if flying {
        ops.push(Op::WaitCopies { pending: 0 });
        landed(state);
    }
    ops.push(Op::Sync);
    synchronised(state);
    // In a scheduled loop they run where the statement runs.
    ops.into_iter().map(|op| Stmt { op, ..stmt.clone() }).collect()
}

/// Copies have arrived.
fn landed(state: &mut State) {
    state.values_mut().for_each(|since| since.flying = false);
}

/// Behind a barrier.
fn synchronised(state: &mut State) {
    state.retain(|_, since| {
        since.read = false;
        since.written = since.flying;
        since.written
    });
}
