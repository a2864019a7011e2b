//! The schedule of a pipelined loop: the ring of its buffers, and when each slot is filled, awaited and released. The ring is
//! used by the threads of the loop alone. Its waits and barriers are derived from the schedule; see [`crate::synchronise`].

use std::collections::{BTreeMap, BTreeSet};

use super::fill::{self, Fill};
use super::steps::{self, Steps};
use super::{Fetches, fragments, partial, reads, stages};
use crate::source::ast::Span;
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::Problem;
use crate::thread::{Id, Unroll};
use crate::tile::{Ahead, Op, Past, Program, Ring, Split, Stmt, Var};
use crate::values::affine::{Affine, Coord};

/// The statements of a loop around its work on a slot of a ring.
pub(super) struct Slot {
    /// Waits until the slot of this iteration is full.
    pub(super) full: Stmt,
    /// Beside the first part of the work: issues copies into the slot of a later iteration.
    pub(super) early: Vec<Stmt>,
    /// Beside the second to last part of the work, when the slot has been read to registers: shared stores of these
    /// copies, or the release for which a producer waits.
    pub(super) late: Vec<Stmt>,
    /// After that part, ahead of the next slot.
    pub(super) done: Vec<Stmt>,
    /// How the slot after the last one is read.
    pub(super) past: Past,
}

/// The ring of a pipelined loop.
pub(super) struct Own {
    pub(super) ring: Id,
    pub(super) span: Span,
    by: Id,
}

impl Own {
    pub(super) fn statement(&self, op: Op) -> Stmt {
        Stmt::new(self.span, self.by, op)
    }

    pub(super) fn acquire(&self, phase: &Affine) -> Stmt {
        self.statement(Op::Acquire { ring: self.ring, phase: phase.clone() })
    }

    pub(super) fn publish(&self, phase: &Affine) -> Stmt {
        self.statement(Op::Publish { ring: self.ring, phase: phase.clone(), bytes: None })
    }

    pub(super) fn full(&self, phase: &Affine) -> Stmt {
        self.statement(Op::Await { ring: self.ring, phase: phase.clone() })
    }

    pub(super) fn release(&self, phase: &Affine) -> Stmt {
        self.statement(Op::Release { ring: self.ring, phase: phase.clone() })
    }
}

impl Own {
    /// The copies of the first iterations, ahead of the loop.
    pub(super) fn filled_ahead(&self, fill: &Fill, ahead: i64) -> Vec<Stmt> {
        let mut written = Vec::new();
        for at in 0..ahead {
            let at = at.into();
            let whole = fill.step(&at, Past::Skip, &[&fill.issue[..], &fill.land[..]].concat());
            written.push(self.acquire(&at));
            written.extend(whole.map(|op| self.statement(op)));
            written.push(self.publish(&at));
        }
        written
    }
}

/// Writes pipelined loops as loops over slots of rings, and loops with stages as loops over steps.
pub(super) struct Schedule {
    pub(super) program: Program,
    /// For each loop with stages, by its variable, the registers that only it uses.
    pub(super) private: BTreeMap<Id, BTreeSet<Id>>,
    /// Tensors with a mode for slots.
    pub(super) slots: Vec<Id>,
}

impl Schedule {
    pub(super) fn body(&mut self, body: Vec<Stmt>) -> std::result::Result<Vec<Stmt>, Diagnostic> {
        let mut all = Vec::new();
        let mut rest = body.into_iter();
        while let Some(mut stmt) = rest.next() {
            let (span, moved) = (stmt.span, self.moved(&stmt, rest.as_slice()));
            if let Some(steps) = Steps::of(&self.program, &stmt).map_err(|problem| problem.at(span))? {
                all.extend(steps.alone(self).map_err(|problem| problem.at(span))?);
                continue;
            }
            if matches!(&stmt.op, Op::For { ahead: None, body, .. } if stages::is_staged(body)) {
                all.extend(self.staged(stmt)?);
                continue;
            }
            if let Some(ring) = steps::over_ring(self, &stmt).map_err(|problem| problem.at(span))? {
                all.extend(ring);
                continue;
            }
            if let Op::For { var, ahead: Some(ahead), body, .. } = stmt.op {
                all.extend(self.pipelined(var, ahead, body, span, stmt.by)?);
                all.extend(moved);
                continue;
            }
            for inner in stmt.bodies_mut() {
                *inner = self.body(std::mem::take(inner))?;
            }
            all.push(stmt);
        }
        Ok(all)
    }

