//! Barriers between statements on whole tiles: before a thread reads what another has written to shared
//! memory, and before it overwrites what another may still read. Statements over parts of threads have the
//! barriers that their author wrote.

use std::collections::{BTreeMap, BTreeSet};

use crate::pipeline::{Fetches, is_in_flight};
use crate::thread::Id;
use crate::tile::view::View;
use crate::tile::visit::preorder;
use crate::tile::whole;
use crate::tile::{Form, Op, Program, Ring, Space, Stmt};
use crate::values::affine::Coord;
use crate::values::flow::{Edit, Forward, forward};
use crate::values::operation::{Change, MemoryOrder};

/// Accesses to a tensor since the last barrier.
#[derive(Clone, Copy, Default, PartialEq)]
struct Since {
    read: bool,
    written: bool,
    /// Copies from it may be in flight.
    departing: bool,
    /// Copies to it may be in flight.
    arriving: bool,
    /// The statement that has written it, if there is only one.
    by: Option<Id>,
    /// Has a statement on whole tiles written it?
    whole: bool,
}

type State = BTreeMap<Id, Since>;

/// Shared tensors with copies that may be in flight where a statement begins, on some path to it.
#[derive(Default)]
pub(super) struct InFlight(BTreeMap<Id, BTreeSet<Id>>);

impl InFlight {
    /// May copies to one of these tensors be in flight where a statement begins?
    pub(super) fn any(&self, stmt: &Stmt, tensors: &[Id]) -> bool {
        self.0.get(&stmt.id).is_some_and(|all| tensors.iter().any(|id| all.contains(id)))
    }
}

/// The statements with waits and barriers, and the copies in flight between them.
pub(super) fn placed(program: &Program, body: Vec<Stmt>) -> (Vec<Stmt>, InFlight) {
    // A pipelined loop waits for its copies, and no other statement writes there.
    let filled = preorder(&body).flat_map(|stmt| match &stmt.op {
        Op::For { var, ahead: Some(ahead), body, .. } => {
            Fetches::of(program, *var, ahead, body).tensors(body)
        }
        _ => Vec::new(),
    });
    let filled = filled.collect();
    let views = preorder(&body).flat_map(Stmt::accesses);
    let peers = views.filter(|view| view.peer.is_some()).map(|view| view.tensor).collect();
    let mut barriers =
        Barriers { program, filled, own: BTreeSet::new(), peers, in_flight: InFlight::default() };
    barriers.own = barriers.replaced(&body);
    let body = forward(&mut barriers, program, body, State::new());
    (body, barriers.in_flight)
}

struct Barriers<'p> {
    program: &'p Program,
    /// Tensors that pipelined loops fill.
    filled: BTreeSet<Id>,
    /// Tensors in global memory whose elements are read by the thread that writes them, and by no other one.
    own: BTreeSet<Id>,
    /// Tensors in shared memory that other blocks of the cluster access.
    peers: BTreeSet<Id>,
    in_flight: InFlight,
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
            known.departing |= since.departing;
            known.arriving |= since.arriving;
        }
        one
    }

    fn pass(&mut self, stmt: &Stmt, state: &mut State) -> Edit<Stmt> {
        match &stmt.op {
            Op::For { body, .. } | Op::Tiles { body, .. } => {
                // Hazards with statements before a loop get a barrier before it, not in each iteration.
                let meets = preorder(body).find_map(|inner| self.conflict(inner, state));
                Edit::Ahead(meet(meets, stmt, state))
            }
            _ if stmt.is_barrier() => {
                // Copies are waited for before their memory is released, or accessed by other blocks.
                let others = |id: &Id, since: &Since| {
                    stmt.op == Op::SyncCluster && since.whole && self.peers.contains(id)
                };
                let flies = state.iter().any(|(id, since)| {
                    (since.arriving || since.departing) && (stmt.releases() || others(id, since))
                });
                let wait = Stmt { op: Op::Wait { token: None, but: 0 }, ..stmt.clone() };
                if flies {
                    landed(state);
                }
                synchronised(state);
                if flies { Edit::Ahead(vec![wait]) } else { Edit::Keep }
            }
            Op::Wait { token: None, but: 0 } => {
                landed(state);
                Edit::Keep
            }
            // Another slot, or the same slot after a wait of the producer for all threads that have accessed it.
            Op::Await { ring, .. } => {
                let buffers = &self.program.rings[*ring as usize].buffers;
                state.retain(|id, _| !buffers.contains(id));
                Edit::Keep
            }
            _ => {
                let placed = meet(self.conflict(stmt, state), stmt, state);
                let arriving = state.iter().filter(|(_, since)| since.arriving);
                self.in_flight.0.insert(stmt.id, arriving.map(|(id, _)| *id).collect());
                self.record(stmt, state);
                Edit::Ahead(placed)
            }
        }
    }
}

