//! Products into tiles of one iteration, which other statements then use, such as sums that are promoted:
//!
//! ```text
//! for k in pipelined(0..n, …, producer = warp) {    start(0)
//!     …                                             start(1); wait for 0; finish(0)
//!     let mut part = mma.accumulators(…);           start(2); wait for 1; finish(1)
//!     gemm(sa, sb, &mut part);                      …
//!     acc += part;                                  wait for 7; finish(7)
//! }
//! ```
//!
//! The product of the next iteration runs while an iteration is finished. So even and odd iterations have separate registers for
//! the tiles that `start` sets. No product is in flight between iterations of the loop that is written: its registers would
//! pass from one to the next, and the compiler would therefore wait for it at once. So one has eight of the program's.

use std::collections::{BTreeMap, BTreeSet};

use super::Project;
use super::split::far;
use crate::build::Builder;
use crate::isa::REGISTER_POOL;
use crate::pipeline::{sets, uses};
use crate::source::ast::Span;
use crate::source::problem::Result;
use crate::thread::{Id, Unroll};
use crate::tile::{Op, Program, Space, Stmt, Var};
use crate::values::affine::{Affine, Arith, Coord};

/// Pairs of iterations without a break between their products.
const PAIRS: i64 = 4;
/// Registers of a thread for other values.
const OTHERS: i64 = 40;

/// The consumers' statements of an iteration.
pub(super) struct Parts {
    /// The products, and what does not depend on them.
    start: Vec<Stmt>,
    finish: Vec<Stmt>,
    /// The tensors of odd iterations.
    odd: BTreeMap<Id, Id>,
    /// Products of an iteration, and their token.
    products: u32,
    token: Id,
    ring: Id,
    var: Id,
    by: Id,
    span: Span,
}

fn is_register(program: &Program, id: Id) -> bool {
    matches!(program.tensor(id).space, Space::Registers { .. })
}

impl Project<'_> {
    /// The parts of a loop that its products divide so, if they do and there are registers for it.
    pub(super) fn parts(&mut self, ring: Id, var: Id, body: &[Stmt], span: Span) -> Option<Parts> {
        let (mut start, mut finish) = (Vec::new(), Vec::new());
        let (mut own, mut results, mut products) = (BTreeSet::new(), BTreeSet::new(), 0);
        for stmt in body {
            let written: Vec<Id> = stmt.writes().into_iter().map(|to| to.tensor).collect();
            let uses_result = stmt.reads().iter().any(|from| results.contains(&from.tensor));
            match &stmt.op {
                Op::Gemm { acc, .. } if self.is_asynchronous(&stmt.op) => {
                    products += 1;
                    if !finish.is_empty() || !own.contains(&acc.tensor) {
                        return None;
                    }
                    results.insert(acc.tensor);
                    start.push(stmt.clone());
                }
                Op::Contents { .. } | Op::Await { .. } => start.push(stmt.clone()),
                Op::Copy { token: None, .. } | Op::Map { .. } => {
                    if !written.iter().all(|id| is_register(self.program, *id)) {
                        return None;
                    }
                    if uses_result || written.iter().any(|id| results.contains(id)) {
                        results.extend(written);
                        finish.push(stmt.clone());
                    } else {
                        let is_set = |id: &Id| own.contains(id) || sets(self.program, stmt, *id);
                        if !written.iter().all(is_set) {
                            return None;
                        }
                        own.extend(written);
                        start.push(stmt.clone());
                    }
                }
                _ => return None,
            }
        }
        // The next iteration starts before this one is finished, and after that the slot is free.
        let finished: BTreeSet<Id> = finish.iter().flat_map(Stmt::writes).map(|to| to.tensor).collect();
        let apart = start.iter().flat_map(Stmt::reads).all(|from| !finished.contains(&from.tensor));
        let is_free =
            finish.iter().flat_map(Stmt::reads).all(|from| !self.buffers.contains_key(&from.tensor));
        let inside = uses(body);
        let private = own.iter().all(|id| self.uses.get(id) == inside.get(id));
        if finish.is_empty() || !apart || !is_free || !private || finished.iter().any(|id| own.contains(id)) {
            return None;
        }
        let registers = |id: &Id| -> i64 {
            let of = self.program.tensor(*id);
            let bytes = of.elem.bytes_of(of.plain().size().unwrap_or(i64::MAX / 8));
            bytes / 4 / i64::from(self.program.groups[self.consumers as usize].threads)
        };
        let most = self.program.groups[self.consumers as usize].registers.unwrap_or(REGISTER_POOL.most);
        let needed: i64 = own.iter().chain(&own).chain(&finished).map(registers).sum();
        if needed + OTHERS > i64::from(most) {
            return None;
        }
        let mut odd = BTreeMap::new();
        for id in own {
            let mut of = self.program.tensor(id).clone();
            of.name += "_odd";
            odd.insert(id, self.program.tensors.len() as Id);
            if let Some(form) = self.program.forms.get(&id).cloned() {
                self.program.forms.insert(self.program.tensors.len() as Id, form);
            }
            self.program.tensors.push(of);
        }
        let token = self.program.tokens;
        self.program.tokens += 1;
        let mut consumed = |stmts: Vec<Stmt>| -> Vec<Stmt> {
            let all = stmts.into_iter().flat_map(|stmt| self.consumed(stmt, Some(token))).collect::<Vec<_>>();
            // The contents are at their slots already.
            let is_in_slot = |stmt: &Stmt| matches!(stmt.op, Op::Contents { .. });
            all.into_iter().map(|stmt| if is_in_slot(&stmt) { stmt } else { self.in_slot(stmt) }).collect()
        };
        let (start, finish) = (consumed(start), consumed(finish));
        Some(Parts { start, finish, odd, products, token, ring, var, by: self.consumers, span })
    }
}

