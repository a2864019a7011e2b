//! Commit groups of cp.async. A wait counts groups, so every copy before it must have been committed, on
//! every path. A forward dataflow pass over the thread program inserts a commit before each wait that
//! uncommitted copies can reach, and removes waits that no copy can precede.
//!
//! Control flow decides, not the order of the text: copies at the end of a loop's body are waited for at its
//! beginning.

use crate::ast::Span;
use crate::atom::Done;
use crate::diagnostic::Diagnostic;
use crate::problem::Problem;
use crate::thread::{Id, Kernel, Op, Queue, Stmt};

/// The dataflow state at a point of the program, over all paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Paths {
    /// On some path a copy was issued.
    issued: bool,
    /// On some path the last copies have not been committed.
    open: bool,
    /// On some path all copies have been committed.
    closed: bool,
}

impl Paths {
    /// The kernel's entry.
    const ENTRY: Paths = Paths { issued: false, open: false, closed: true };
    /// No path.
    const NONE: Paths = Paths { issued: false, open: false, closed: false };

    fn or(self, other: Paths) -> Paths {
        Paths {
            issued: self.issued || other.issued,
            open: self.open || other.open,
            closed: self.closed || other.closed,
        }
    }
}

/// Inserts commits before the waits that count them.
pub(super) fn place(kernel: &mut Kernel) -> Result<(), Diagnostic> {
    let mut body = std::mem::take(&mut kernel.body);
    let mut walk = Walk { leaving: Vec::new(), refused: None };
    walk.block(&mut body, Paths::ENTRY, true);
    kernel.body = body;
    match walk.refused {
        Some(site) => Err(ambiguous(kernel.sites[site as usize].span)),
        None => Ok(()),
    }
}

fn ambiguous(span: Span) -> Diagnostic {
    Problem::new(
        "this wait leaves some groups of copies in flight, and on some paths to it copies have not been committed to a group",
    )
    .help("write cp_async_commit() after the copies, on every path; or wait for all with cp_async_wait_all()")
    .at(span)
}

struct Walk {
    /// Loops around the statement, with the state at their early exits.
    leaving: Vec<(Id, Paths)>,
    /// A wait that cannot be placed.
    refused: Option<Id>,
}

impl Walk {
    /// The state at the end of a block, from that at its beginning. Rewrites the block only with `write`.
    fn block(&mut self, block: &mut Vec<Stmt>, mut paths: Paths, write: bool) -> Paths {
        let mut at = 0;
        while at < block.len() {
            let site = block[at].site;
            match &mut block[at].op {
                Op::Commit(Queue::CpAsync) => paths = Paths { open: false, closed: true, ..paths },
                Op::WaitQueue { queue: Queue::CpAsync, pending } => {
                    let all = *pending == 0;
                    if paths.open && paths.closed && !all {
                        self.refused.get_or_insert(site);
                    }
                    if !paths.issued && write {
                        block.remove(at);
                        continue;
                    }
                    if paths.open && write {
                        block.insert(at, Stmt { site, op: Op::Commit(Queue::CpAsync) });
                        at += 1;
                    }
                    paths = Paths { open: false, closed: true, ..paths };
                }
                Op::Atom { row, .. } if row.done == Done::Queue(Queue::CpAsync) => {
                    paths = Paths { issued: true, open: true, closed: false };
                }
                op => paths = self.inside(op, paths, write),
            }
            at += 1;
        }
        paths
    }

    fn inside(&mut self, op: &mut Op, paths: Paths, write: bool) -> Paths {
        match op {
            Op::For { var, body, .. } => {
                let mut entry = paths;
                // A fixed point: an iteration starts from what the previous one leaves.
                loop {
                    self.leaving.push((*var, Paths::NONE));
                    let end = self.block(body, entry, false);
                    let left = self.leaving.pop().map_or(Paths::NONE, |(_, left)| left);
                    let again = entry.or(end);
                    if again == entry {
                        if write {
                            self.leaving.push((*var, Paths::NONE));
                            self.block(body, entry, true);
                            self.leaving.pop();
                        }
                        return again.or(left);
                    }
                    entry = again;
                }
            }
            Op::Leave { of, .. } => {
                if let Some((_, left)) = self.leaving.iter_mut().rev().find(|(var, _)| var == of) {
                    *left = left.or(paths);
                }
                paths
            }
            Op::If { then, other, .. } | Op::When { then, other, .. } => {
                let first = self.block(then, paths, write);
                first.or(self.block(other, paths, write))
            }
            Op::Elect(_, body) => self.block(body, paths, write).or(paths),
            Op::Roles(roles) => {
                let ends = roles.iter_mut().map(|role| self.block(&mut role.body, paths, write));
                ends.fold(Paths::NONE, Paths::or)
            }
            Op::Comment(_)
            | Op::Let(..)
            | Op::Set(..)
            | Op::Take(..)
            | Op::Assign { .. }
            | Op::Load { .. }
            | Op::Store { .. }
            | Op::Atomic { .. }
            | Op::AwaitFlag { .. }
            | Op::Atom { .. }
            | Op::Commit(_)
            | Op::WaitQueue { .. }
            | Op::Fence(_)
            | Op::Sync(_)
            | Op::Arrive { .. }
            | Op::Await { .. }
            | Op::InitBarriers(_) => paths,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atoms;
    use crate::index::Ix;
    use crate::lower::{Lower, Policy};
    use crate::thread::Unroll;
    use crate::tile::Program;

    fn copy() -> Op {
        let row = atoms::find("cp_async_16").expect("a row of the table");
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
        Op::If { cond: Ix::default(), then: block(then), other: block(other) }
    }

    #[track_caller]
    fn check(before: Vec<Op>, after: Vec<Op>) {
        let mut kernel = Lower::new(&Program::new("k"), Policy::General).kernel;
        kernel.body = block(before);
        place(&mut kernel).unwrap();
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
    fn a_count_must_be_the_same_on_all_paths() {
        check(
            vec![either(vec![copy()], vec![]), wait(0)],
            vec![either(vec![copy()], vec![]), COMMIT, wait(0)],
        );
        let mut kernel = Lower::new(&Program::new("k"), Policy::General).kernel;
        kernel.body = block(vec![either(vec![copy()], vec![]), wait(1)]);
        assert_eq!(
            place(&mut kernel).unwrap_err().text(),
            "this wait leaves some groups of copies in flight, and on some paths to it copies have not been committed to a group\nhelp: write cp_async_commit() after the copies, on every path; or wait for all with cp_async_wait_all()"
        );
    }
}
