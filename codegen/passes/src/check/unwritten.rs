//! Unwritten tensors: arguments that are declared `&mut`, because a copy was forgotten or its operands are swapped, and
//! registers that are read.

use crate::source::ast::{Level, Name};
use crate::source::diagnostic::Diagnostic;
use crate::thread::Id;
use crate::tile::visit::preorder;
use crate::tile::{Arg, Program, Space, Stmt};

/// One finding for each such argument, at its name, and one for each such tile in registers, where it is read first.
pub(super) fn find(program: &Program, levels: &[(Name, Level)]) -> Vec<Diagnostic> {
    let written: Vec<Id> = preorder(&program.body).flat_map(Stmt::writes).map(|view| view.tensor).collect();
    let mut diagnostics = Vec::new();
    for arg in &program.args {
        let Arg::Tensor(id) = arg else { continue };
        let tensor = program.tensor(*id);
        if !matches!(tensor.space, Space::Global { mutable: true }) || written.contains(id) {
            continue;
        }
        let name = &tensor.name;
        let message = format!("`{name}` is `&mut`, but never written");
        let help = format!("write it, as in copy(result, {name}), or declare `{name}: &Tensor<…>`");
        diagnostics.extend(super::lint(
            "unwritten",
            levels,
            Diagnostic::error(tensor.span, message).help(help),
        ));
    }
    for (id, tensor) in (0..).zip(&program.tensors) {
        let reads = |stmt: &&Stmt| stmt.reads().iter().any(|view| view.tensor == id);
        if !matches!(tensor.space, Space::Registers { .. }) || written.contains(&id) {
            continue;
        }
        if let Some(stmt) = preorder(&program.body).find(reads) {
            let (message, help) = words(&tensor.name);
            diagnostics.push(Diagnostic::error(stmt.span, message).help(help));
        }
    }
    diagnostics
}

/// A read of an unwritten tile: the message, and the remedy.
pub(super) fn words(name: &str) -> (String, String) {
    let message = format!("`{name}` is read here, but never written");
    (message, format!("copy something into `{name}` first, or fill it: fill({name}, 0.0)"))
}
