//! Races in shared memory. The program is walked as a block runs it, the first iterations of each loop. Every
//! access to a shared tensor is checked against those that no barrier separates from it.
//!
//! A copy from global to shared memory is in flight until a wait, and then visible to the thread that started
//! it; a barrier makes it visible to the others. A reported race happens in a run of the kernel; what cannot
//! be decided is listed.

use std::collections::VecDeque;

use super::Budget;
use super::touch::{Maps, Place};
use crate::affine::{Affine, Coord};
use crate::ast::Span;
use crate::diagnostic::Diagnostic;
use crate::thread::Id;
use crate::tile::{Across, How, Op, Past, Program, Space, Stmt};
use crate::view::View;

/// The most iterations of one loop that are walked.
const MOST_ITERATIONS: i64 = 16;

/// The most statements that are walked, each as often as its loops run: nested loops multiply.
const MOST_STATEMENTS: u32 = 20_000;

/// Findings.
#[derive(Default)]
pub(super) struct Found {
    pub(super) errors: Vec<Diagnostic>,
    pub(super) undecided: Vec<(Span, String)>,
}

/// Walks a program.
pub(super) fn find(program: &Program, budget: &mut Budget) -> Found {
    let shared = |tensor: &crate::tile::Tensor| matches!(tensor.space, Space::Shared { .. });
    if !program.tensors.iter().any(shared) {
        return Found::default();
    }
    let mut walk = Walk {
        program,
        maps: Maps::new(program, budget),
        vars: vec![0; program.vars.len()],
        state: State::default(),
        walked: Vec::new(),
        given_up: vec![false; program.tensors.len()],
        written: Vec::new(),
        said: Vec::new(),
        arms: 0,
        under: Under::Always,
        pending: most_pending(&program.body),
        serial: 0,
        steps: 0,
        found: Found::default(),
    };
    let written =
        |(id, of): (usize, &crate::tile::Tensor)| shared(of) && walk.writes(&program.body, id as Id);
    walk.written = program.tensors.iter().enumerate().map(written).collect();
    walk.statements(&program.body);
    if walk.steps > MOST_STATEMENTS {
        walk.leave(&program.body, "its loops go through too many statements to walk while compiling");
    }
    walk.found
}

/// One access of all threads, by a statement that has been walked.
#[derive(Clone)]
struct Event<'p> {
    serial: u32,
    stmt: &'p Stmt,
    tensor: Id,
    place: Place,
    writes: bool,
    /// Does it change elements atomically? Atomic updates may come in any order.
    atomic: bool,
    under: Under,
    /// A barrier has been passed while this was in flight.
    passed: bool,
}

/// The unknown conditions under which something happens.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Under {
    Always,
    /// In one arm of one condition.
    Arm(u64),
    /// In several.
    Mixed,
}

impl Under {
    /// Is there certainly a run in which both happen?
    fn meets(self, other: Under) -> bool {
        match (self, other) {
            (Under::Mixed, _) | (_, Under::Mixed) => false,
            (Under::Arm(x), Under::Arm(y)) => x == y,
            _ => true,
        }
    }
}

/// A commit group of copies in flight.
#[derive(Clone, Default)]
struct Flight<'p> {
    copies: Vec<Event<'p>>,
    /// The token of the copy that committed it.
    token: Option<Id>,
}

#[derive(Clone, Default)]
struct State<'p> {
    /// Accesses since the last barrier.
    past: Vec<Event<'p>>,
    /// Commit groups in flight, oldest first.
    flight: VecDeque<Flight<'p>>,
    /// Copies that are not committed yet.
    open: Vec<Event<'p>>,
    /// It is not known which copies are in flight.
    vague: bool,
}

