//! Commit groups of cp.async ahead of waits that count them. Such a wait leaves the latest groups in flight, so the copies
//! ahead of it must have been committed, on every path. A commit that is missing is inserted here, on the tile program,
//! where every copy counts that may be asynchronous: variants differ in the widths of accesses, and so in which copies are,
//! but not in the groups that a wait leaves in flight.

use crate::atom::Done;
use crate::diagnostic::Diagnostic;
use crate::id::Id;
use crate::problem::Problem;
use crate::thread::Queue;
use crate::tile::{How, Op, Past, Program, Space, Stmt};

/// Inserts the commits.
pub(super) fn placed(mut program: Program) -> Result<Program, Diagnostic> {
    let mut counts = false;
    let counted = |stmt: &Stmt| matches!(stmt.op, Op::WaitCopies { pending: 1.. });
    program.body.iter().for_each(|stmt| stmt.each(&mut |stmt| counts |= counted(stmt)));
    if counts {
        let mut body = std::mem::take(&mut program.body);
        Groups { program: &program, leaving: Vec::new() }.block(&mut body, Paths::COMMITTED, true)?;
        program.body = body;
    }
    Ok(program)
}

/// The latest copies at a point of the program.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Paths {
    /// On some path they have not been committed.
    open: bool,
    /// On some path they have.
    closed: bool,
}

impl Paths {
    const COMMITTED: Paths = Paths { open: false, closed: true };
    const ISSUED: Paths = Paths { open: true, closed: false };

    fn join(self, other: Paths) -> Paths {
        Paths { open: self.open || other.open, closed: self.closed || other.closed }
    }
}

struct Groups<'p> {
    program: &'p Program,
    /// Loops around the statement, with the paths to their early exits, if they have any.
    leaving: Vec<(Id, Option<Paths>)>,
}

impl Groups<'_> {
    /// The paths behind a block, from those ahead of it. Edits the block only with `write`.
    fn block(&mut self, block: &mut Vec<Stmt>, mut paths: Paths, write: bool) -> Result<Paths, Diagnostic> {
        let mut at = 0;
        while at < block.len() {
            if let Op::WaitCopies { pending: 1.. } = block[at].op
                && paths.open
            {
                if paths.closed {
                    return Err(ambiguous().at(block[at].span));
                }
                if write {
                    let commit = Stmt { op: Op::CommitCopies, ..block[at].clone() };
                    block.insert(at, commit);
                    at += 1;
                }
            }
            paths = self.pass(&mut block[at], paths, write)?;
            at += 1;
        }
        Ok(paths)
    }

    /// The paths behind a statement.
    fn pass(&mut self, stmt: &mut Stmt, paths: Paths, write: bool) -> Result<Paths, Diagnostic> {
        Ok(match &mut stmt.op {
            op @ Op::Copy { .. } if !self.may_be_asynchronous(op) => paths,
            // A group of its own.
            Op::Copy { token: Some(_), .. } => Paths::COMMITTED,
            Op::Copy { token: None, .. } => Paths::ISSUED,
            Op::CommitCopies | Op::WaitCopies { .. } => Paths::COMMITTED,
            Op::For { var, body, .. } | Op::Pipelined { var, body, .. } => {
                self.repeated(*var, body, paths, write)?
            }
            Op::Tiles { vars, body, .. } => {
                self.repeated(vars.first().copied().unwrap_or(Id::MAX), body, paths, write)?
            }
            Op::Leave { of, .. } => {
                if let Some((_, left)) = self.leaving.iter_mut().rev().find(|(var, _)| var == of) {
                    *left = Some(left.map_or(paths, |left| left.join(paths)));
                }
                paths
            }
            Op::Step { past: Past::Skip, body, .. } => self.block(body, paths, write)?.join(paths),
            Op::Step { past: Past::Last | Past::Anyway, body, .. } | Op::Ordered { body, .. } => {
                self.block(body, paths, write)?
            }
            Op::If { then, other, .. } | Op::When { then, other, .. } => {
                self.block(then, paths, write)?.join(self.block(other, paths, write)?)
            }
            Op::Roles(roles) => roles.iter_mut().try_fold(paths, |all, (_, body)| {
                Ok::<_, Diagnostic>(self.block(body, paths, write)?.join(all))
            })?,
            Op::Fill { .. }
            | Op::Map { .. }
            | Op::Gemm { .. }
            | Op::Follows { .. }
            | Op::Holds { .. }
            | Op::Reduce { .. }
            | Op::Fold { .. }
            | Op::Scan { .. }
            | Op::Gather { .. }
            | Op::Scatter { .. }
            | Op::Atomic { .. }
            | Op::Take { .. }
            | Op::Signal { .. }
            | Op::AwaitFlag { .. }
            | Op::Wait { .. }
            | Op::Sync
            | Op::SyncCluster
            | Op::Acquire { .. }
            | Op::Publish { .. }
            | Op::Await { .. }
            | Op::Release { .. }
            | Op::Advance { .. } => paths,
        })
    }

    /// The paths behind a loop, which may run no iteration.
    fn repeated(
        &mut self,
        var: Id,
        body: &mut Vec<Stmt>,
        mut entry: Paths,
        write: bool,
    ) -> Result<Paths, Diagnostic> {
        loop {
            self.leaving.push((var, None));
            let end = self.block(body, entry, false)?;
            let left = self.leaving.pop().and_then(|(_, left)| left);
            let again = entry.join(end);
            if again == entry {
                if write {
                    self.leaving.push((var, None));
                    self.block(body, entry, true)?;
                    self.leaving.pop();
                }
                return Ok(left.map_or(again, |left| again.join(left)));
            }
            entry = again;
        }
    }

    /// Is it by cp.async where widths allow?
    fn may_be_asynchronous(&self, op: &Op) -> bool {
        match op {
            Op::Copy { how: How::Atom(row), .. } => row.done == Done::Queue(Queue::CpAsync),
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
