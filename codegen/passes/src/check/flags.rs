//! Waits for other blocks, which must be resident: a block that is not resident yet raises no flag.

use crate::source::diagnostic::Diagnostic;
use crate::thread::{Change, Id};
use crate::tile::visit::preorder;
use crate::tile::{LaunchRule, Op, Program, Update};
use crate::values::affine::{Affine, Coord};

/// An error for each wait for a block that may not have begun.
pub(super) fn find(program: &Program) -> Vec<Diagnostic> {
    if program.launch == LaunchRule::Persistent {
        return Vec::new();
    }
    // Numbers counted by atomic updates: blocks with smaller numbers have begun.
    let (mut counted, mut tickets): (Vec<Id>, Vec<Id>) = (Vec::new(), Vec::new());
    for stmt in preorder(&program.body) {
        match &stmt.op {
            Op::Atomic { update, .. } | Op::Scatter { update: Some(update), .. } => {
                counted.extend(update.old.iter().map(|old| old.tensor));
            }
            Op::Take { number, from } if counted.contains(&from.tensor) => tickets.push(*number),
            _ => {}
        }
    }
    let later = |at: &Affine| {
        at.any(&|coord| matches!(coord, Coord::Loaded { number, .. } if tickets.contains(number)))
    };
    let mut diagnostics = Vec::new();
    for stmt in preorder(&program.body) {
        let flag = match &stmt.op {
            Op::Flag { flag, with: Change::Await, value } if !later(value) => flag,
            Op::Atomic { to, update: Update { with: Change::Await, .. }, .. } => to,
            _ => continue,
        };
        if flag.base.iter().any(later) {
            continue;
        }
        let message = format!(
            "possible deadlock: this waits for `{}`, and the block that signals it may not have begun, since blocks begin in any order",
            flag.name
        );
        diagnostics.push(Diagnostic::error(stmt.span, message).help(
            "number the blocks as they begin, let t = copy(1, ticket[(0)], how = \"atomic_add\"), use t[(0)] instead of block.x, and wait only for smaller numbers, flags[(t[(0)] - 1)]; or make all blocks resident by persistent()",
        ));
    }
    diagnostics
}
