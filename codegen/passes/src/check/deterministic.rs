//! Results that differ from run to run: atomic additions of floating-point numbers round in the order in
//! which threads execute them.

use crate::source::ast::{Level, Name};
use crate::source::diagnostic::Diagnostic;
use crate::thread::Change;
use crate::tile::visit::preorder;
use crate::tile::{Program, Stmt};

/// One finding for each such statement.
pub(super) fn find(program: &Program, levels: &[(Name, Level)]) -> Vec<Diagnostic> {
    let finding = |stmt: &Stmt| {
        let (to, with) = stmt.op.updates()?;
        let elem = program.tensor(to.tensor).elem;
        if !matches!(with, Change::Add | Change::Sub) || !elem.is_float() {
            return None;
        }
        let message = format!(
            "atomic sums of {elem} in `{}` are rounded in the order in which threads add, so they differ from run to run",
            to.name
        );
        let help = "let one block add each element, from partial sums that the others write to another tensor; or add integers";
        super::lint("deterministic", levels, Diagnostic::error(stmt.span, message).help(help))
    };
    preorder(&program.body).filter_map(finding).collect()
}
