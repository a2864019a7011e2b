//! Preconditions on threads and blocks: that there are threads, that the grid's size is known, and that no
//! view is written by threads that it has not been partitioned over.

use crate::affine::{Affine, Coord};
use crate::ast::Span;
use crate::diagnostic::Diagnostic;
use crate::problem::Problem;
use crate::thread::Id;
use crate::tile::{How, Op, Program, Space, Stmt};
use crate::view::View;

/// All findings.
pub(super) fn find(program: &Program) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if program.threads() == 0 {
        found.push(
            Diagnostic::error(
                Span::default(),
                "it is not known how many threads this kernel has: no thread layout occurs in it",
            )
            .help("partition what it works on, such as `parallelize(t, layout!((32, 8)), thread.x)`"),
        );
        return found;
    }
    let mut uncounted: Vec<u8> = (0..3).filter(|axis| program.grid[usize::from(*axis)].is_none()).collect();
    for stmt in &program.body {
        stmt.each(&mut |stmt| {
            found.extend(written_whole(program, stmt.by, &stmt.op).map(|problem| problem.at(stmt.span)));
            uncounted.retain(|axis| {
                let uses = mentions(program, stmt, &|at| at.any(&|coord| *coord == Coord::Block(*axis)));
                if uses {
                    found.push(uncounted_blocks(*axis, stmt.span));
                }
                !uses
            });
        });
    }
    found
}

/// Does a coordinate in the statement itself satisfy this predicate?
pub(crate) fn mentions(program: &Program, stmt: &Stmt, test: &dyn Fn(&Affine) -> bool) -> bool {
    let mut views = stmt.reads().into_iter().chain(stmt.writes());
    let in_views = views.any(|view| view.base.iter().any(test));
    let ends = match &stmt.op {
        Op::For { var, .. } | Op::Pipelined { var, .. } => program.vars.get(*var as usize),
        _ => None,
    };
    let mut ends = ends.into_iter().flat_map(|var| [&var.from, &var.to]);
    in_views || ends.any(test) || stmt.integers().into_iter().any(test)
}

fn uncounted_blocks(axis: u8, span: Span) -> Diagnostic {
    let name = ["block.x", "block.y", "block.z"][usize::from(axis).min(2)];
    let message = format!("it is not known how many blocks there are: `{name}` alone numbers no tiles");
    Diagnostic::error(span, message)
        .help(format!("use `{name}` by itself as a coordinate somewhere, such as `tile(x, (256), ({name}))`, or say how many: `walk(132, {name})`"))
}

/// An error if every thread of the group writes the whole view.
pub(crate) fn written_whole(program: &Program, by: Id, op: &Op) -> Option<Problem> {
    if crate::resolve::is_cooperative(program, by, op) {
        return None;
    }
    let registers = |view: &View| matches!(program.tensor(view.tensor).space, Space::Registers { .. });
    let group = program.groups[by as usize].threads;
    let threads = if group > 0 { group } else { program.threads() };
    let (to, message) = match op {
        // One elected thread performs it, or it says itself which thread copies what.
        Op::Copy { how: How::Atom(_), .. } => return None,
        Op::Copy { from, to, .. } if !from.per_thread() && !registers(from) => {
            (to, format!("every thread would copy the whole of `{}` to `{}`", from.name, to.name))
        }
        Op::Copy { to, .. } | Op::Fill { to, .. } | Op::Map { to, .. } => {
            (to, format!("each of the {threads} threads would write the whole of `{}`", to.name))
        }
        _ => return None,
    };
    let whole = threads != 1 && !registers(to) && !to.per_thread();
    whole.then(|| {
        Problem::new(message)
            .help("use whole tiles on both sides, or partition both over the threads with `parallelize`")
    })
}
