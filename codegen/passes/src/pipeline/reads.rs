//! Integers that a pipelined loop loads in its body: if a prefetched copy depends on such an integer, its load is
//! prefetched too.

use std::collections::BTreeSet;

use super::Fetches;
use crate::source::ast::Span;
use crate::source::problem::Problem;
use crate::thread::Id;
use crate::tile::visit::preorder;
use crate::tile::{How, Op, Program, Space, Stmt};
use crate::values::affine::{Affine, Coord};

/// The numbers that a statement, or one inside it, depends on.
pub(crate) fn used(program: &Program, stmt: &Stmt) -> BTreeSet<Id> {
    let mut all = BTreeSet::new();
    for stmt in stmt.preorder() {
        for view in stmt.accesses() {
            let limits = view.limits.iter().flatten().map(|limit| &limit.0);
            view.base.iter().chain(limits).for_each(|at| numbers(at, &mut all));
        }
        all.extend(decide(program, stmt));
    }
    all
}

/// The numbers on which a statement without its inner statements depends: bounds of a loop, operands of a condition.
pub(crate) fn decide(program: &Program, stmt: &Stmt) -> BTreeSet<Id> {
    let mut all = BTreeSet::new();
    stmt.integers().into_iter().for_each(|at| numbers(at, &mut all));
    if let Op::For { var, .. } = &stmt.op {
        let var = &program.vars[*var as usize];
        [&var.from, &var.to].into_iter().for_each(|at| numbers(at, &mut all));
    }
    all
}

fn numbers(of: &Affine, to: &mut BTreeSet<Id>) {
    for (coord, _) in &of.terms {
        if let Coord::Loaded { number, .. } = coord {
            to.insert(*number);
        }
        coord.inside().iter().for_each(|inner| numbers(inner, to));
    }
}

/// The numbers that some of these statements depend on, transitively.
pub(super) fn needed<'s>(
    program: &Program,
    stmts: impl DoubleEndedIterator<Item = &'s Stmt> + Clone,
    of: &dyn Fn(&Stmt) -> bool,
) -> BTreeSet<Id> {
    let mut all: BTreeSet<Id> =
        stmts.clone().filter(|stmt| of(stmt)).flat_map(|stmt| used(program, stmt)).collect();
    // Later reads may depend on earlier ones.
    for stmt in stmts.rev() {
        if let Op::Take { number, .. } = stmt.op
            && all.contains(&number)
        {
            all.extend(used(program, stmt));
        }
    }
    all
}

/// Splits a loop's body into the prefetch and the work. A number on which both depend is read twice. If the prefetch
/// depends on a number, the out-of-bounds elements of the copies depend on it too.
pub(super) fn apart(fetches: &Fetches<'_>, body: Vec<Stmt>) -> (Vec<Stmt>, Vec<Stmt>) {
    let program = fetches.program;
    let takes = |stmt: &Stmt| matches!(stmt.op, Op::Take { .. });
    let early = needed(program, body.iter(), &|stmt| fetches.takes(stmt));
    let late = needed(program, body.iter(), &|stmt| !takes(stmt));
    let (mut ahead, mut work) = (Vec::new(), Vec::new());
    for stmt in body {
        match &stmt.op {
            Op::Take { number, .. } => {
                if early.contains(number) {
                    ahead.push(stmt.clone());
                }
                if late.contains(number) {
                    work.push(stmt);
                }
            }
            _ if fetches.takes(&stmt) => ahead.push(stmt),
            _ => work.push(stmt),
        }
    }
    (ahead, work)
}

/// Checks the numbers that copies of later iterations depend on: they must be in registers or in global memory that the loop does
/// not write.
pub(super) fn check(fetches: &Fetches<'_>, body: &[Stmt]) -> Result<(), (Problem, Span)> {
    let program = fetches.program;
    let early = needed(program, body.iter(), &|stmt| fetches.takes(stmt));
    let mut late = None;
    for stmt in preorder(body) {
        if let Op::Copy { to, how: How::Staged, .. } = &stmt.op
            && to.base.iter().any(|base| base.any(&|coord| matches!(coord, Coord::Loaded { .. })))
        {
            late.get_or_insert((stmt.span, &to.name));
        }
    }
    if let Some((span, name)) = late {
        let problem = Problem::new(format!(
            "where in `{name}` this copy writes depends on a number that is read, and it writes later than it reads"
        ));
        return Err((problem.help("leave out how = \"staged\""), span));
    }
    for stmt in body {
        let Op::Take { number, from } = &stmt.op else { continue };
        if !early.contains(number) {
            continue;
        }
        let written = body.iter().any(|other| other.writes_to(from.tensor));
        let (whence, help) = match program.tensor(from.tensor).space {
            _ if written => ("computed in the loop", "read it from an argument, or write a plain loop"),
            // Other threads may have written it.
            Space::Shared { .. } => {
                ("in shared memory", "copy it to registers before the loop: map(s, |x| x)")
            }
            Space::Global { .. } | Space::Registers { .. } => continue,
        };
        let problem = Problem::new(format!(
            "copies of later iterations run ahead, and `{}`, on which they depend, is {whence}",
            program.reads[*number as usize].name
        ));
        return Err((problem.help(help), stmt.span));
    }
    Ok(())
}
