//! Forward dataflow over thread programs: a state at each point, over all paths to it, and statements that are inserted,
//! replaced or removed by it. Each analysis says what one statement does; control flow is here.
//!
//! Control flow decides, not the order of the text: what a loop's body leaves behind is there at its beginning.

use crate::atom::Done;
use crate::thread::visit::{Control, Order};
use crate::thread::{Id, Kernel, Op, Queue, Stmt};

/// An analysis.
pub(super) trait Forward {
    /// What is known at a point of the program.
    type State: Clone + PartialEq;

    /// The state where two paths meet. Of several joins with the same state all but the first change nothing.
    fn join(one: Self::State, other: &Self::State) -> Self::State;

    /// What a statement itself does, without the blocks inside it.
    fn pass(&mut self, stmt: &Stmt, state: &mut Self::State) -> Edit;
}

/// What becomes of a statement.
pub(super) enum Edit {
    Keep,
    Remove,
    /// It gets another one ahead of it.
    Ahead(Op),
    Become(Op),
}

/// Edits a kernel by an analysis, given the state at its entry.
pub(super) fn forward<F: Forward>(analysis: &mut F, kernel: &mut Kernel, entry: F::State) {
    let mut body = std::mem::take(&mut kernel.body);
    let warps = kernel.launch.threads.div_ceil(32);
    Walk { analysis, warps, leaving: Vec::new() }.block(&mut body, entry, true);
    kernel.body = body;
}

/// The state at the end of statements of one role, given that at their beginning.
pub(super) fn end<F: Forward>(analysis: &mut F, body: &[Stmt], entry: F::State) -> F::State {
    Walk { analysis, warps: 0, leaving: Vec::new() }.block(&mut body.to_vec(), entry, false)
}

struct Walk<'f, F: Forward> {
    analysis: &'f mut F,
    /// Those of the block.
    warps: u32,
    /// Loops around the statement, with the state at their early exits, if they have any.
    leaving: Vec<(Id, Option<F::State>)>,
}

impl<F: Forward> Walk<'_, F> {
    /// The state at the end of a block, from that at its beginning. Edits the block only with `write`.
    fn block(&mut self, block: &mut Vec<Stmt>, mut state: F::State, write: bool) -> F::State {
        let mut at = 0;
        while at < block.len() {
            match self.analysis.pass(&block[at], &mut state) {
                Edit::Remove if write => {
                    block.remove(at);
                    continue;
                }
                Edit::Ahead(op) if write => {
                    let site = block[at].site;
                    block.insert(at, Stmt { site, op });
                    at += 1;
                }
                Edit::Become(op) if write => block[at].op = op,
                Edit::Keep | Edit::Remove | Edit::Ahead(_) | Edit::Become(_) => {}
            }
            state = self.inside(&mut block[at].op, state, write);
            at += 1;
        }
        state
    }

    /// The state behind a statement, from that ahead of the blocks inside it.
    fn inside(&mut self, op: &mut Op, state: F::State, write: bool) -> F::State {
        // Does a thread perhaps execute none of the blocks?
        let (blocks, none) = match op.control() {
            Control::Straight => return state,
            Control::Repeat(var) => {
                return op
                    .blocks_mut()
                    .into_iter()
                    .fold(state, |state, body| self.repeated(var, body, state, write));
            }
            Control::Leave(of) => {
                if let Some((_, left)) = self.leaving.iter_mut().rev().find(|(var, _)| *var == of) {
                    let known = left.take();
                    *left = Some(known.map_or_else(|| state.clone(), |known| F::join(known, &state)));
                }
                return state;
            }
            Control::Either => (op.blocks_mut(), false),
            Control::Elect => (op.blocks_mut(), true),
            Control::Roles(warps) => (op.blocks_mut(), warps < self.warps),
        };
        let ends = blocks.into_iter().map(|block| self.block(block, state.clone(), write));
        match ends.reduce(|all, end| F::join(all, &end)) {
            Some(end) if none => F::join(end, &state),
            Some(end) => end,
            None => state,
        }
    }

    /// The state behind a loop. A fixed point: an iteration starts from the state ahead of the loop or from what the
    /// previous one leaves.
    fn repeated(&mut self, var: Id, body: &mut Vec<Stmt>, mut entry: F::State, write: bool) -> F::State {
        loop {
            self.leaving.push((var, None));
            let end = self.block(body, entry.clone(), false);
            let left = self.leaving.pop().and_then(|(_, left)| left);
            let again = F::join(entry.clone(), &end);
            if again == entry {
                if write {
                    self.leaving.push((var, None));
                    self.block(body, entry, true);
                    self.leaving.pop();
                }
                return left.map_or(again.clone(), |left| F::join(again, &left));
            }
            entry = again;
        }
    }
}

/// What a statement does to the commit groups of cp.async.
pub(super) enum Copies {
    Issue,
    Commit,
    /// A wait for all, or all but some of the latest groups.
    Wait,
}

/// What a statement itself does to these groups.
pub(super) fn copies(op: &Op) -> Option<Copies> {
    match op.order() {
        Order::Issue(row) => (row.done == Done::Queue(Queue::CpAsync)).then_some(Copies::Issue),
        Order::Commit(queue) => (queue == Queue::CpAsync).then_some(Copies::Commit),
        Order::Wait(queue, _) => (queue == Queue::CpAsync).then_some(Copies::Wait),
        Order::Nothing | Order::Fence(_) | Order::Barrier | Order::Arrive | Order::Await => None,
    }
}
