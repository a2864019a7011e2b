//! Commit groups of cp.async before waits that count them. Such a wait leaves the latest groups in flight, so the copies
//! before it must have been committed, on every path. This pass inserts missing commits in the tile program, for every copy
//! that may be asynchronous. Variants differ in the widths of accesses, and so in the copies that are asynchronous, but not
//! in the groups that a wait leaves in flight.

use crate::isa::atom::Done;
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::Problem;
use crate::thread::Queue;
use crate::tile::visit::preorder;
use crate::tile::{How, Op, Program, Space, Stmt};
use crate::values::flow::{CopyGroups, Edit, Forward, forward};

/// Inserts the commits.
pub(super) fn placed(mut program: Program) -> Result<Program, Diagnostic> {
    let counts = |stmt: &Stmt| matches!(stmt.op, Op::Wait { token: None, but: 1.. });
    if !preorder(&program.body).any(counts) {
        return Ok(program);
    }
    let body = std::mem::take(&mut program.body);
    let mut commits = Commits { program: &program, refused: None };
    let body = forward(&mut commits, &program, body, CopyGroups::ENTRY);
    if let Some(refused) = commits.refused {
        return Err(refused);
    }
    program.body = body;
    Ok(program)
}

struct Commits<'p> {
    program: &'p Program,
    /// The first error.
    refused: Option<Diagnostic>,
}

impl Forward<Program> for Commits<'_> {
    type State = CopyGroups;

    fn join(one: CopyGroups, other: &CopyGroups) -> CopyGroups {
        one.join(other)
    }

    fn pass(&mut self, stmt: &Stmt, groups: &mut CopyGroups) -> Edit<Stmt> {
        let before = *groups;
        match &stmt.op {
            op @ Op::Copy { token, .. } if self.may_be_asynchronous(op) => {
                groups.issue();
                // A separate group.
                if token.is_some() {
                    groups.commit();
                }
            }
            Op::CommitCopies => groups.commit(),
            // A ring counts the groups of its own slots: all groups that its waits count have been committed.
            Op::Publish { ring, .. } if self.program.rings[*ring as usize].is_of_one_group() => {
                groups.commit()
            }
            Op::Wait { token: None, but } => {
                groups.commit();
                if *but > 0 && before.open {
                    if before.closed {
                        self.refused.get_or_insert_with(|| ambiguous().at(stmt.span));
                    }
                    return Edit::Ahead(vec![Stmt { op: Op::CommitCopies, ..stmt.clone() }]);
                }
            }
            _ => {}
        }
        Edit::Keep
    }
}

impl Commits<'_> {
    /// Is it by cp.async where widths allow?
    fn may_be_asynchronous(&self, op: &Op) -> bool {
        match op {
            Op::Copy { how: How::Atom(row), .. } => row.family.completes == Done::Queue(Queue::CpAsync),
            Op::Copy { how: How::Derive | How::Async, from, to, .. } => {
                let [from, to] = [from, to].map(|view| self.program.tensor(view.tensor).space);
                matches!((from, to), (Space::Global { .. }, Space::Shared { .. }))
            }
            _ => false,
        }
    }
}

/// The error where a wait would count other groups on other paths.
fn ambiguous() -> Problem {
    Problem::new(
        "this wait leaves some groups of copies in flight, and on some paths to it copies have not been committed to a group",
    )
    .help("write cp_async_commit() after the copies, on every path; or wait for all with cp_async_wait_all()")
}