impl Parts {
    /// The loops.
    pub(super) fn written(&self, program: &mut Program) -> Result<Vec<Stmt>> {
        let Var { from, to, .. } = program.vars[self.var as usize].clone();
        let mut count = to.plus(&from, -1).ok_or_else(far)?;
        if count.size().is_none() {
            count = Affine::two(Arith::Max, &count, &0.into()).ok_or_else(far)?;
        }
        let groups = count.submode(2 * PAIRS, None);
        let first = from.plus(&groups, 2 * PAIRS).ok_or_else(far)?;
        let last = to.plus(&1.into(), -1).ok_or_else(far)?;
        let loops = |b: &mut Builder| -> Result<()> {
            b.repeat("group", groups, Unroll::No, |b, at| {
                self.pairs(b, PAIRS, &from.plus(&at, 2 * PAIRS).ok_or_else(far)?)
            })?;
            b.repeat("pair", count.submode(2, Some(PAIRS)), Unroll::No, |b, at| {
                self.pairs(b, 1, &first.plus(&at, 2).ok_or_else(far)?)
            })?;
            b.repeat("last", count.submode(1, Some(2)), Unroll::No, |b, _| {
                self.run(b, &self.start, false, &last)?;
                self.done(b, false, &last)
            })
        };
        let (resumed, stmts) = Builder::resumed(std::mem::take(program), self.span, self.by, loops);
        *program = resumed;
        stmts
    }

    /// Iterations from the first on, with a product in flight from one to the next.
    fn pairs(&self, b: &mut Builder, pairs: i64, first: &Affine) -> Result<()> {
        let at = |pair: &Affine, more: i64| {
            first.plus(pair, 2).and_then(|at| at.plus(&more.into(), 1)).ok_or_else(far)
        };
        self.run(b, &self.start, false, first)?;
        if pairs > 1 {
            b.repeat("pair", pairs - 1, Unroll::Full, |b, pair| {
                self.next(b, true, &at(&pair, 0)?)?;
                self.next(b, false, &at(&pair, 1)?)
            })?;
        }
        let last = Affine::from(pairs - 1);
        self.next(b, true, &at(&last, 0)?)?;
        self.done(b, true, &at(&last, 1)?)
    }

    /// Starts the iteration after one, and finishes that one.
    fn next(&self, b: &mut Builder, odd: bool, before: &Affine) -> Result<()> {
        let phase = Affine::from(Coord::Phase(self.ring)).plus(&1.into(), -1).ok_or_else(far)?;
        b.statement(Op::Advance { ring: self.ring });
        self.run(b, &self.start, odd, &before.plus(&1.into(), 1).ok_or_else(far)?)?;
        b.wait(self.token, self.products);
        b.statement(Op::Release { ring: self.ring, phase });
        self.run(b, &self.finish, !odd, before)
    }

    /// Finishes an iteration after which no product is in flight.
    fn done(&self, b: &mut Builder, odd: bool, at: &Affine) -> Result<()> {
        b.wait(self.token, 0);
        b.statement(Op::Release { ring: self.ring, phase: Coord::Phase(self.ring).into() });
        self.run(b, &self.finish, odd, at)?;
        b.statement(Op::Advance { ring: self.ring });
        Ok(())
    }

    /// Statements of one iteration.
    fn run(&self, b: &mut Builder, stmts: &[Stmt], odd: bool, k: &Affine) -> Result<()> {
        for mut stmt in stmts.iter().cloned() {
            let mut fits = true;
            stmt.each_affine_mut(&mut |at| match at.with(&Coord::Var(self.var), k) {
                Some(now) => *at = now,
                None => fits = false,
            });
            for view in stmt.views_mut().into_iter().filter(|_| odd) {
                view.tensor = *self.odd.get(&view.tensor).unwrap_or(&view.tensor);
            }
            fits.then_some(()).ok_or_else(far)?;
            b.at(stmt.span).statement(stmt.op);
        }
        b.at(self.span);
        Ok(())
    }
}
