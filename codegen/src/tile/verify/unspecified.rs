//! Copies that check the bounds of some modes alone. What they read out of bounds along another mode is not specified: only products
//! may read it, and not along K.

use crate::source::diagnostic::Diagnostic;
use crate::source::problem::Problem;
use crate::thread::Id;
use crate::tile::{Op, Program, Stmt};
use crate::values::affine::Coord;

/// Checks the copies of an author's program.
pub(crate) fn check(program: &Program) -> Result<(), Diagnostic> {
    let mut copies = Vec::new();
    find(&program.body, None, &mut copies);
    for (stmt, around) in copies {
        let Op::Copy { from, to, .. } = &stmt.op else { continue };
        let wrong = |what: String, help: &str| Err(Problem::new(what).help(help).at(stmt.span));
        let Some(around) = around else {
            let what = format!(
                "the tiles of `{}` along K have to be copied by a loop, and there is none",
                from.name
            );
            return wrong(what, "leave `boundary_check` out");
        };
        let moves = |mode: &&usize| from.base[**mode].any(&|coord| *coord == Coord::Var(around));
        if let Some(mode) = from.clamped.iter().find(moves) {
            return wrong(
                format!(
                    "`{}` advances along mode {mode} of its tensor in this loop, so out-of-bounds elements would be summed",
                    from.name
                ),
                &format!("write boundary_check = {mode}, or leave it out"),
            );
        }
        let mut others = false;
        let mut read = |of: &Stmt| {
            let reads = of.reads().iter().any(|view| view.tensor == to.tensor);
            others |= reads && !matches!(of.op, Op::Gemm { .. });
        };
        program.body.iter().for_each(|stmt| stmt.each(&mut read));
        if others {
            let what = format!(
                "bounds of `{}` are not checked along each mode, and `{}` is read by other statements than products",
                from.name, to.name
            );
            return wrong(what, "leave `boundary_check` out");
        }
    }
    Ok(())
}

/// Copies that check the bounds of some modes, with the innermost loop around each.
fn find<'p>(body: &'p [Stmt], around: Option<Id>, copies: &mut Vec<(&'p Stmt, Option<Id>)>) {
    for stmt in body {
        if matches!(&stmt.op, Op::Copy { from, .. } if !from.clamped.is_empty()) {
            copies.push((stmt, around));
        }
        let around = match &stmt.op {
            Op::For { var, .. } | Op::Pipelined { var, .. } => Some(*var),
            _ => around,
        };
        stmt.bodies().into_iter().for_each(|body| find(body, around, copies));
    }
}
