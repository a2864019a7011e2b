//! Copies that check the bounds of some modes alone. What they read out of bounds along another mode is not specified: only products
//! may read it, and not along K.

use std::collections::BTreeSet;

use tilewright_layout::{Layout, Value};

use crate::source::diagnostic::Diagnostic;
use crate::source::problem::Problem;
use crate::thread::Id;
use crate::tile::view::View;
use crate::tile::visit::preorder;
use crate::tile::whole::unpacks;
use crate::tile::{Op, Program, Stmt};
use crate::values::affine::Coord;

/// Checks the copies of an author's program.
pub fn check(program: &Program) -> Result<(), Diagnostic> {
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
        if is_read_elsewhere(program, to.tensor) {
            let what = format!(
                "`{}` is copied without all checks of bounds, and other statements than products read `{}`",
                from.name, to.name
            );
            return wrong(what, "leave `boundary_check` out");
        }
    }
    Ok(())
}

/// Do other statements than products read a tile, or functions of its elements that products alone read?
fn is_read_elsewhere(program: &Program, tile: Id) -> bool {
    let (mut others, mut functions, mut next) = (false, BTreeSet::from([tile]), vec![tile]);
    while let (false, Some(tile)) = (others, next.pop()) {
        for of in preorder(&program.body) {
            let (reads, to) = (of.reads(), of.writes()[..].first().copied());
            let views = || reads.iter().filter(|view| view.tensor == tile);
            let in_order = |view: &&&View, to: &View| {
                let extents = view.extents();
                let along = view.layout.modes().enumerate().all(|(mode, own)| runs_along(&own, mode));
                along && extents.is_some() && extents == to.extents()
            };
            let suits = match (&of.op, to) {
                (Op::Gemm { .. }, _) => true,
                (op, Some(_)) if unpacks(op).is_some() => true,
                (Op::Map { .. }, Some(to)) if program.forms.contains_key(&to.tensor) => {
                    views().all(|view| in_order(&view, to))
                }
                _ => false,
            };
            others |= views().next().is_some() && !suits;
            let function = to.filter(|_| views().next().is_some() && !matches!(of.op, Op::Gemm { .. }));
            next.extend(function.map(|to| to.tensor).filter(|id| functions.insert(*id)));
        }
    }
    others
}

/// Does a mode of a view run along this mode of its tensor alone?
fn runs_along(own: &Layout, mode: usize) -> bool {
    own.leaves().all(|(extent, stride)| match stride {
        Value::Basis { path, .. } => usize::from(path.steps()[0]) == mode,
        _ => extent == Value::Int(1),
    })
}

/// Copies that check the bounds of some modes, with the innermost loop around each.
fn find<'p>(body: &'p [Stmt], around: Option<Id>, copies: &mut Vec<(&'p Stmt, Option<Id>)>) {
    for stmt in body {
        if matches!(&stmt.op, Op::Copy { from, .. } if !from.clamped.is_empty()) {
            copies.push((stmt, around));
        }
        let around = match &stmt.op {
            Op::For { var, .. } => Some(*var),
            _ => around,
        };
        stmt.bodies().into_iter().for_each(|body| find(body, around, copies));
    }
}