struct Walk<'p, 'b> {
    program: &'p Program,
    maps: Maps<'p, 'b>,
    vars: Vec<i64>,
    state: State<'p>,
    /// Extents of loops that have been walked, and for how many iterations.
    walked: Vec<(Affine, i64)>,
    /// Tensors that are left to the simulator.
    given_up: Vec<bool>,
    /// Tensors that some statement writes.
    written: Vec<bool>,
    /// Statements that have been reported.
    said: Vec<(*const Stmt, Fault)>,
    arms: u64,
    under: Under,
    /// The most commit groups that a wait leaves in flight.
    pending: i64,
    serial: u32,
    /// Statements so far.
    steps: u32,
    found: Found,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    InFlight,
    Unordered,
    Within,
    Unwritten,
}

/// An access of one statement to shared memory.
struct Touch<'p> {
    view: &'p View,
    writes: bool,
    atomic: bool,
    in_flight: bool,
}

impl<'p> Walk<'p, '_> {
    fn statements(&mut self, body: &'p [Stmt]) {
        for stmt in body {
            self.steps = self.steps.saturating_add(1);
            if self.steps > MOST_STATEMENTS {
                return;
            }
            self.statement(stmt);
        }
    }

    fn statement(&mut self, stmt: &'p Stmt) {
        match &stmt.op {
            Op::Copy { .. }
            | Op::Take { .. }
            | Op::Fill { .. }
            | Op::Map { .. }
            | Op::Gemm { .. }
            | Op::Follows { .. }
            | Op::Atomic { .. } => {
                self.access(stmt);
            }
            Op::Signal { .. } | Op::AwaitFlag { .. } | Op::SyncCluster if stmt.by == 0 => self.barrier(),
            Op::Reduce { across, .. } | Op::Fold { across, .. } => {
                self.access(stmt);
                // A block-wide reduction has a barrier inside. It orders accesses here, although users should
                // not rely on it.
                if *across == Across::Block {
                    self.barrier();
                }
            }
            Op::Scan { how, .. } => {
                self.access(stmt);
                if how.across().contains(&Across::Block) {
                    self.barrier();
                }
            }
            Op::Sync if stmt.by == 0 => self.barrier(),
            Op::CommitCopies => self.close(None),
            Op::WaitCopies { pending } => {
                if !self.state.open.is_empty() {
                    self.close(None);
                }
                self.land(self.state.flight.len().saturating_sub(*pending as usize));
            }
            Op::Wait { token, but } => {
                // Groups complete in the order in which they were committed.
                let mine = self.state.flight.iter().enumerate().rev();
                let last = mine.filter(|(_, group)| group.token == Some(*token)).nth(*but as usize);
                self.land(last.map_or(0, |(at, _)| at + 1));
            }
            Op::For { var, body, .. } => self.repeat(stmt, *var, body),
            Op::Step { var, at, past, body } => {
                // A loop whose extent is not known is taken to end where its walk does.
                let (at, extent) = (self.value(at), &self.program.vars[*var as usize].to);
                let walked = self
                    .walked
                    .iter()
                    .find(|(known, _)| *known == *extent)
                    .map(|(_, iterations)| *iterations);
                let extent = self.is_known(extent).then(|| self.value(extent)).or(walked);
                if *past == Past::Anyway {
                    self.vars[*var as usize] = at;
                    self.statements(body);
                } else if *past == Past::Last || extent.is_none_or(|extent| at < extent) {
                    self.vars[*var as usize] = extent.map_or(at, |extent| at.min(extent - 1));
                    self.statements(body);
                }
            }
            Op::If { test, then, other } => {
                if test.scalars().is_empty() && test.integers().iter().all(|at| self.is_known(at)) {
                    let holds = test.eval(&|coord| self.at(coord), &|_| false);
                    return self.statements(if holds { then } else { other });
                }
                if test.per_thread() {
                    let why =
                        "some threads access it and others do not, depending on data or on the thread index";
                    return self.leave(std::slice::from_ref(stmt), why);
                }
                self.arms += 2;
                let arms = self.arms;
                self.branch(then, other, arms);
            }
            // A condition on scalar arguments is the same for the whole launch.
            Op::When { then, other, .. } => self.branch(then, other, (stmt as *const Stmt as u64) | 1 << 63),
            Op::Leave { .. } => {}
            Op::Roles(roles) => {
                for (_, body) in roles {
                    self.leave(body, "groups of threads share it");
                }
            }
            _ => self.leave(std::slice::from_ref(stmt), "this statement shares it"),
        }
    }

    /// Commits a group of copies.
    fn close(&mut self, token: Option<Id>) {
        let copies = std::mem::take(&mut self.state.open);
        self.state.flight.push_back(Flight { copies, token });
    }

    /// Waits for the oldest groups.
    fn land(&mut self, groups: usize) {
        let landed = self.state.flight.drain(..groups);
        self.state.past.extend(landed.flat_map(|group| group.copies));
    }

    /// Copies in flight.
    fn in_the_air(&self) -> impl Iterator<Item = &Event<'p>> {
        self.state.flight.iter().flat_map(|group| &group.copies).chain(&self.state.open)
    }

    /// Leaves the tensors that these statements touch to the simulator.
    fn leave(&mut self, body: &'p [Stmt], why: &str) {
        for id in 0..self.program.tensors.len() {
            let touched = |view: &View| view.tensor == id as Id;
            if let Some(span) = first_touch(body, &|stmt| rings(self.program, stmt, id as Id), &touched) {
                self.give_up(id as Id, span, why);
            }
        }
        // These statements may start or wait for copies.
        self.state.vague |= !body.is_empty();
    }

    fn give_up(&mut self, tensor: Id, span: Span, why: &str) {
        let of = self.program.tensor(tensor);
        if matches!(of.space, Space::Shared { .. }) && !self.given_up[tensor as usize] {
            self.given_up[tensor as usize] = true;
            self.undecided(span, format!("`{}`: {why}; its order is left to the simulator", of.name));
        }
    }

    fn undecided(&mut self, span: Span, text: String) {
        if !self.found.undecided.iter().any(|(_, known)| *known == text) {
            self.found.undecided.push((span, text));
        }
    }

    fn value(&self, affine: &Affine) -> i64 {
        affine.eval(&|coord| self.at(coord))
    }

    fn at(&self, coord: &Coord) -> i64 {
        match coord {
            Coord::Var(var) => self.vars[*var as usize],
            _ => 0,
        }
    }

    /// Is this number known while walking: made of loop variables alone?
    fn is_known(&self, affine: &Affine) -> bool {
        !affine.any(&|coord| !matches!(coord, Coord::Var(_) | Coord::Digit { .. } | Coord::Two(..)))
    }

    fn barrier(&mut self) {
        self.state.past.clear();
        let flight = self.state.flight.iter_mut().flat_map(|group| &mut group.copies);
        for event in flight.chain(&mut self.state.open) {
            event.passed = true;
        }
    }

    /// Walks the first iterations of a loop: until slots and copies in flight repeat.
    fn repeat(&mut self, stmt: &'p Stmt, var: Id, body: &'p [Stmt]) {
        let (mut period, mut periodic) = (1i64, true);
        self.slots(body, var, &mut period, &mut periodic);
        let wanted = period.saturating_add(self.pending).saturating_add(1);
        let of = &self.program.vars[var as usize];
        // A loop whose start is not known is walked as if from 0.
        let first = if self.is_known(&of.from) { self.value(&of.from) } else { 0 };
        let count = self.is_known(&of.to).then(|| (self.value(&of.to) - first).max(0));
        let iterations = count
            .unwrap_or(i64::MAX)
            .min(if periodic { wanted } else { MOST_ITERATIONS })
            .min(MOST_ITERATIONS);
        if (!periodic || wanted > MOST_ITERATIONS) && count.is_none_or(|count| count > iterations) {
            let name = &self.program.vars[var as usize].name;
            let text = format!(
                "races after the first {iterations} iterations of `{name}` are left to the simulator"
            );
            self.undecided(stmt.span, text);
        }
        let to = of.to.clone();
        self.walked.retain(|(known, _)| *known != to);
        self.walked.push((to, first + iterations));
        for iteration in first..first + iterations {
            if self.steps > MOST_STATEMENTS {
                return;
            }
            self.vars[var as usize] = iteration;
            self.statements(body);
        }
    }

    /// The period, in iterations, of the slots that a loop accesses in shared memory.
    fn slots(&self, body: &[Stmt], var: Id, period: &mut i64, periodic: &mut bool) {
        each_view(body, &mut |view| {
            if !matches!(self.program.tensor(view.tensor).space, Space::Shared { .. }) {
                return;
            }
            for (coord, _) in view.base.iter().flat_map(|base| &base.terms) {
                match coord {
                    Coord::Var(of) if *of == var => *periodic = false,
                    Coord::Digit { of, over, extent } if of.any(&|coord| *coord == Coord::Var(var)) => {
                        match extent.and_then(|extent| over.checked_mul(extent)) {
                            Some(count) if count > 0 => *period = lcm(*period, count),
                            _ => *periodic = false,
                        }
                    }
                    Coord::Two(..) if Affine::from(coord.clone()).any(&|c| *c == Coord::Var(var)) => {
                        *periodic = false;
                    }
                    _ => {}
                }
            }
        });
    }

    fn branch(&mut self, then: &'p [Stmt], other: &'p [Stmt], arms: u64) {
        let (before, outer) = (self.state.clone(), self.under);
        self.under = Under::Arm(arms << 1);
        self.statements(then);
        let after = std::mem::replace(&mut self.state, before);
        self.under = Under::Arm(arms << 1 | 1);
        self.statements(other);
        self.under = outer;
        let serials = |state: &State<'_>| {
            let flight = state.flight.iter().flat_map(|group| &group.copies);
            flight.chain(&state.open).map(|e| e.serial).collect::<Vec<_>>()
        };
        self.state.vague |= after.vague
            || after.flight.len() != self.state.flight.len()
            || serials(&after) != serials(&self.state);
        // An access that only one arm has ordered is unordered after the other arm.
        let only = |events: &mut [Event<'p>], known: &[Event<'p>], arm: u64| {
            for event in events.iter_mut().filter(|e| !known.iter().any(|k| k.serial == e.serial)) {
                event.under = match event.under {
                    Under::Always => Under::Arm(arm),
                    Under::Arm(same) if same == arm => event.under,
                    _ => Under::Mixed,
                };
            }
        };
        let (mut first, mut second) = (after.past, std::mem::take(&mut self.state.past));
        let known = first.clone();
        only(&mut first, &second, arms << 1);
        only(&mut second, &known, arms << 1 | 1);
        second.retain(|event| !known.iter().any(|k| k.serial == event.serial));
        first.extend(second);
        self.state.past = first;
    }

    /// Does any of these statements write to a tensor?
    fn writes(&self, body: &'p [Stmt], tensor: Id) -> bool {
        let mut writes = false;
        each_stmt(body, &mut |stmt| {
            writes |= rings(self.program, stmt, tensor);
            writes |= touches(self.program, stmt).iter().any(|t| t.writes && t.view.tensor == tensor);
            if let Op::Reduce { to, .. } = &stmt.op {
                writes |= to.tensor == tensor;
            }
        });
        writes
    }

    fn access(&mut self, stmt: &'p Stmt) {
        if stmt.by != 0 {
            return self.leave(std::slice::from_ref(stmt), "one group of threads touches it");
        }
        let mut events = Vec::new();
        for touch in touches(self.program, stmt) {
            let (view, tensor) = (touch.view, touch.view.tensor);
            if view.peer.is_some() {
                self.give_up(tensor, stmt.span, "other blocks of the cluster reach it");
            }
            if self.given_up[tensor as usize] {
                continue;
            }
            match self.maps.place(view, &self.vars) {
                Ok(place) => {
                    self.serial += 1;
                    let (writes, under) = (touch.writes, self.under);
                    let (serial, atomic) = (self.serial, touch.atomic);
                    let event = Event { serial, stmt, tensor, place, writes, atomic, under, passed: false };
                    events.push((event, touch.in_flight));
                }
                Err(why) => {
                    self.give_up(tensor, stmt.span, why);
                    self.state.past.retain(|event| event.tensor != tensor);
                }
            }
        }
        self.judge(stmt, &events);
        for (event, in_flight) in events {
            if in_flight { self.state.open.push(event) } else { self.state.past.push(event) }
        }
        if let Op::Copy { token: Some(token), .. } = &stmt.op {
            self.close(Some(*token));
        }
    }

    fn judge(&mut self, stmt: &'p Stmt, events: &[(Event<'p>, bool)]) {
        let now = || events.iter().map(|(event, _)| event);
        self.unwritten(stmt, events);
        // A copy in flight orders nothing: its target can be neither read nor overwritten.
        let mut caught: Vec<(Event<'p>, &Event<'p>)> = Vec::new();
        let flight: Vec<Event<'p>> = self.in_the_air().cloned().collect();
        for copy in flight {
            for event in now().filter(|event| event.tensor == copy.tensor) {
                if Place::meet(&copy.place, &event.place, &mut self.maps).is_some() {
                    caught.push((copy.clone(), event));
                }
            }
        }
        if let Some((copy, event)) = caught.first() {
            if self.state.vague || !copy.under.meets(event.under) {
                let name = &self.program.tensor(copy.tensor).name;
                self.undecided(
                    stmt.span,
                    format!("`{name}`: whether its copy is still in flight depends on a condition"),
                );
            } else {
                self.in_flight(stmt, &caught);
            }
            // Continue as if the wait were there, so that one mistake is one error.
            self.state = State { vague: self.state.vague, ..State::default() };
            return;
        }
        for (read, _) in events.iter().filter(|(event, _)| !event.writes) {
            for (write, _) in events.iter().filter(|(event, _)| event.writes && event.tensor == read.tensor) {
                if let Some(clash) = Place::clash(&read.place, &write.place, &mut self.maps) {
                    self.say(stmt, Fault::Within, |walk| {
                        let name = &walk.program.tensor(read.tensor).name;
                        let (element, reader, writer) = walk.example(read.tensor, clash);
                        let message = format!(
                            "threads read elements of `{name}` here that others write at the same time: {element} is read by thread {reader} and written by thread {writer}"
                        );
                        (message, "copy to registers, write sync_threads(), then copy back".into())
                    });
                    return;
                }
            }
        }
        let mut clashes = Vec::new();
        for event in now() {
            for past in &self.state.past {
                let updates = past.atomic && event.atomic;
                if past.tensor != event.tensor || updates || !(past.writes || event.writes) {
                    continue;
                }
                if let Some(clash) = Place::clash(&past.place, &event.place, &mut self.maps) {
                    clashes.push((past.clone(), event, clash));
                    break;
                }
            }
        }
        let Some((past, event, clash)) = clashes.first() else { return };
        if !past.under.meets(event.under) {
            let name = &self.program.tensor(past.tensor).name;
            let text = format!("`{name}`: whether a barrier lies between accesses depends on a condition");
            self.undecided(stmt.span, text);
        } else {
            let tensors: Vec<Id> = clashes.iter().map(|(_, event, _)| event.tensor).collect();
            self.unordered(stmt, past, event, *clash, &tensors);
        }
        self.state.past.clear();
    }

    /// A read of a tensor that no statement writes.
    fn unwritten(&mut self, stmt: &'p Stmt, events: &[(Event<'p>, bool)]) {
        for (event, _) in events.iter().filter(|(event, _)| !event.writes) {
            if !self.written[event.tensor as usize] {
                self.say(stmt, Fault::Unwritten, |walk| {
                    let name = &walk.program.tensor(event.tensor).name;
                    let message = format!("`{name}` is read here, and nothing is ever written to it");
                    (message, format!("copy something into `{name}` first"))
                });
            }
        }
    }

    fn in_flight(&mut self, stmt: &'p Stmt, caught: &[(Event<'p>, &Event<'p>)]) {
        let tensors: Vec<Id> = caught.iter().map(|(copy, _)| copy.tensor).collect();
        let passed = caught.iter().any(|(copy, _)| copy.passed);
        self.say(stmt, Fault::InFlight, |walk| {
            let (names, many) = walk.names(&tensors);
            let copies = if many { "copies into" } else { "copy into" };
            let are = if many { "are" } else { "is" };
            let under_token =
                |(copy, _): &(Event<'p>, &Event<'p>)| matches!(copy.stmt.op, Op::Copy { token: Some(_), .. });
            let help = match passed {
                _ if caught.iter().any(under_token) => {
                    "wait for the copy's token, then let the threads meet, before this"
                }
                true => "write cp_async_wait_all() before sync_threads()",
                false => "write cp_async_wait_all() and sync_threads() before this",
            };
            (format!("the {copies} {names} {are} still in flight here"), help.into())
        });
    }

    fn unordered(
        &mut self,
        stmt: &'p Stmt,
        past: &Event<'p>,
        event: &Event<'p>,
        clash: Clash,
        tensors: &[Id],
    ) {
        let around = past.serial < event.serial && !before(&self.program.body, past.stmt, stmt);
        self.say(stmt, Fault::Unordered, |walk| {
            let (names, many) = walk.names(tensors);
            let it = if many { "them" } else { "it" };
            let (element, first, second) = walk.example(event.tensor, clash);
            let what = walk.describe(past.stmt);
            let (did, does) =
                (if past.writes { "written" } else { "read" }, if event.writes { "written" } else { "read" });
            let previous = if around { " of the previous iteration" } else { "" };
            let (this, other) = match (past.writes, event.writes) {
                (true, false) => ("reads", "write"),
                (false, _) => ("overwrites", "read"),
                (true, true) => ("writes", "write"),
            };
            let message = format!(
                "race: this {this} {names} while other threads may still {other} {it} in {what}{previous}"
            );
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
        let key = (stmt as *const Stmt, fault);
        if !self.said.contains(&key) {
            self.said.push(key);
            let (message, help) = text(self);
            self.found.errors.push(Diagnostic::error(stmt.span, message).help(help));
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

    /// An element by its coordinates, and a thread of each side.
    fn example(&self, tensor: Id, (index, first, second): Clash) -> (String, u32, u32) {
        let mut rest = index;
        let coordinates: Vec<String> = self
            .program
            .tensor(tensor)
            .plain()
            .modes()
            .map(|mode| {
                let extent = mode.size().unwrap_or(1).max(1);
                let at = rest % extent;
                rest /= extent;
                at.to_string()
            })
            .collect();
        let name = &self.program.tensor(tensor).name;
        (format!("`{name}[{}]`", coordinates.join(", ")), first, second)
    }

    fn describe(&self, stmt: &Stmt) -> String {
        match &stmt.op {
            Op::Copy { from, to, .. } => format!("the copy of `{}` to `{}`", from.name, to.name),
            Op::Gemm { a, b, .. } => format!("the product of `{}` and `{}`", a.name, b.name),
            Op::Take { from, .. } => format!("the read of `{}`", from.name),
            Op::Fill { to, .. } => format!("the fill of `{}`", to.name),
            Op::Map { to, .. } => format!("the map into `{}`", to.name),
            _ => "an earlier statement".into(),
        }
    }
}

/// An element, and two different threads: of the earlier access, and of the later one.
pub(super) type Clash = (i64, u32, u32);

/// The accesses of a statement to shared memory, reads first.
fn touches<'p>(program: &Program, stmt: &'p Stmt) -> Vec<Touch<'p>> {
    let space = |view: &View| program.tensor(view.tensor).space;
    let read = |view: &'p View| Touch { view, writes: false, atomic: false, in_flight: false };
    let write = |view: &'p View| Touch { view, writes: true, atomic: false, in_flight: false };
    let all = match &stmt.op {
        Op::Copy { from, to, how, .. } => {
            let global = matches!(space(from), Space::Global { .. });
            vec![
                read(from),
                Touch {
                    view: to,
                    writes: true,
                    atomic: false,
                    in_flight: global && !matches!(how, How::Plain | How::Here | How::Staged),
                },
            ]
        }
        Op::Atomic { from, to, .. } => vec![read(from), Touch { atomic: true, ..write(to) }],
        Op::Fill { to, .. } => vec![write(to)],
        Op::Take { from, .. } => vec![read(from)],
        Op::Map { ins, to, .. } => ins.iter().map(read).chain([write(to)]).collect(),
        Op::Gemm { a, b, .. } => vec![read(a), read(b)],
        Op::Reduce { from, to, .. } => vec![read(from), read(to), write(to)],
        _ => Vec::new(),
    };
    all.into_iter().filter(|touch| matches!(space(touch.view), Space::Shared { .. })).collect()
}

/// Does a statement concern a ring that owns this tensor?
fn rings(program: &Program, stmt: &Stmt, tensor: Id) -> bool {
    match &stmt.op {
        Op::Acquire { ring, .. }
        | Op::Publish { ring, .. }
        | Op::Await { ring, .. }
        | Op::Release { ring, .. } => program.rings[*ring as usize].buffers.contains(&tensor),
        _ => false,
    }
}

/// Bodies inside a statement.
fn bodies(stmt: &Stmt) -> Vec<&[Stmt]> {
    match &stmt.op {
        Op::For { body, .. } | Op::Step { body, .. } | Op::Tiles { body, .. } | Op::Ordered { body, .. } => {
            vec![body]
        }
        Op::If { then, other, .. } | Op::When { then, other, .. } => vec![then, other],
        Op::Roles(roles) => roles.iter().map(|(_, body)| body.as_slice()).collect(),
        _ => Vec::new(),
    }
}

fn each_stmt<'p>(body: &'p [Stmt], f: &mut dyn FnMut(&'p Stmt)) {
    for stmt in body {
        f(stmt);
        bodies(stmt).into_iter().for_each(|body| each_stmt(body, f));
    }
}

fn each_view<'p>(body: &'p [Stmt], f: &mut dyn FnMut(&'p View)) {
    each_stmt(body, &mut |stmt| match &stmt.op {
        Op::Copy { from, to, .. } | Op::Reduce { from, to, .. } | Op::Atomic { from, to, .. } => {
            [from, to].into_iter().for_each(&mut *f);
        }
        Op::Fill { to, .. } => f(to),
        Op::Take { from, .. } => f(from),
        Op::Map { ins, to, .. } => ins.iter().chain([to]).for_each(&mut *f),
        Op::Gemm { a, b, acc, .. } => [a, b, acc].into_iter().for_each(&mut *f),
        _ => {}
    });
}

/// The first access of these statements to a tensor.
fn first_touch(
    body: &[Stmt],
    by_ring: &dyn Fn(&Stmt) -> bool,
    touched: &dyn Fn(&View) -> bool,
) -> Option<Span> {
    let mut span = None;
    each_stmt(body, &mut |stmt| {
        let mut here = by_ring(stmt);
        if bodies(stmt).is_empty() {
            each_view(std::slice::from_ref(stmt), &mut |view| here |= touched(view));
        }
        if here && span.is_none() {
            span = Some(stmt.span);
        }
    });
    span
}

/// Does one statement precede another in the text?
fn before(body: &[Stmt], first: &Stmt, second: &Stmt) -> bool {
    let (mut seen, mut answer) = (false, false);
    each_stmt(body, &mut |stmt| {
        answer |= seen && std::ptr::eq(stmt, second);
        seen |= std::ptr::eq(stmt, first);
    });
    answer
}

fn most_pending(body: &[Stmt]) -> i64 {
    let mut most = 0;
    each_stmt(body, &mut |stmt| {
        if let Op::WaitCopies { pending: left } | Op::Wait { but: left, .. } = stmt.op {
            most = most.max(i64::from(left));
        }
    });
    most
}

fn lcm(a: i64, b: i64) -> i64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}