    fn pipelined(
        &mut self,
        var: Id,
        ahead: Ahead,
        body: Vec<Stmt>,
        span: Span,
        by: Id,
    ) -> std::result::Result<Vec<Stmt>, Diagnostic> {
        let Ahead { stages, fragments, exits, split, .. } = ahead;
        let fetches = Fetches::of(&self.program, var, &ahead, &body);
        let buffers = fetches.tensors(&body);
        let (mut copies, mut work) = reads::apart(&fetches, body);
        let steps = |schedule: &Schedule, work: &[Stmt]| match work {
            [stmt] if stages > 1 => Steps::of(&schedule.program, stmt).map_err(|problem| problem.at(span)),
            _ => Ok(None),
        };
        let both = steps(self, &work)?.is_some_and(|steps| steps.fill_both_slots());
        let crowded = both && fill::crowds(&copies);
        let flat = both && !crowded;
        let is_staged = stages::is_staged(&work);
        if !flat && !is_staged {
            work = self.body(work)?;
        }
        let exits = exits && partial::ascends(&self.program, var, &copies);
        let begin = match fragments {
            2 => partial::first(&self.program, var, &work, &mut copies, split == Split::Threads),
            _ => None,
        };
        let own = self.ring(var, stages, &buffers, span, by);
        let this = Affine::from(Coord::Var(var));
        for stmt in work.iter_mut().chain(&mut copies) {
            self.in_slot(stmt, &buffers, &this, stages);
        }
        if is_staged {
            if fragments == 2 {
                let problem =
                    Problem::new("statements of this loop have stages, and its fragments are prefetched");
                return Err(problem.help("leave `fragments` out, or `stage`").at(span));
            }
            return self.staged_slots(var, &own, copies, work, &buffers);
        }
        let looped = |body| own.statement(Op::For { var, unroll: Unroll::No, ahead: None, body });
        if stages == 1 {
            copies.insert(0, own.acquire(&this));
            copies.extend([own.publish(&this), own.full(&this)]);
            copies.append(&mut work);
            copies.push(own.release(&this));
            return Ok(vec![looped(copies)]);
        }
        let fill = Fill::new(self, copies, var, crowded).map_err(|problem| problem.at(span))?;
        let ahead = i64::from(stages) - 1;
        let mut written = own.filled_ahead(&fill, ahead);
        let next = this.plus(&ahead.into(), 1).unwrap_or_default();
        let issue = fill.step(&next, Past::Skip, &fill.issue).map(|op| own.statement(op));
        // Past the last iteration the registers are stored once more, to a slot that no one reads.
        let land = fill.step(&next, Past::Anyway, &fill.land).map(|op| own.statement(op));
        // Multiply-adds of one thread hide shared stores among them; instructions of a warp are issued too fast for that.
        let (late, done): (Vec<Stmt>, Vec<Stmt>) = land.into_iter().partition(|_| fragments == 2);
        let slot = Slot {
            full: own.full(&this),
            early: [own.acquire(&next)].into_iter().chain(issue).chain([own.publish(&next)]).collect(),
            late,
            done: done.into_iter().chain([own.release(&this)]).collect(),
            past: Past::Last,
        };
        let steps = match fragments {
            2 => {
                let at = work.first().map_or(span, |stmt| stmt.span);
                let exits = exits.then_some(begin);
                Some(fragments::steps(self, &work, var, exits).map_err(|problem| problem.at(at))?)
            }
            _ => steps(self, &work)?.filter(|_| flat),
        };
        let body = match steps {
            Some(steps) => {
                let at = work.first().map_or(span, |stmt| stmt.span);
                let (first, body) = steps.over_slots(self, var, slot).map_err(|problem| problem.at(at))?;
                written.extend(first);
                body
            }
            None => [vec![slot.full], slot.early, work, slot.late, slot.done].concat(),
        };
        written.push(looped(body));
        Ok(written)
    }

    /// A ring of the buffers that a loop fills.
    fn ring(&mut self, var: Id, slots: u32, buffers: &[Id], span: Span, by: Id) -> Own {
        let name = format!("{}_ring", self.program.vars[var as usize].name);
        let (buffers, arrivals, over_cluster) = (buffers.to_vec(), 0, false);
        self.program.rings.push(Ring { name, slots, buffers, from: by, to: by, arrivals, over_cluster });
        Own { ring: self.program.rings.len() as Id - 1, span, by }
    }

    /// Accesses to buffers go to the slots of an iteration's tiles.
    fn in_slot(&self, stmt: &mut Stmt, buffers: &[Id], iteration: &Affine, stages: u32) {
        stmt.each_mut(&mut |stmt| {
            for view in stmt.views_mut() {
                if buffers.contains(&view.tensor) && self.slots.contains(&view.tensor) {
                    view.at_slot(iteration, i64::from(stages));
                }
            }
        });
    }

    /// A new variable.
    pub(super) fn var(&mut self, name: &str, to: impl Into<Affine>) -> Id {
        self.program.vars.push(Var { name: name.into(), from: 0.into(), to: to.into() });
        self.program.vars.len() as Id - 1
    }

    /// Another variable over the range of one.
    pub(super) fn var_like(&mut self, var: Id, what: &str) -> Id {
        let Var { name, to, .. } = &self.program.vars[var as usize];
        let (name, to) = (format!("{name}_{what}"), to.clone());
        self.var(&name, to)
    }
}
