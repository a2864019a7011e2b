//! Results that differ from run to run: atomic additions of floating-point numbers round in the order in
//! which threads execute them.

use crate::source::ast::{Level, Name};
use crate::source::diagnostic::Diagnostic;
use crate::thread::Change;
use crate::tile::{Op, Program};

/// One finding for each such statement.
pub(super) fn find(program: &Program, levels: &[(Name, Level)]) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for stmt in &program.body {
        stmt.each(&mut |stmt| {
            let (Op::Atomic { to, update, .. } | Op::Scatter { to, update: Some(update), .. }) = &stmt.op
            else {
                return;
            };
            let elem = program.tensor(to.tensor).elem;
            if !matches!(update.with, Change::Add | Change::Sub) || !elem.is_float() {
                return;
            }
            let message = format!(
                "atomic sums of {elem} in `{}` round in the order in which threads execute them: they differ from run to run",
                to.name
            );
            let help = "give each element to one block, which adds what others left in a tensor of its own; or add integers";
            diagnostics.extend(super::lint(stmt.span, "deterministic", levels, message).map(|diagnostic| diagnostic.help(help)));
        });
    }
    diagnostics
}
