//! Proxy fences. Bulk copies and tensor cores access shared memory through the async proxy. A thread's
//! ordinary accesses, through the generic proxy, are ordered before those by a proxy fence of that thread,
//! ahead of the barrier or arrival that publishes them.
//!
//! A forward dataflow pass over the thread program inserts a fence where an array
//! that both proxies access was touched since the last one.

use super::flow::{Edit, Forward, end, forward};
use crate::mention::blocks;
use crate::thread::{AtomArg, Fence, Id, Kernel, Mem, Op, Scope, Space, Stmt, Unroll};

/// Inserts fences.
pub(super) fn place(kernel: &mut Kernel) {
    let mut both = Vec::new();
    asynchronous(&kernel.body, &mut both);
    if both.is_empty() {
        return;
    }
    forward(&mut Fences { both }, kernel, false);
}

/// The memory that an operand of an instruction names.
fn memory(arg: &AtomArg) -> Option<&Mem> {
    match arg {
        AtomArg::At(at) | AtomArg::Descriptor { at, .. } => Some(at),
        AtomArg::Frag(_) | AtomArg::Map { .. } | AtomArg::Barrier { .. } | AtomArg::Int(_) => None,
    }
}

fn shared(mem: &Mem) -> Option<Id> {
    match mem.space {
        Space::Shared(id) => Some(id),
        Space::Global(_) => None,
    }
}

/// Shared arrays that instructions reach through the asynchronous proxy.
fn asynchronous(body: &[Stmt], to: &mut Vec<Id>) {
    for stmt in body {
        if let Op::Atom { row, args, .. } = &stmt.op
            && row.async_proxy
        {
            to.extend(args.iter().filter_map(memory).filter_map(shared));
        }
        blocks(&stmt.op).into_iter().for_each(|body| asynchronous(body, to));
    }
}

struct Fences {
    /// Arrays that instructions reach through the asynchronous proxy.
    both: Vec<Id>,
}

impl Forward for Fences {
    /// Are there unfenced accesses on some path?
    type State = bool;

    fn join(one: bool, other: &bool) -> bool {
        one || *other
    }

    fn pass(&mut self, stmt: &Stmt, open: &mut bool) -> Edit {
        let fenced = *open && (publishes(&stmt.op) || self.only_publishes(&stmt.op));
        *open &= !fenced && stmt.op != Op::Fence(Fence::ProxyAsync);
        *open |= self.accesses(&stmt.op);
        if fenced { Edit::Ahead(Op::Fence(Fence::ProxyAsync)) } else { Edit::Keep }
    }
}

impl Fences {
    /// An unrolled loop whose body publishes and leaves nothing unfenced: one fence before it, instead of one in each
    /// iteration.
    fn only_publishes(&mut self, op: &Op) -> bool {
        let Op::For { body, unroll: Unroll::Full, .. } = op else { return false };
        body.iter().any(|stmt| publishes(&stmt.op)) && !end(self, body, false)
    }

    /// Does a statement itself access these arrays through the generic proxy?
    fn accesses(&self, op: &Op) -> bool {
        let known = |mem: &Mem| shared(mem).is_some_and(|id| self.both.contains(&id));
        match op {
            Op::Load { from: mem, .. } | Op::Store { to: mem, .. } | Op::Atomic { to: mem, .. } => known(mem),
            Op::Atom { row, args, .. } => !row.async_proxy && args.iter().filter_map(memory).any(known),
            Op::Comment(_)
            | Op::Let(..)
            | Op::Set(..)
            | Op::Take(..)
            | Op::Assign { .. }
            | Op::AwaitFlag { .. }
            | Op::Commit(_)
            | Op::WaitQueue { .. }
            | Op::Fence(_)
            | Op::Sync(_)
            | Op::Arrive { .. }
            | Op::Await { .. }
            | Op::InitBarriers(_)
            | Op::For { .. }
            | Op::Leave { .. }
            | Op::If { .. }
            | Op::When { .. }
            | Op::Elect(..)
            | Op::Roles(_) => false,
        }
    }
}

