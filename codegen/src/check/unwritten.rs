//! Arguments that are declared `&mut` and that no statement writes: a copy was forgotten, or its operands are
//! swapped.

use crate::ast::{Level, Name};
use crate::diagnostic::Diagnostic;
use crate::thread::Id;
use crate::tile::{Arg, Program, Space, Stmt};

/// One finding for each such argument, at its name.
pub(super) fn find(program: &Program, levels: &[(Name, Level)]) -> Vec<Diagnostic> {
    let mut written: Vec<Id> = Vec::new();
    let mut note = |stmt: &Stmt| written.extend(stmt.writes().into_iter().map(|view| view.tensor));
    program.body.iter().for_each(|stmt| stmt.each(&mut |stmt| note(stmt)));
    let mut found = Vec::new();
    for arg in &program.args {
        let Arg::Tensor(id) = arg else { continue };
        let tensor = program.tensor(*id);
        if !matches!(tensor.space, Space::Global { mutable: true }) || written.contains(id) {
            continue;
        }
        let name = &tensor.name;
        let message = format!("`{name}` is `&mut`, and no statement writes it");
        let help = format!("write it, as in copy(result, {name}), or declare `{name}: &Tensor<…>`");
        found.extend(super::lint(tensor.span, "unwritten", levels, message).map(|said| said.help(help)));
    }
    found
}
