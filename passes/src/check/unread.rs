//! Dead values: arguments and tiles that no statement reads.

use crate::source::ast::{Level, Name, Span};
use crate::source::diagnostic::Diagnostic;
use crate::thread::Id;
use crate::tile::{How, Multiply, Op, Program, Space, Stmt};

/// One finding for each such tensor, at its declaration.
pub(super) fn find(program: &Program, levels: &[(Name, Level)]) -> Vec<Diagnostic> {
    let (mut read, mut written): (Vec<Id>, Vec<Id>) = (Vec::new(), Vec::new());
    let mut by_hand = false;
    let mut note = |stmt: &Stmt| {
        read.extend(stmt.reads().into_iter().map(|view| view.tensor));
        written.extend(stmt.writes().into_iter().map(|view| view.tensor));
        // The entries of a tuple are computed together.
        if let Op::Scan { to, .. } = &stmt.op
            && to.len() > 1
        {
            read.extend(to.iter().map(|view| view.tensor));
        }
        // An atom may read where it writes.
        by_hand |=
            matches!(stmt.op, Op::Copy { how: How::Atom(_), .. } | Op::Gemm { how: Multiply::Atom(_), .. });
    };
    program.body.iter().for_each(|stmt| stmt.each(&mut note));
    if by_hand {
        return Vec::new();
    }
    let mut diagnostics = Vec::new();
    for (id, tensor) in program.tensors.iter().enumerate() {
        let (id, name) = (id as Id, &tensor.name);
        if name.starts_with('_') {
            continue;
        }
        // One span in an unrolled loop or a closure makes several tiles of one name, and one use is enough.
        let same_span = |other: &Id| {
            program.tensors.get(*other as usize).is_some_and(|of| of.span == tensor.span && of.name == *name)
        };
        if read.contains(&id) || tensor.span != Span::default() && read.iter().any(same_span) {
            continue;
        }
        let (message, help) = match tensor.space {
            Space::Global { mutable: true } => continue,
            Space::Global { mutable: false } => {
                (format!("the argument `{name}` is never read"), "copy from it, or leave it out")
            }
            // Unused results: the value of a reducing statement is its sum.
            _ if !written.contains(&id) => continue,
            _ => (
                format!("`{name}` is written, but never read"),
                "copy it to where it is needed, or leave it out",
            ),
        };
        diagnostics.extend(
            super::lint(tensor.span, "unread", levels, message).map(|diagnostic| diagnostic.help(help)),
        );
    }
    diagnostics
}
