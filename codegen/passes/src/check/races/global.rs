//! The tensors in global memory that are checked for races: the kernel writes them, accesses them only by statements that
//! complete at once, and at coordinates that depend on threads, loops and blocks alone.

use crate::thread::Id;
use crate::tile::view::View;
use crate::tile::visit::preorder;
use crate::tile::{How, Op, Program, Space, Stmt};
use crate::values::affine::{Affine, Coord};

/// For each tensor whether it is judged.
pub(super) fn followed(program: &Program) -> Vec<bool> {
    let (mut written, mut plain) = (vec![false; program.tensors.len()], vec![true; program.tensors.len()]);
    let counted = |stmt: &Stmt| match stmt.op {
        Op::For { var, .. } => program.vars[var as usize].from.constant().map(|_| var),
        _ => None,
    };
    let counted: Vec<Id> = preorder(&program.body).filter_map(counted).collect();
    for stmt in preorder(&program.body) {
        let at_once = completes(program, stmt);
        stmt.writes().into_iter().for_each(|view| written[view.tensor as usize] = true);
        for view in stmt.accesses() {
            plain[view.tensor as usize] &= at_once && is_known(view, &counted);
        }
    }
    let tensors = program.tensors.iter().zip(written).zip(plain);
    tensors
        .map(|((tensor, written), plain)| {
            matches!(tensor.space, Space::Global { mutable: true }) && written && plain
        })
        .collect()
}

/// Does a statement read and write elements of global memory at once, each thread its own?
fn completes(program: &Program, stmt: &Stmt) -> bool {
    let space = |view: &View| program.tensor(view.tensor).space;
    match &stmt.op {
        Op::Copy { from, to, how, .. } => match how {
            How::Plain | How::Realigned | How::Here | How::Staged => true,
            How::Derive => {
                let shared = |view: &View| matches!(space(view), Space::Shared { .. });
                !shared(from) && !shared(to)
            }
            How::Async | How::Atom(_) => false,
        },
        _ => stmt.op.stores().is_some(),
    }
}

/// Do threads, blocks and loops that start at a number decide alone where a view is?
fn is_known(view: &View, counted: &[Id]) -> bool {
    let origins = view.limits.iter().flatten().map(|(origin, _)| origin);
    let plain = !view.wraps && view.clamped.is_empty() && view.nearest.is_empty() && view.peer.is_none();
    plain && view.base.iter().chain(origins).all(|sum| is_decided(sum, counted))
}

/// Do blocks, threads and these loops alone decide a sum?
pub(in crate::check) fn is_decided(sum: &Affine, loops: &[Id]) -> bool {
    !sum.any(&|coord| match coord {
        Coord::Var(var) => !loops.contains(var),
        Coord::Begin { .. }
        | Coord::ClusterRank
        | Coord::Phase(_)
        | Coord::Size { .. }
        | Coord::Scalar(_)
        | Coord::Loaded { .. } => true,
        _ => false,
    })
}
