//! Stores of all blocks to the same elements. They are an error if they depend on no size and no condition; the simulator
//! reports the others.

use super::races::is_decided;
use crate::source::diagnostic::Diagnostic;
use crate::thread::Id;
use crate::tile::view::View;
use crate::tile::{LaunchRule, Op, Program, Space, Stmt};
use crate::values::affine::Coord;

/// An error for each of them.
pub(super) fn find(program: &Program) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    if program.launch == LaunchRule::Persistent {
        return errors;
    }
    for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
        let Some(blocks) = program.grid[axis].map(|extent| program.range(&extent.into()).lo) else {
            continue;
        };
        if blocks > 1 && program.cluster == [1; 3] {
            walk(program, &program.body, &mut Vec::new(), &mut |view, stmt| {
                let of_block = |coord: &Coord| *coord == Coord::Block(axis as u8);
                let mut sums = view.base.iter().chain(view.limits.iter().flatten().map(|(origin, _)| origin));
                if sums.any(|sum| sum.any(&of_block)) {
                    return;
                }
                let tensor = &program.tensor(view.tensor).name;
                let message = format!(
                    "race: all blocks along {name} write the same elements of `{tensor}`, {blocks} blocks"
                );
                errors.push(Diagnostic::error(stmt.span, message).help(format!(
                    "give each block its own elements by block.{name}; or add to them, how = \"atomic_add\"; or let one block write, if block.{name} == 0 {{ … }}"
                )));
            });
        }
    }
    errors
}

/// The stores that every block certainly makes.
fn walk<'p>(
    program: &Program,
    body: &'p [Stmt],
    vars: &mut Vec<Id>,
    store: &mut dyn FnMut(&'p View, &'p Stmt),
) {
    for stmt in body {
        match &stmt.op {
            Op::For { var, body, .. } if program.runs(*var) => {
                let of = &program.vars[*var as usize];
                if of.from.constant() == Some(0) && is_decided(&of.to, vars) {
                    vars.push(*var);
                    walk(program, body, vars, store);
                    vars.pop();
                }
            }
            _ => stmt.op.stores().into_iter().for_each(|to| certain(program, to, vars, stmt, store)),
        }
    }
}

fn certain<'p>(
    program: &Program,
    to: &'p View,
    vars: &[Id],
    stmt: &'p Stmt,
    store: &mut dyn FnMut(&'p View, &'p Stmt),
) {
    let tensor = program.tensor(to.tensor);
    // The first element of the first thread and the first block is one of the tensor, whatever its extents.
    let inside = tensor.plain().leaves().zip(&to.base).all(|((extent, _), base)| {
        (0..program.range(&extent.into()).lo).contains(&i128::from(base.eval(&|_| 0)))
    });
    let origins = to.limits.iter().flatten().map(|(origin, _)| origin);
    if matches!(tensor.space, Space::Global { .. })
        && inside
        && to.peer.is_none()
        && to.base.iter().chain(origins).all(|sum| is_decided(sum, vars))
    {
        store(to, stmt);
    }
}
