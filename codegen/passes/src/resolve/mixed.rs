//! Statements that mix whole tiles and parts of threads.

use crate::source::diagnostic::Diagnostic;
use crate::tile::Program;
use crate::tile::whole::{Kind, is_cooperative, kind, mixed, views};

/// Rejects statements that mix whole tiles and parts of threads.
pub(super) fn check(program: &Program) -> std::result::Result<(), Diagnostic> {
    let mut matched = None;
    super::each(&program.body, &mut |stmt| {
        if matched.is_some() || !is_cooperative(program, stmt.by, &stmt.op) {
            return;
        }
        let views = views(&stmt.op);
        let part = views.iter().find(|view| kind(program, view) == Kind::Part);
        let tile = views.iter().find(|view| kind(program, view) == Kind::Tile);
        if let (Some(part), Some(tile)) = (part, tile) {
            matched = Some(mixed(tile, part).at(stmt.span));
        }
    });
    matched.map_or(Ok(()), Err)
}
