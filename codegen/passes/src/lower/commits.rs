//! Commit groups of cp.async. A wait for all copies counts groups: every copy before it must have been committed, on every
//! path. A forward dataflow pass over the thread program inserts a commit before each wait that uncommitted copies can reach,
//! and removes waits that no copy can precede. Commits before waits that leave groups in flight are in the tile program.

use crate::isa::atom::Done;
use crate::thread::visit::Order;
use crate::thread::{Kernel, Op, Queue, Stmt};
use crate::values::flow::{CopyGroups, Edit, Forward, forward};

/// Inserts commits before the waits that count them.
pub(super) fn insert(kernel: &mut Kernel) {
    let body = std::mem::take(&mut kernel.body);
    kernel.body = forward(&mut Commits, kernel, body, CopyGroups::ENTRY);
}

struct Commits;

impl Forward<Kernel> for Commits {
    type State = CopyGroups;

    fn join(one: CopyGroups, other: &CopyGroups) -> CopyGroups {
        one.join(other)
    }

    fn pass(&mut self, stmt: &Stmt, groups: &mut CopyGroups) -> Edit<Stmt> {
        let before = *groups;
        match copies(&stmt.op) {
            Some(Copies::Issue) => groups.issue(),
            Some(Copies::Commit) => groups.commit(),
            Some(Copies::Wait) => {
                groups.commit();
                if !before.issued {
                    return Edit::Instead(Vec::new());
                }
                if before.open {
                    return Edit::Ahead(vec![Stmt { site: stmt.site, op: Op::Commit(Queue::CpAsync) }]);
                }
            }
            None => {}
        }
        Edit::Keep
    }
}

/// The effect of a statement on the commit groups of a queue.
pub(super) enum Copies {
    Issue,
    Commit,
    /// A wait for all, or all but some of the latest groups.
    Wait,
}

/// The effect of a statement, without its blocks, on the groups of cp.async.
pub(super) fn copies(op: &Op) -> Option<Copies> {
    groups(op, Queue::CpAsync)
}

/// The effect of a statement, without its blocks, on the groups of a queue.
pub(super) fn groups(op: &Op, of: Queue) -> Option<Copies> {
    match op.order() {
        Order::Issue(row) => (row.family.completes == Done::Queue(of)).then_some(Copies::Issue),
        Order::Commit(queue) => (queue == of).then_some(Copies::Commit),
        Order::Wait(queue, _) => (queue == of).then_some(Copies::Wait),
        Order::None | Order::Fence(_) | Order::Barrier | Order::Arrive | Order::Await => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa;
    use crate::lower::{Lower, Policy};
    use crate::thread::Unroll;
    use crate::thread::index::Ix;
    use crate::tile::Program;
    use crate::tile::bounds::Assumed;

    fn copy() -> Op {
        let row = isa::find("cp_async_16").expect("a row of the table");
        Op::Atom { row, args: Vec::new(), guard: None }
    }

    fn wait(pending: u32) -> Op {
        Op::WaitQueue { queue: Queue::CpAsync, pending }
    }

    const COMMIT: Op = Op::Commit(Queue::CpAsync);

    fn block(ops: Vec<Op>) -> Vec<Stmt> {
        ops.into_iter().map(|op| Stmt { site: 0, op }).collect()
    }

    fn looped(body: Vec<Op>) -> Op {
        let at = Ix::default();
        Op::For { var: 0, from: at, to: at, step: 1, unroll: Unroll::No, body: block(body) }
    }

    fn either(then: Vec<Op>, other: Vec<Op>) -> Op {
        Op::If { cond: Ix::default().into(), then: block(then), other: block(other) }
    }

    #[track_caller]
    fn check(before: Vec<Op>, after: Vec<Op>) {
        let mut kernel = Lower::new(Assumed::new(&Program::new("k"), Policy::General)).kernel;
        kernel.body = block(before);
        insert(&mut kernel);
        assert_eq!(kernel.body, block(after));
    }

    #[test]
    fn straight_lines() {
        check(vec![copy(), wait(0)], vec![copy(), COMMIT, wait(0)]);
        check(vec![copy(), COMMIT, wait(0)], vec![copy(), COMMIT, wait(0)]);
        check(vec![copy(), COMMIT, copy(), wait(1)], vec![copy(), COMMIT, copy(), COMMIT, wait(1)]);
        check(vec![wait(0), copy()], vec![copy()]);
    }

    #[test]
    fn copies_in_flight_at_the_end_of_a_body_are_committed_in_the_next_iteration() {
        check(
            vec![copy(), COMMIT, looped(vec![wait(0), copy()])],
            vec![copy(), COMMIT, looped(vec![COMMIT, wait(0), copy()])],
        );
        check(
            vec![looped(vec![wait(0), copy()]), wait(0)],
            vec![looped(vec![COMMIT, wait(0), copy()]), COMMIT, wait(0)],
        );
    }

    #[test]
    fn early_exits_count() {
        let leave = || Op::Leave { of: 0, cond: Ix::default() };
        check(
            vec![looped(vec![copy(), leave(), COMMIT]), wait(0)],
            vec![looped(vec![copy(), leave(), COMMIT]), COMMIT, wait(0)],
        );
    }

    #[test]
    fn copies_on_some_paths_are_committed() {
        check(
            vec![either(vec![copy()], vec![]), wait(0)],
            vec![either(vec![copy()], vec![]), COMMIT, wait(0)],
        );
    }
}