/// Does a statement publish what its threads have done, or issue an access through the async proxy?
fn publishes(op: &Op) -> bool {
    match op {
        Op::Sync(_) | Op::Arrive { .. } | Op::Fence(Fence::Threads(Scope::Warp)) => true,
        Op::Atom { row, .. } => row.async_proxy,
        // One elected thread acts for the others.
        Op::Elect(_, body) => body.iter().any(|stmt| publishes(&stmt.op)),
        Op::Comment(_)
        | Op::Let(..)
        | Op::Set(..)
        | Op::Take(..)
        | Op::Assign { .. }
        | Op::Load { .. }
        | Op::Store { .. }
        | Op::Atomic { .. }
        | Op::AwaitFlag { .. }
        | Op::Commit(_)
        | Op::WaitQueue { .. }
        | Op::Fence(_)
        | Op::Await { .. }
        | Op::InitBarriers(_)
        | Op::For { .. }
        | Op::Leave { .. }
        | Op::If { .. }
        | Op::When { .. }
        | Op::Roles(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atoms;
    use crate::index::Ix;
    use crate::lower::{Lower, Policy};
    use crate::thread::Frag;
    use crate::tile::Program;

    fn at(array: Id) -> Mem {
        Mem { space: Space::Shared(array), index: Ix::default(), peer: None }
    }

    fn store(array: Id) -> Op {
        let from = Frag { reg: 0, at: Ix::default(), len: 1 };
        Op::Store { to: at(array), from, guard: None }
    }

    /// A bulk store reads the first array.
    fn bulk() -> Op {
        let row = atoms::find("bulk_store_2d").expect("a row of the table");
        Op::Atom { row, args: vec![AtomArg::At(at(0))], guard: None }
    }

    const FENCE: Op = Op::Fence(Fence::ProxyAsync);

    fn block(ops: Vec<Op>) -> Vec<Stmt> {
        ops.into_iter().map(|op| Stmt { site: 0, op }).collect()
    }

    fn looped(body: Vec<Op>) -> Op {
        let at = Ix::default();
        Op::For { var: 0, from: at, to: at, step: 1, unroll: Unroll::No, body: block(body) }
    }

    #[track_caller]
    fn check(before: Vec<Op>, after: Vec<Op>) {
        let mut kernel = Lower::new(&Program::new("k"), Policy::General).kernel;
        kernel.body = block(before);
        place(&mut kernel);
        assert_eq!(kernel.body, block(after));
    }

    #[test]
    fn fences_come_before_barriers() {
        let one = || Op::Elect(Scope::Block, block(vec![bulk()]));
        check(vec![store(0), Op::Sync(0), one()], vec![store(0), FENCE, Op::Sync(0), one()]);
        // The async proxy never accesses the second array.
        check(vec![store(1), Op::Sync(0), one()], vec![store(1), Op::Sync(0), one()]);
        check(vec![store(0), store(0), one()], vec![store(0), store(0), FENCE, one()]);
    }

    #[test]
    fn unfenced_accesses_at_the_end_of_a_body_are_fenced_in_the_next_iteration() {
        check(
            vec![looped(vec![Op::Sync(0), bulk(), store(0)])],
            vec![looped(vec![FENCE, Op::Sync(0), bulk(), store(0)])],
        );
    }

    #[test]
    fn one_fence_stands_before_an_unrolled_loop() {
        let unrolled = |body: Vec<Op>| {
            let at = Ix::default();
            Op::For { var: 0, from: at, to: at, step: 1, unroll: Unroll::Full, body: block(body) }
        };
        check(vec![store(0), unrolled(vec![bulk()])], vec![store(0), FENCE, unrolled(vec![bulk()])]);
        // Here each iteration stores what the next one publishes.
        check(
            vec![store(0), unrolled(vec![bulk(), store(0)])],
            vec![store(0), unrolled(vec![FENCE, bulk(), store(0)])],
        );
    }

    #[test]
    fn an_access_on_one_path_needs_a_fence() {
        let either = Op::If { cond: Ix::default(), then: block(vec![store(0)]), other: Vec::new() };
        check(vec![either.clone(), Op::Sync(0), bulk()], vec![either, FENCE, Op::Sync(0), bulk()]);
    }
}
