//! Stages of a loop's statements (modulo scheduling). In step `t` of the scheduled loop a statement of stage `s` runs for
//! iteration `t - s`, so that a step works on several iterations; `order` arranges its statements. Results are the same:
//!
//! ```text
//! for k in 0..n {                       a(0)                         prologue, if 0 < n
//!     a                                 for t in 1..n {
//!     stage(1);                             a(t)
//!     b                                     b(t - 1)
//! }                                     }
//!                                       b(n - 1)                     epilogue, if 1 <= n
//! ```
//!
//! - `dependences`: the order of dependent statements, which the schedule must keep;
//! - `numbers`: integers are read again where a statement of another stage has come between;
//! - `rename`: registers for tiles that the next iteration overwrites before the last statement of this one has read them;
//! - `waits`: products in flight are waited for where their registers are needed next;
//! - `rings`: slots are awaited before their first use and released after their last.

mod dependences;
mod numbers;
mod rename;
mod rings;
mod waits;

use std::collections::{BTreeMap, BTreeSet};

use super::fill::Fill;
use super::schedule::{Own, Schedule};
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result, count};
use crate::thread::{Id, Unroll};
use crate::tile::visit::{preorder, substitute};
use crate::tile::{Op, Past, Program, Space, StageOrder, Stmt, Var};
use crate::values::affine::{Affine, Coord};
use crate::values::condition::Test;
pub(crate) use rename::sets;

/// A statement of a step.
#[derive(Clone, Debug)]
struct Item {
    stmt: Stmt,
    /// Its stage.
    stage: i64,
    kind: Kind,
    /// Its position in a step, if it is a statement of the loop's text.
    at: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// It belongs to an iteration, if that is one of the loop's.
    Work,
    /// It names iterations, and runs in every step from its stage on.
    Bare,
    /// A barrier, or a wait for copies: it runs in every step.
    Always,
}

impl Item {
    fn work(stmt: Stmt, stage: i64) -> Item {
        Item { stmt, stage, kind: Kind::Work, at: None }
    }

    fn bare(stmt: Stmt, stage: i64) -> Item {
        Item { stmt, stage, kind: Kind::Bare, at: None }
    }
}

/// A step of the scheduled loop.
#[derive(Clone, Copy)]
enum Step {
    /// This number of steps after the first iteration, before the loop.
    Before(i64),
    /// In the loop.
    Main,
    /// This number of steps after the last iteration, after the loop.
    Behind(i64),
}

/// A loop whose statements have stages.
struct Staged {
    var: Id,
    unroll: Unroll,
    /// The span and the group for new statements.
    like: Stmt,
    /// The last stage.
    last: i64,
    /// The statements of a step, in order.
    items: Vec<Item>,
    /// Rings that another group fills, which the loop advances.
    rings: Vec<rings::Counted>,
}

/// Do the statements of a loop's body have different stages or orders?
pub(super) fn is_staged(body: &[Stmt]) -> bool {
    let mut all = body.iter().filter_map(|stmt| stmt.stage);
    let first = all.next();
    all.any(|order| Some(order) != first)
}

/// How many times statements access each tensor.
pub(crate) fn accesses(body: &[Stmt]) -> BTreeMap<Id, usize> {
    let mut all = BTreeMap::new();
    for view in preorder(body).flat_map(Stmt::accesses) {
        *all.entry(view.tensor).or_default() += 1;
    }
    all
}

/// For each loop with stages, by its variable, the register tensors that are not used outside of it.
pub(super) fn private(program: &Program) -> BTreeMap<Id, BTreeSet<Id>> {
    let (total, mut all) = (accesses(&program.body), BTreeMap::new());
    for stmt in preorder(&program.body) {
        if let Op::For { var, body, .. } = &stmt.op
            && is_staged(body)
        {
            let inside = accesses(body);
            let is_private = |(id, count): &(&Id, &usize)| {
                matches!(program.tensor(**id).space, Space::Registers { .. }) && total.get(id) == Some(count)
            };
            all.insert(*var, inside.iter().filter(is_private).map(|(id, _)| *id).collect());
        }
    }
    all
}

