//! Statements that mix whole tiles and parts of threads.

use crate::source::diagnostic::Diagnostic;
use crate::tile::Program;
use crate::tile::visit::preorder;
use crate::tile::whole::{Kind, is_cooperative, kind, mixed, views};

/// Rejects statements that mix whole tiles and parts of threads.
pub(super) fn check(program: &Program) -> std::result::Result<(), Diagnostic> {
    for stmt in preorder(&program.body).filter(|stmt| is_cooperative(program, stmt.by, &stmt.op)) {
        let views = views(&stmt.op);
        let part = views.iter().find(|view| kind(program, view) == Kind::Part);
        let tile = views.iter().find(|view| kind(program, view) == Kind::Tile);
        if let (Some(part), Some(tile)) = (part, tile) {
            return Err(mixed(tile, part).at(stmt.span));
        }
    }
    Ok(())
}