impl Barriers<'_> {
    /// The tensors that a statement reads, and the tensors that it writes visibly to other threads;
    /// without tensors that pipelined loops fill, and slots of rings that other threads fill.
    fn touched<'s>(&self, stmt: &'s Stmt) -> (Vec<Id>, Vec<&'s View>) {
        let fills = |id: &Id| {
            let others = |ring: &Ring| ring.to != stmt.by || ring.from == ring.to;
            self.program.rings.iter().any(|ring| others(ring) && ring.buffers.contains(id))
        };
        let ours = |id: &Id| match self.program.tensor(*id).space {
            Space::Shared { .. } => !self.filled.contains(id) && !fills(id),
            Space::Global { mutable } => mutable && !self.own.contains(id),
            Space::Registers { .. } => false,
        };
        let reads = stmt.reads().into_iter().map(|view| view.tensor).filter(ours).collect();
        (reads, stmt.writes().into_iter().filter(|view| ours(&view.tensor)).collect())
    }

    /// Is a barrier needed before this? If so, also a wait for copies?
    fn conflict(&self, stmt: &Stmt, state: &State) -> Option<bool> {
        // An update that releases comes after all accesses of other threads.
        if is_ordered(&stmt.op) && whole::is_cooperative(self.program, stmt.by, &stmt.op) && !state.is_empty()
        {
            return Some(state.values().any(|since| since.arriving || since.departing));
        }
        let (reads, writes) = self.touched(stmt);
        let since = |id: &Id| state.get(id).copied().unwrap_or_default();
        // An element that is read as an integer is one of a whole tile if a statement on whole tiles has written it.
        let takes = matches!(&stmt.op, Op::Take { from, .. } if since(&from.tensor).whole);
        if !takes && !whole::is_cooperative(self.program, stmt.by, &stmt.op) {
            return None;
        }
        let read = reads.iter().map(since).filter(|since| since.written).map(|since| since.arriving);
        let again = |to: &&&View| {
            let since = since(&to.tensor);
            since.read || (since.written && (since.by != Some(stmt.id) || !self.in_pieces(stmt, to)))
        };
        let written = writes.iter().filter(again).map(|to| since(&to.tensor));
        let written = written.map(|since| since.arriving || since.departing);
        read.chain(written).reduce(|all, waits| all || waits)
    }

    /// Tensors whose elements one function reads, and the only other statement on them copies its results there: both statements
    /// have the distribution of these results, in which each element has one thread.
    fn replaced(&self, body: &[Stmt]) -> BTreeSet<Id> {
        let mut accesses = BTreeMap::<Id, Vec<&Stmt>>::new();
        for stmt in preorder(body) {
            for id in stmt.accesses().map(|view| view.tensor).collect::<BTreeSet<_>>() {
                accesses.entry(id).or_default().push(stmt);
            }
        }
        let is_replaced = |id: &Id, stmts: &[&Stmt]| match stmts {
            [Stmt { op: Op::Map { ins, to: results, .. }, by, .. }, writer] => match &writer.op {
                Op::Copy { from, to, .. } => {
                    let mut reads = ins.iter().filter(|view| view.tensor == *id);
                    let is_tile = ins.iter().any(|view| self.has_one_owner(view)) && from.is_same(results);
                    let same = to.tensor == *id && writer.by == *by && reads.all(|view| view.is_same(to));
                    is_tile && same && self.in_pieces(writer, to)
                }
                _ => false,
            },
            _ => false,
        };
        accesses.into_iter().filter(|(id, stmts)| is_replaced(id, stmts)).map(|(id, _)| id).collect()
    }

    /// Does one thread have each element, by the tile's distribution? Small tiles are replicated.
    fn has_one_owner(&self, view: &View) -> bool {
        matches!(self.program.forms.get(&view.tensor), Some(Form::Sums(_)))
    }

    /// Does a statement in a loop write a result in global memory piece by piece? Each iteration writes its own elements,
    /// or the same elements by the same threads.
    fn in_pieces(&self, stmt: &Stmt, to: &View) -> bool {
        let varies = |coord: &Coord| {
            !matches!(coord, Coord::Block(_) | Coord::ClusterRank | Coord::Size { .. } | Coord::Scalar(_))
        };
        let is_global = matches!(self.program.tensor(to.tensor).space, Space::Global { .. });
        is_global && (stmt.op.updates().is_some() || to.is_aligned(&varies))
    }

    fn record(&self, stmt: &Stmt, state: &mut State) {
        let (reads, writes) = self.touched(stmt);
        // A pipelined loop waits for its copies.
        let flies = is_in_flight(self.program, stmt)
            && stmt.writes().iter().all(|to| !self.filled.contains(&to.tensor));
        for id in reads {
            let since = state.entry(id).or_default();
            since.read = true;
            since.departing |= flies;
        }
        for to in writes {
            let since = state.entry(to.tensor).or_default();
            since.by = if since.written && since.by != Some(stmt.id) { None } else { Some(stmt.id) };
            since.written = true;
            since.whole |= whole::is_cooperative(self.program, stmt.by, &stmt.op);
            since.arriving |= flies;
        }
    }
}

/// Is it an atomic update that orders other accesses, other than a wait, which only later accesses stand behind?
fn is_ordered(op: &Op) -> bool {
    matches!(op, Op::Atomic { update, .. } | Op::Scatter { update: Some(update), .. } if update.with != Change::Await && update.order != MemoryOrder::Relaxed)
}

/// The barrier ahead of a statement that needs one, and the wait for copies if it needs that, too.
fn meet(meets: Option<bool>, stmt: &Stmt, state: &mut State) -> Vec<Stmt> {
    let Some(waits) = meets else { return Vec::new() };
    let mut ops = Vec::new();
    if waits {
        ops.push(Op::Wait { token: None, but: 0 });
        landed(state);
    }
    ops.push(Op::Sync);
    synchronised(state);
    // In a scheduled loop they run where the statement runs.
    ops.into_iter().map(|op| Stmt { op, ..stmt.clone() }).collect()
}

/// Copies have arrived.
fn landed(state: &mut State) {
    state.values_mut().for_each(|since| (since.departing, since.arriving) = (false, false));
}

/// After a barrier.
fn synchronised(state: &mut State) {
    state.retain(|_, since| {
        (since.read, since.written) = (since.departing, since.arriving);
        since.read || since.written
    });
}