impl Schedule {
    /// The statements of a body with their positions, each expanded. A statement without a position runs with the next one.
    fn placed(&mut self, body: Vec<Stmt>) -> std::result::Result<Vec<(StageOrder, Stmt)>, Diagnostic> {
        let known: Vec<Option<StageOrder>> = body.iter().map(|stmt| stmt.stage).collect();
        let least = known.iter().flatten().map(|order| order.stage).min().unwrap_or(0);
        let mut all = Vec::new();
        for (at, stmt) in body.into_iter().enumerate() {
            let next = known[at..].iter().chain(known[..at].iter().rev()).flatten().next();
            let mut order = next.copied().unwrap_or_default();
            order.stage -= least;
            all.extend(self.body(vec![stmt])?.into_iter().map(|stmt| (order, stmt)));
        }
        Ok(all)
    }

    /// A plain loop with stages.
    pub(super) fn staged(&mut self, stmt: Stmt) -> std::result::Result<Vec<Stmt>, Diagnostic> {
        let like = Stmt { op: Op::Sync, ..stmt.clone() };
        let Op::For { var, unroll, body, .. } = stmt.op else { return Ok(vec![stmt]) };
        let placed = self.placed(body)?;
        let staged = Staged::new(self, var, unroll, like, placed, &[])?;
        staged.peeled(self).map_err(|problem| problem.at(stmt.span))
    }

    /// A loop with stages that fills and empties its own ring.
    pub(super) fn staged_slots(
        &mut self,
        var: Id,
        own: &Own,
        copies: Vec<Stmt>,
        work: Vec<Stmt>,
        buffers: &[Id],
    ) -> std::result::Result<Vec<Stmt>, Diagnostic> {
        let at = own.span;
        let placed = self.placed(work)?;
        let using = placed.iter().filter(|(_, stmt)| uses(stmt, buffers));
        let stages: Vec<i64> = using.map(|(order, _)| order.stage.into()).collect();
        let (first, last) =
            (stages.iter().copied().min().unwrap_or(0), stages.iter().copied().max().unwrap_or(0));
        let slots = i64::from(self.program.rings[own.ring as usize].slots);
        let ahead = slots - 1 - last;
        if ahead < 1 {
            let name = &self.program.tensor(buffers[0]).name;
            let problem = Problem::new(format!(
                "statements of stage {last} use the slots that `{name}` has in this loop, so each is in use for {}, and with {} none is free for the next copy",
                count(last + 1, "step"),
                count(slots, "slot")
            ));
            return Err(problem.help(format!("write stages = {}", last + 2)).at(at));
        }
        let like = own.statement(Op::Sync);
        let mut staged = Staged::new(self, var, Unroll::No, like, placed, buffers)?;
        let fill = Fill::new(self, copies, var, false).map_err(|problem| problem.at(at))?;
        let mut written = own.filled_ahead(&fill, ahead);
        let (this, next) = (Affine::from(Coord::Var(var)), Coord::Var(var));
        let next = Affine::from(next).plus(&ahead.into(), 1).unwrap_or_default();
        let issue = fill.step(&next, Past::Skip, &fill.issue).map(|op| own.statement(op));
        let land = fill.step(&next, Past::Anyway, &fill.land).map(|op| own.statement(op));
        let early = [own.acquire(&next)].into_iter().chain(issue).chain([own.publish(&next)]);
        let full = Item::bare(own.full(&this), first);
        let head = [full].into_iter().chain(early.map(|stmt| Item::bare(stmt, 0)));
        staged.items.splice(0..0, head);
        staged.items.extend(land.map(|stmt| Item::bare(stmt, 0)));
        staged.items.push(Item::bare(own.release(&this), last));
        written.extend(staged.peeled(self).map_err(|problem| problem.at(at))?);
        Ok(written)
    }
}

/// Does a statement access one of these tensors?
fn uses(stmt: &Stmt, tensors: &[Id]) -> bool {
    stmt.preorder().any(|stmt| stmt.accesses().any(|view| tensors.contains(&view.tensor)))
}

impl Staged {
    /// The statements of a step. `slots` are tensors that have a slot for each iteration.
    fn new(
        schedule: &mut Schedule,
        var: Id,
        unroll: Unroll,
        like: Stmt,
        placed: Vec<(StageOrder, Stmt)>,
        slots: &[Id],
    ) -> std::result::Result<Staged, Diagnostic> {
        let (rings, placed) = rings::apart(&schedule.program, placed);
        let of_rings = rings.iter().flat_map(|ring| &schedule.program.rings[ring.ring as usize].buffers);
        let all: Vec<Id> = of_rings.chain(slots).copied().collect();
        let (tokens, placed) = waits::apart(placed);
        let text = dependences::Text::new(&schedule.program, var, placed, all)?;
        let private = schedule.private.get(&var).cloned().unwrap_or_default();
        let renamed = rename::renamed(&schedule.program, &text, &private);
        text.check(&schedule.program, &renamed)?;
        let (mut items, last) = (text.items(&schedule.program), text.last());
        rename::rename(schedule, &mut items, &renamed);
        waits::placed(&schedule.program, &mut items, &tokens, slots);
        let mut staged = Staged { var, unroll, like, last, items, rings: Vec::new() };
        staged.insert_rings(&schedule.program, rings)?;
        numbers::repeat(&schedule.program, &mut staged.items)?;
        Ok(staged)
    }

