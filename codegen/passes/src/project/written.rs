//! Copies of a producer whose source the kernel writes. The producer runs ahead of the other threads, and does not wait for
//! their writes: a copy that may follow a write in the order of the program is refused.

use std::collections::BTreeSet;

use super::{is_fill, is_produced};
use crate::pipeline::written_in_the_loop;
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::Problem;
use crate::thread::Id;
use crate::tile::visit::preorder;
use crate::tile::{Op, Program, Space, Stmt};
use crate::values::flow::{Edit, Forward, end};

/// Refuses a producer's copy of elements that statements ahead of it, or of an earlier iteration, write.
pub(super) fn check(program: &Program) -> Result<(), Diagnostic> {
    let mut written = Written { program, refused: None };
    end(&mut written, program, &program.body, BTreeSet::new());
    written.refused.map_or(Ok(()), Err)
}

struct Written<'p> {
    program: &'p Program,
    /// The first error.
    refused: Option<Diagnostic>,
}

impl Forward<Program> for Written<'_> {
    /// Tensors in global memory that have been written on some path.
    type State = BTreeSet<Id>;

    fn join(one: Self::State, other: &Self::State) -> Self::State {
        &one | other
    }

    fn pass(&mut self, stmt: &Stmt, written: &mut Self::State) -> Edit<Stmt> {
        if let (true, Op::For { body, .. }) = (is_produced(stmt), &stmt.op) {
            self.copies(body, written);
        }
        written.extend(self.writes(stmt));
        Edit::Keep
    }
}

impl Written<'_> {
    /// The global memory that a statement itself writes.
    fn writes(&self, stmt: &Stmt) -> impl Iterator<Item = Id> {
        let global = |id: &Id| matches!(self.program.tensor(*id).space, Space::Global { .. });
        stmt.writes().into_iter().map(|to| to.tensor).filter(global)
    }

    /// The copies of a loop with a producer, given the tensors written ahead of it.
    fn copies(&mut self, body: &[Stmt], written: &BTreeSet<Id>) {
        let inside: BTreeSet<Id> = preorder(body).flat_map(|stmt| self.writes(stmt)).collect();
        for stmt in body.iter().filter(|stmt| is_fill(self.program, stmt)) {
            for from in stmt.reads() {
                let name = &self.program.tensor(from.tensor).name;
                let problem = match (inside.contains(&from.tensor), written.contains(&from.tensor)) {
                    (true, _) => written_in_the_loop(name),
                    (false, true) => Problem::new(format!(
                        "`{name}` is written before this copy, and the producer, which runs ahead, does not wait for the threads that write it"
                    ))
                    .help("leave out `producer`: the threads of a loop without it wait"),
                    (false, false) => continue,
                };
                self.refused.get_or_insert(problem.at(stmt.span));
            }
        }
    }
}
