//! Dead values: arguments and tiles that no statement reads, and assignments whose values no statement reads.

use std::collections::BTreeMap;

use crate::source::ast::{Level, Name, Span};
use crate::source::diagnostic::Diagnostic;
use crate::thread::Id;
use crate::tile::visit::preorder;
use crate::tile::{Op, Program, Space, Stmt};

/// One finding for each such tensor, at its declaration.
pub(super) fn find(program: &Program, levels: &[(Name, Level)]) -> Vec<Diagnostic> {
    // An atom may read where it writes.
    if preorder(&program.body).any(|stmt| stmt.instruction().is_some()) {
        return Vec::new();
    }
    let (mut read, mut written): (Vec<Id>, Vec<Id>) = (Vec::new(), Vec::new());
    for stmt in preorder(&program.body) {
        read.extend(stmt.reads().into_iter().map(|view| view.tensor));
        written.extend(stmt.writes().into_iter().map(|view| view.tensor));
        // The entries of a tuple are computed together.
        if let Op::Scan { to, .. } = &stmt.op
            && to.len() > 1
        {
            read.extend(to.iter().map(|view| view.tensor));
        }
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
        diagnostics.extend(super::lint("unread", levels, Diagnostic::error(tensor.span, message).help(help)));
    }
    diagnostics.extend(lost(program).into_iter().filter_map(|span| {
        let message = "no statement reads the value that is assigned here";
        let help = "leave it out; `let u = t[(i)]` copies an element: to change the tile, write t[(i)] = …";
        super::lint("unread", levels, Diagnostic::error(span, message).help(help))
    }));
    diagnostics
}

/// A statement reads or writes a tensor.
struct Event<'p> {
    /// Its position in program order.
    at: usize,
    /// The loops around it.
    loops: Vec<usize>,
    stmt: &'p Stmt,
    reads: bool,
}

/// Assignments to tiles in registers that no later statement reads. A tile that an iteration makes and no other
/// iteration uses has no later iterations.
fn lost(program: &Program) -> Vec<Span> {
    let mut all: BTreeMap<Id, Vec<Event<'_>>> = BTreeMap::new();
    events(&program.body, &mut Vec::new(), &mut 0, &mut all);
    // An unrolled loop and a tuple have several statements of one span, and one value that is read is enough.
    let mut all_writes: BTreeMap<Span, bool> = BTreeMap::new();
    for (id, events) in &all {
        let Some(tensor) = program.tensors.get(*id as usize) else { continue };
        let in_registers = matches!(tensor.space, Space::Registers { .. });
        if !in_registers || tensor.name.starts_with('_') || !events.iter().any(|event| event.reads) {
            continue;
        }
        let around = events.iter().skip(1).fold(events[0].loops.len(), |depth, event| {
            let shared = event.loops.iter().zip(&events[0].loops).take_while(|(a, b)| a == b);
            depth.min(shared.count())
        });
        let around = if events[0].reads { 0 } else { around };
        for write in events.iter().skip(1).filter(|event| !event.reads) {
            if !matches!(write.stmt.op, Op::Copy { .. } | Op::Map { .. }) {
                continue;
            }
            let repeated =
                |read: &Event<'_>| write.loops.iter().zip(&read.loops).skip(around).any(|(a, b)| a == b);
            let is_read = events.iter().any(|read| read.reads && (read.at > write.at || repeated(read)));
            *all_writes.entry(write.stmt.span).or_default() |= is_read;
        }
    }
    let of_author = |(span, is_read): (Span, bool)| (span != Span::default() && !is_read).then_some(span);
    all_writes.into_iter().filter_map(of_author).collect()
}

/// The events of some statements, by tensor. Reads of a statement come before its writes.
fn events<'p>(
    body: &'p [Stmt],
    loops: &mut Vec<usize>,
    next: &mut usize,
    all: &mut BTreeMap<Id, Vec<Event<'p>>>,
) {
    for stmt in body {
        *next += 1;
        let at = *next;
        let mut note = |id: Id, at: usize, reads: bool| {
            all.entry(id).or_default().push(Event { at, loops: loops.clone(), stmt, reads });
        };
        stmt.reads().into_iter().for_each(|view| note(view.tensor, at, true));
        *next += 1;
        let at = *next;
        stmt.writes().into_iter().for_each(|view| note(view.tensor, at, false));
        let repeats = !matches!(stmt.op, Op::If { .. });
        if repeats {
            loops.push(at);
        }
        for inner in stmt.bodies() {
            events(inner, loops, next, all);
        }
        if repeats {
            loops.pop();
        }
    }
}
