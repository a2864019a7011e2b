//! Findings in words.

use super::event::Event;
use super::judge::Race;
use super::walk::Walk;
use crate::check::touch::{Clash, extents};
use crate::check::unwritten::words;
use crate::source::diagnostic::Diagnostic;
use crate::thread::Id;
use crate::tile::Stmt;
use crate::tile::view::View;
use crate::tile::visit::preorder;

/// A kind of finding: each is reported once for a statement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Fault {
    InFlight,
    Unordered,
    Within,
    Unwritten,
}

/// Is this the part of a statement that loads its sources to registers?
fn is_loaded_for(load: &Stmt, stmt: &Stmt) -> bool {
    let reads = stmt.reads();
    let is_read = |to: &&View| reads.iter().any(|view| view.tensor == to.tensor);
    load.span == stmt.span && !std::ptr::eq(load, stmt) && load.writes().iter().any(is_read)
}

impl<'p> Walk<'p, '_> {
    /// A read of a tensor that no statement writes.
    pub(super) fn unwritten(&mut self, stmt: &'p Stmt, events: &[Event<'p>]) {
        for event in events.iter().filter(|event| !event.writes) {
            if !self.written[event.tensor as usize] {
                self.say(stmt, Fault::Unwritten, |walk| words(&walk.program.tensor(event.tensor).name));
            }
        }
    }

    /// Threads read elements that others write in the same statement.
    pub(super) fn within(&mut self, stmt: &'p Stmt, tensor: Id, clash: Clash) {
        self.say(stmt, Fault::Within, |walk| {
            let name = &walk.program.tensor(tensor).name;
            let (element, reader, writer) = (walk.element(tensor, clash), clash.earlier, clash.later);
            let message = format!(
                "threads read elements of `{name}` here that others write at the same time: {element} is read by thread {reader} and written by thread {writer}"
            );
            (message, "copy to registers, write sync_threads(), then copy back".into())
        });
    }

    /// Threads write one element in one statement.
    pub(super) fn written_twice(&mut self, stmt: &'p Stmt, tensor: Id, clash: Clash) {
        self.say(stmt, Fault::Within, |walk| {
            let name = &walk.program.tensor(tensor).name;
            let (element, first, second) = (walk.element(tensor, clash), clash.earlier, clash.later);
            let message = format!(
                "race: several threads write one element of `{name}` here: {element} is written by threads {first} and {second}"
            );
            (message, "give each thread its own elements, or let one thread write, under a condition on thread.x".into())
        });
    }

    /// Accesses to elements that copies in flight write.
    pub(super) fn in_flight(&mut self, stmt: &'p Stmt, caught: &[Event<'p>]) {
        let tensors: Vec<Id> = caught.iter().map(|copy| copy.tensor).collect();
        let passed = caught.iter().any(|copy| copy.passed);
        self.say(stmt, Fault::InFlight, |walk| {
            let (names, many) = walk.names(&tensors);
            let copies = if many { "copies into" } else { "copy into" };
            let are = if many { "are" } else { "is" };
            let help = match passed {
                true => "write cp_async_wait_all() before sync_threads()",
                false => "write cp_async_wait_all() and sync_threads() before this",
            };
            (format!("the {copies} {names} {are} still in flight here"), help.into())
        });
    }

    /// Two unordered accesses.
    pub(super) fn unordered(&mut self, race: &Race<'p, '_>, tensors: &[Id]) {
        let Race { past, now, clash } = race;
        match !past.writes && is_loaded_for(past.stmt, now.stmt) {
            true => self.within(now.stmt, now.tensor, *clash),
            false => self.without_barrier(past, now, *clash, tensors),
        }
    }

    /// Threads of one group.
    fn without_barrier(&mut self, past: &Event<'p>, now: &Event<'p>, clash: Clash, tensors: &[Id]) {
        let around = past.number < now.number && !before(&self.program.body, past.stmt, now.stmt);
        self.say(now.stmt, Fault::Unordered, |walk| {
            let (names, many) = walk.names(tensors);
            let it = if many { "them" } else { "it" };
            let (element, first, second) = (walk.element(now.tensor, clash), clash.earlier, clash.later);
            let what = past.stmt.words();
            let previous = if around { " of the previous iteration" } else { "" };
            let (this, other) = verbs(past, now);
            let message = format!(
                "race: this {this} {names} while other threads may still {other} {it} in {what}{previous}"
            );
            let (did, does) = (done(past), done(now));
            let example = format!("{element} is {did} by thread {first} and {does} by thread {second}");
            let help = match around {
                true => "write sync_threads() at the end of the loop",
                false => "write sync_threads() between them",
            };
            (format!("{message}: {example}"), help.into())
        });
    }

    /// Reports a statement once.
    fn say(&mut self, stmt: &'p Stmt, fault: Fault, text: impl FnOnce(&Self) -> (String, String)) {
        let key = (std::ptr::from_ref(stmt), fault);
        if !self.reported.contains(&key) {
            self.reported.push(key);
            let (message, help) = text(self);
            self.findings.errors.push(Diagnostic::error(stmt.span, message).help(help));
        }
    }

    /// "`sa` and `sb`", and whether there are several.
    fn names(&self, tensors: &[Id]) -> (String, bool) {
        let mut names: Vec<String> = Vec::new();
        for &id in tensors {
            let name = format!("`{}`", self.program.tensor(id).name);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let many = names.len() > 1;
        let last = names.pop().unwrap_or_default();
        (if many { format!("{} and {last}", names.join(", ")) } else { last }, many)
    }

    /// An element by its coordinates.
    fn element(&self, tensor: Id, clash: Clash) -> String {
        let mut rest = clash.element;
        let coordinates: Vec<String> = extents(self.program, tensor)
            .unwrap_or_default()
            .into_iter()
            .map(|extent| {
                let extent = extent.max(1);
                let at = rest % extent;
                rest /= extent;
                at.to_string()
            })
            .collect();
        let name = &self.program.tensor(tensor).name;
        format!("`{name}[{}]`", coordinates.join(", "))
    }
}

fn done(event: &Event<'_>) -> &'static str {
    if event.writes { "written" } else { "read" }
}

/// The later access, and the accesses that may still happen.
fn verbs(past: &Event<'_>, now: &Event<'_>) -> (&'static str, &'static str) {
    match (past.writes, now.writes) {
        (true, false) => ("reads", "write"),
        (false, _) => ("overwrites", "read"),
        (true, true) => ("writes", "write"),
    }
}

/// Does one statement precede another in the text?
fn before(body: &[Stmt], first: &Stmt, second: &Stmt) -> bool {
    let mut after = preorder(body).skip_while(|stmt| !std::ptr::eq(*stmt, first)).skip(1);
    after.any(|stmt| std::ptr::eq(stmt, second))
}