    fn statement(&self, op: Op) -> Stmt {
        Stmt { op, ..self.like.clone() }
    }

    /// Before the loop, the loop, and after it.
    fn peeled(&self, schedule: &mut Schedule) -> Result<Vec<Stmt>> {
        let Var { name, from, to } = schedule.program.vars[self.var as usize].clone();
        let far = || Problem::new("an iteration of this loop passes 63 bits");
        let after = |at: &Affine, by: i64| at.plus(&by.into(), 1).ok_or_else(far);
        if self.last == 0 {
            let body = self.items.iter().map(|item| item.stmt.clone()).collect();
            return Ok(vec![self.statement(Op::For {
                var: self.var,
                unroll: self.unroll,
                ahead: None,
                body,
            })]);
        }
        let mut written = Vec::new();
        for at in 0..self.last {
            written.extend(self.step(Step::Before(at), &after(&from, at)?)?);
        }
        let begin = after(&from, self.last)?;
        schedule.program.vars.push(Var { name: format!("{name}_step"), from: begin, to: to.clone() });
        let var = schedule.program.vars.len() as Id - 1;
        let body = self.step(Step::Main, &Coord::Var(var).into())?;
        written.push(self.statement(Op::For { var, unroll: self.unroll, ahead: None, body }));
        for at in 0..self.last {
            // The step belongs to the epilogue alone: steps before the loop also run where there are few iterations.
            let test = Test::less(after(&from, self.last - at - 1)?, to.clone());
            let then = self.step(Step::Behind(at), &after(&to, at)?)?;
            written.push(self.statement(Op::If { test, then, other: Vec::new() }));
        }
        let after_all = self.items.iter().filter(|item| item.stage > self.last);
        written.extend(after_all.map(|item| item.stmt.clone()));
        Ok(written)
    }

    /// One step, in which statements of stage 0 run for the iteration `at`.
    fn step(&self, step: Step, at: &Affine) -> Result<Vec<Stmt>> {
        let past = if matches!(step, Step::Before(_)) { Past::Skip } else { Past::Inside };
        let mut written: Vec<Stmt> = Vec::new();
        // The stage of the last statement, if others of it can follow.
        let mut open = None;
        for (position, item) in self.items.iter().enumerate() {
            let runs = match step {
                Step::Before(after) => item.stage <= after,
                Step::Main => true,
                Step::Behind(after) => item.stage > after,
            };
            if !runs && item.kind != Kind::Always {
                continue;
            }
            let stmt = self.counted(position, step)?;
            let iteration = at.plus(&(-item.stage).into(), 1);
            let iteration =
                iteration.ok_or_else(|| Problem::new("an iteration of this loop passes 63 bits"))?;
            match item.kind {
                Kind::Always => written.push(stmt),
                Kind::Bare => {
                    let mut stmt = at_iteration(stmt, self.var, &iteration)?;
                    if let (Op::Step { past: inner @ Past::Anyway, .. }, Step::Before(_)) =
                        (&mut stmt.op, step)
                    {
                        // Where the loop has no iteration, no element to store has been loaded.
                        *inner = Past::Skip;
                    }
                    written.push(stmt);
                }
                Kind::Work => {
                    if let (Some(Stmt { op: Op::Step { body, .. }, .. }), true) =
                        (written.last_mut(), open == Some(item.stage))
                    {
                        body.push(stmt);
                        continue;
                    }
                    let body = vec![stmt];
                    written.push(self.statement(Op::Step { var: self.var, at: iteration, past, body }));
                    open = Some(item.stage);
                    continue;
                }
            }
            open = None;
        }
        Ok(written)
    }
}

/// A statement with the loop's variable replaced by an iteration.
fn at_iteration(mut stmt: Stmt, var: Id, iteration: &Affine) -> Result<Stmt> {
    let far = || Problem::new("a coordinate passes 63 bits");
    substitute(std::slice::from_mut(&mut stmt), &Coord::Var(var), iteration).ok_or_else(far)?;
    Ok(stmt)
}
