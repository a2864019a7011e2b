//! Proxy fences. Bulk copies and tensor cores access shared memory through the async proxy. A thread's
//! ordinary accesses, through the generic proxy, are ordered before accesses through the async proxy by a
//! proxy fence of that thread, ahead of the barrier or arrival that publishes them.
//!
//! A forward dataflow pass over the thread program inserts a fence where an array
//! that both proxies access was touched since the last one.

use crate::thread::visit::{Order, Use, preorder};
use crate::thread::{Fence, Id, Kernel, Op, Scope, Space, Stmt, Unroll};
use crate::values::flow::{Edit, Forward, end, forward};

/// Inserts fences.
pub(super) fn insert(kernel: &mut Kernel) {
    // Shared arrays that instructions reach through the asynchronous proxy.
    let both: Vec<Id> = preorder(&kernel.body).flat_map(|stmt| shared(&stmt.op, true)).collect();
    if both.is_empty() {
        return;
    }
    let body = std::mem::take(&mut kernel.body);
    kernel.body = forward(&mut Fences { kernel, both }, kernel, body, false);
}

/// The shared arrays that a statement itself accesses through this proxy.
fn shared(op: &Op, through_asynchronous: bool) -> Vec<Id> {
    let array = |used| match used {
        Use::Memory { space: Space::Shared(id), asynchronous, .. } => {
            (asynchronous == through_asynchronous).then_some(id)
        }
        Use::Memory { .. } | Use::Integer(_) | Use::Operand(_) | Use::Registers(..) => None,
    };
    op.uses().into_iter().filter_map(array).collect()
}

struct Fences<'k> {
    kernel: &'k Kernel,
    /// Arrays that instructions reach through the asynchronous proxy.
    both: Vec<Id>,
}

impl Forward<Kernel> for Fences<'_> {
    /// Are there unfenced accesses on some path?
    type State = bool;

    fn join(one: bool, other: &bool) -> bool {
        one || *other
    }

    fn pass(&mut self, stmt: &Stmt, open: &mut bool) -> Edit<Stmt> {
        let fenced = *open && (publishes(&stmt.op) || self.only_publishes(&stmt.op));
        *open &= !fenced && stmt.op != Op::Fence(Fence::ProxyAsync);
        *open |= self.accesses(&stmt.op);
        let fence = || Stmt { site: stmt.site, op: Op::Fence(Fence::ProxyAsync) };
        if fenced { Edit::Ahead(vec![fence()]) } else { Edit::Keep }
    }
}

impl Fences<'_> {
    /// An unrolled loop whose body publishes and makes no accesses that need a fence: one fence before it, instead of one in each
    /// iteration.
    fn only_publishes(&mut self, op: &Op) -> bool {
        let Op::For { body, unroll: Unroll::Full, .. } = op else { return false };
        preorder(body).any(|stmt| publishes(&stmt.op)) && !end(self, self.kernel, body, false)
    }

    /// Does a statement itself access these arrays through the generic proxy?
    fn accesses(&self, op: &Op) -> bool {
        shared(op, false).iter().any(|id| self.both.contains(id))
    }
}

/// Does a statement publish its threads' accesses, or issue an access through the async proxy?
fn publishes(op: &Op) -> bool {
    let own = match op.order() {
        Order::Barrier | Order::Arrive | Order::Fence(Fence::Threads(Scope::Warp)) => true,
        Order::Issue(row) => row.family.async_proxy,
        Order::None | Order::Commit(_) | Order::Wait(..) | Order::Fence(_) | Order::Await => false,
    };
    // One elected thread acts for the others.
    let elects = matches!(op, Op::Elect(..));
    own || (elects && op.blocks().into_iter().flatten().any(|stmt| publishes(&stmt.op)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa;
    use crate::lower::{Lower, Policy};
    use crate::thread::index::Ix;
    use crate::thread::{AtomArg, Frag, Mem};
    use crate::tile::Program;
    use crate::tile::bounds::Assumed;

    fn at(array: Id) -> Mem {
        Mem { space: Space::Shared(array), index: Ix::default(), peer: None }
    }

    fn store(array: Id) -> Op {
        let from = Frag { reg: 0, at: Ix::default(), len: 1 };
        Op::Store { to: at(array), from, guard: None }
    }

    /// A bulk store reads the first array.
    fn bulk() -> Op {
        let row = isa::find("bulk_store_2d").expect("a row of the table");
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
        let mut kernel = Lower::new(Assumed::new(&Program::new("k"), Policy::General)).kernel;
        kernel.body = block(before);
        insert(&mut kernel);
        assert_eq!(kernel.body, block(after));
    }

    #[test]
    fn fences_come_before_barriers() {
        let one = || Op::Elect(Scope::Block, block(vec![bulk()]));
        check(vec![store(0), Op::sync(0), one()], vec![store(0), FENCE, Op::sync(0), one()]);
        // The async proxy never accesses the second array.
        check(vec![store(1), Op::sync(0), one()], vec![store(1), Op::sync(0), one()]);
        check(vec![store(0), store(0), one()], vec![store(0), store(0), FENCE, one()]);
    }

    #[test]
    fn unfenced_accesses_at_the_end_of_a_body_are_fenced_in_the_next_iteration() {
        check(
            vec![looped(vec![Op::sync(0), bulk(), store(0)])],
            vec![looped(vec![FENCE, Op::sync(0), bulk(), store(0)])],
        );
    }

    #[test]
    fn one_fence_stands_before_an_unrolled_loop() {
        let unrolled = |body: Vec<Op>| {
            let at = Ix::default();
            Op::For { var: 0, from: at, to: at, step: 1, unroll: Unroll::Full, body: block(body) }
        };
        check(vec![store(0), unrolled(vec![bulk()])], vec![store(0), FENCE, unrolled(vec![bulk()])]);
        check(
            vec![store(0), unrolled(vec![unrolled(vec![bulk()])])],
            vec![store(0), FENCE, unrolled(vec![unrolled(vec![bulk()])])],
        );
        // Here each iteration stores what the next one publishes.
        check(
            vec![store(0), unrolled(vec![bulk(), store(0)])],
            vec![store(0), unrolled(vec![FENCE, bulk(), store(0)])],
        );
    }

    #[test]
    fn an_access_on_one_path_needs_a_fence() {
        let either = Op::If { cond: Ix::default().into(), then: block(vec![store(0)]), other: Vec::new() };
        check(vec![either.clone(), Op::sync(0), bulk()], vec![either, FENCE, Op::sync(0), bulk()]);
    }
}
