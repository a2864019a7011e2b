//! Lowering of the statements of tile programs, one by one.

use tilewright_layout::Value;

use super::Lower;
use crate::isa::atom::OperandName;
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result};
use crate::thread::index::{Int, Ix};
use crate::thread::{Bin, Id, Op, Queue, Role, Scope, Stmt, Unroll, Val};
use crate::tile::elements::ElementFacts;
use crate::tile::pair::Scanned;
use crate::tile::view::View;
use crate::tile::{self, Expr, How, Multiply, Past, ProductViews, Space};
use crate::values::affine::{Affine, Coord};
use crate::values::condition::Test;

impl Lower<'_> {
    pub(super) fn statements(&mut self, body: &[tile::Stmt]) -> std::result::Result<(), Diagnostic> {
        for (at, stmt) in body.iter().enumerate() {
            match self.is_replaced(stmt, &body[at + 1..]) {
                Some(acc) => drop(self.replaced.insert(acc)),
                None => self.statement(stmt)?,
            }
        }
        Ok(())
    }

    /// The accumulators that a statement clears, if the next statement that accesses them is a product that can replace
    /// them. The compiler leaves such a product in flight; before it clears registers, it would wait for other products.
    fn is_replaced(&self, stmt: &tile::Stmt, after: &[tile::Stmt]) -> Option<Id> {
        let tile::Op::Map { to, value: Expr::Lit(zero), .. } = &stmt.op else { return None };
        let uses = |stmt: &&tile::Stmt| {
            stmt.preorder()
                .any(|stmt| stmt.reads().iter().chain(&stmt.writes()).any(|view| view.tensor == to.tensor))
        };
        let Some(tile::Op::Gemm { acc, how: Multiply::Atom(row), .. }) =
            after.iter().find(uses).map(|next| &next.op)
        else {
            return None;
        };
        let all = Some(self.program.tensor(to.tensor).plain().size().ok()?);
        let whole = [to, acc].into_iter().all(|view| view.layout.size().ok() == all);
        let replaces = acc.tensor == to.tensor && row.operand(OperandName::Accumulate).is_some();
        (zero.is_zero() && whole && replaces).then_some(to.tensor)
    }

    fn statement(&mut self, stmt: &tile::Stmt) -> std::result::Result<(), Diagnostic> {
        self.scope.by = stmt.by;
        self.at_site("", stmt.span);
        let problem = |p: Problem| p.at(stmt.span);
        if let Some(described) = described(&stmt.op) {
            self.comment(described);
        }
        let none = ElementFacts::default();
        let known = match &stmt.elements {
            None if stmt.needs_coordinates() => {
                return Err(problem(Problem::internal("this statement's elements were not analysed")));
            }
            known => known.as_deref().unwrap_or(&none),
        };
        match &stmt.op {
            tile::Op::Copy { from, to, how: How::Atom(row), token, .. } => {
                self.copy_by(row, from, to, token.is_some()).map_err(problem)?;
            }
            tile::Op::Copy { from, to, how, fill, token } => {
                let first = self.block.len();
                self.copy(from, to, *how, *fill).map_err(problem)?;
                if let Some(token) = token {
                    self.close_group(*token, first);
                }
            }
            tile::Op::Take { number, from } => self.take(*number, from).map_err(problem)?,
            tile::Op::Map { ins, to, value } => {
                self.map(ins, to, value, &known.coordinates).map_err(problem)?
            }
            tile::Op::Flow { .. } | tile::Op::Contents { .. } => {}
            tile::Op::Gemm { a, b, acc, how, order, token } => {
                self.gemm(*how, ProductViews { a, b, acc }, *order, *token).map_err(problem)?;
            }
            tile::Op::Wait { token: Some(token), but } => self.wait_for(*token, *but),
            tile::Op::Atomic { from, to, update } => self.atomic(from, to, update).map_err(problem)?,
            tile::Op::Gather { from, at, to } => self.gather(from, at, to, known).map_err(problem)?,
            tile::Op::Scatter { from, at, to, update, .. } => {
                self.scatter(from, at, to, update.as_ref(), known).map_err(problem)?
            }
            tile::Op::Probe { of, probe } => self.probe(of, probe, known).map_err(problem)?,
            tile::Op::Flag { flag, with, value } => self.flag(flag, *with, value).map_err(problem)?,
            tile::Op::SyncCluster => self.meet_cluster(),
            tile::Op::Advance { ring } => self.advance(*ring),
            tile::Op::Tiles { vars, raster, divided, body } => {
                self.tiles(vars, (*raster, *divided), body)?;
            }
            tile::Op::Acquire { ring, phase } => self.acquire(*ring, phase),
            tile::Op::Publish { ring, phase, bytes } => self.publish(*ring, phase, *bytes),
            tile::Op::Await { ring, phase } => self.wait_full(*ring, phase),
            tile::Op::Release { ring, phase } => self.release(*ring, phase).map_err(problem)?,
            tile::Op::Roles(roles) => self.roles(roles)?,
            tile::Op::Fold { from, to, with, identity, across, .. } => {
                self.fold(from, to, with, identity, *across, known).map_err(problem)?
            }
            tile::Op::Scan { from, to, carry, how } => {
                self.scan(&Scanned { from, to, carry }, how, known).map_err(problem)?
            }
            tile::Op::Lanes { ins, to, how, lanes, .. } => {
                self.across_group(ins, to, how, *lanes, known).map_err(problem)?
            }
            tile::Op::CommitCopies => {
                self.emit(Op::Commit(Queue::CpAsync));
            }
            tile::Op::Wait { token: None, but } => {
                if *but > 0 {
                    self.comment("until this thread's oldest copies in flight have arrived".into());
                }
                self.emit(Op::WaitQueue { queue: Queue::CpAsync, pending: *but });
            }
            tile::Op::Sync => self.meet(stmt.by),
            tile::Op::Ordered { order, groups, body } => self.ordered(*order, groups, body)?,
            // Pipelined loops have been expanded before.
            tile::Op::For { var, unroll, body, .. } => self.repeat(*var, *unroll, body)?,
            tile::Op::Leave { of, test } => self.leave(*of, test).map_err(problem)?,
            tile::Op::Step { var, at, past, body } => self.step(*var, at, *past, body)?,
            tile::Op::If { test, then, other } => {
                let cond = match test.on_arguments() {
                    Some(cond) => self.uniform(cond),
                    None => self.test(test).map(Val::from),
                };
                self.branch(cond.map_err(problem)?, then, other)?;
            }
        }
        Ok(())
    }

    fn roles(&mut self, bodies: &[(Id, Vec<tile::Stmt>)]) -> std::result::Result<(), Diagnostic> {
        let mut roles = Vec::new();
        for (group, body) in bodies {
            let group = &self.program.groups[*group as usize];
            roles.push(Role {
                name: group.name.clone(),
                warps: group.warps.unwrap_or((0, self.program.threads().div_ceil(32))),
                registers: group.registers,
                body: self.role(body)?,
            });
        }
        self.emit(Op::Roles(roles));
        Ok(())
    }

    /// Leaves a loop if a condition is true.
    fn leave(&mut self, of: Id, test: &Test) -> Result<()> {
        let ends = match test {
            Test::Not(inner) => match &**inner {
                Test::Less(left, right) => right.size().map(|right| (left, right)),
                _ => None,
            },
            _ => None,
        };
        let cond = match ends {
            Some((left, right)) => {
                let below = self.below(left, right);
                self.exprs().not(below)
            }
            None => self.test(test)?,
        };
        let var = self.scope.vars[of as usize].map(|at| self.kernel.exprs.get(at).int.clone());
        if let Some(Int::Var(of)) = var {
            self.emit(Op::Leave { of, cond });
        }
        Ok(())
    }

    /// A condition as an integer, 1 or 0.
    fn test(&mut self, test: &Test) -> Result<Ix> {
        Ok(match test {
            Test::Less(a, b) => {
                let (a, b) = (self.affine(a), self.affine(b));
                self.exprs().lt(a, b)
            }
            Test::Equal(a, b) => {
                let (a, b) = (self.affine(a), self.affine(b));
                self.exprs().eq(a, b)
            }
            Test::IsTrue(expr) => {
                let value = self.condition_or_not(expr)?;
                let var = self.var("holds", false);
                self.emit(Op::Take(var, value));
                let integers: Vec<Ix> = expr.integers().into_iter().map(|at| self.affine(at)).collect();
                let same_for = integers.into_iter().map(|at| self.kernel.exprs.get(at).same_for).min();
                self.exprs().leaf(Int::Var(var), 0, 1, 1, same_for.unwrap_or(Scope::Grid))
            }
            Test::Not(inner) => {
                let inner = self.test(inner)?;
                self.exprs().not(inner)
            }
            Test::Both(both) => {
                let (a, b) = (self.test(&both[0])?, self.test(&both[1])?);
                self.exprs().all(a, b)
            }
            Test::Either(both) => {
                let (a, b) = (self.test(&both[0])?, self.test(&both[1])?);
                let (a, b) = (self.exprs().not(a), self.exprs().not(b));
                let neither = self.exprs().all(a, b);
                self.exprs().not(neither)
            }
        })
    }

    /// Both arms of a condition, or one if the condition is constant.
    fn branch(
        &mut self,
        cond: Val,
        then: &[tile::Stmt],
        other: &[tile::Stmt],
    ) -> std::result::Result<(), Diagnostic> {
        let known = if let Val::Int(cond, _) = cond { self.kernel.exprs.constant(cond) } else { None };
        let (then, other) = (self.block_of(then)?, self.block_of(other)?);
        match known {
            Some(0) => self.block.extend(other),
            Some(_) => self.block.extend(then),
            None => self.emit(Op::If { cond, then, other }),
        }
        Ok(())
    }

    /// The statements of a nested block.
    fn block_of(&mut self, body: &[tile::Stmt]) -> std::result::Result<Vec<Stmt>, Diagnostic> {
        self.nested(|lower| lower.statements(body)).map(|(block, ())| block)
    }

    /// The end of a loop. One that is chosen among integers has a name, since several conditions ask for it.
    fn end(&mut self, of: &tile::Var) -> Ix {
        let end = self.affine(&of.to);
        if !self.kernel.exprs.any(end, &|int| matches!(int, Int::Min(..) | Int::Max(..) | Int::Select(..))) {
            return end;
        }
        // A prefetched iteration has its own variable, with the bounds of the loop's variable.
        let alike = self.program.vars.iter().find(|var| (&var.from, &var.to) == (&of.from, &of.to));
        let name = format!("{}_end", alike.unwrap_or(of).name);
        if self.varies(end) { self.name_here(end, &name) } else { self.name(end, &name) }
    }

    /// A loop over all values of a variable.
    fn repeat(
        &mut self,
        var: Id,
        unroll: Unroll,
        body: &[tile::Stmt],
    ) -> std::result::Result<(), Diagnostic> {
        self.before_exchanges(body);
        let program = self.program;
        let of = &program.vars[var as usize];
        let (mut from, to) = (self.affine(&of.from), self.end(of));
        let (begin, end) = (self.kernel.exprs.get(from), self.kernel.exprs.get(to));
        if !begin.is_narrow() || begin.hi > end.hi {
            // A start after the end runs no iteration, so it is clamped to the end.
            from = self.exprs().min(from, to);
        }
        let (first, end) = (self.kernel.exprs.get(from).clone(), self.kernel.exprs.get(to).clone());
        let last = (end.hi - 1).max(first.lo);
        // The variable takes the value of the end, too.
        let narrow = first.is_narrow() && last < i64::from(i32::MAX);
        let id = self.var(&of.name, !narrow);
        let scope = first.same_for.min(end.same_for).min(Scope::Block);
        let at = self.exprs().leaf(Int::Var(id), first.lo, last, 1, scope);
        let inside = |lower: &mut Self| {
            let block = lower.nested(|lower| {
                lower.bind(var, at);
                if unroll == Unroll::Full {
                    lower.scope.unrolled.push(id);
                }
                lower.scope.loops += 1;
                lower.statements(body)
            });
            block.map(|(body, ())| body)
        };
        let body = match unroll {
            Unroll::No => {
                let (counters, mut body) = self.counting(id, from, inside)?;
                let before = self.reduce_strength(id, from, &mut body);
                self.block.extend(counters.into_iter().chain(before));
                body
            }
            _ => inside(self)?,
        };
        self.emit(Op::For { var: id, from, to, step: 1, unroll, body });
        Ok(())
    }

    /// `left < right`, with all but the terms of unrolled loop variables computed first, and once.
    fn below(&mut self, left: &Affine, right: Value) -> Ix {
        let mine = |(coord, _): &(Coord, i64)| {
            let Coord::Var(var) = coord else { return false };
            self.scope.vars[*var as usize].is_some_and(|at| self.is_unrolled(at))
        };
        let (own, others) = left.terms.iter().cloned().partition(mine);
        let (own, mut others) =
            (Affine { constant: left.constant, terms: own }, Affine { constant: 0, terms: others });
        let begins = |(coord, by): &(Coord, i64)| matches!((coord, by), (Coord::Begin { .. }, 1));
        let begin = others.terms.iter().position(begins).map(|index| others.terms.remove(index).0);
        let (own, others, right) = (self.affine(&own), self.affine(&others), self.value(right));
        let mut rest = self.exprs().sub(right, others);
        if let Some(Coord::Begin { iteration, of, tile }) = begin {
            // In the first iteration all of K remains, though the tile may be partial. The index is a
            // minimum: from a difference, a compiler would derive that it is a multiple of the tile, and
            // fold the exit tests of several k-steps.
            let later = self.begin_later(&iteration, of, tile);
            let after = self.exprs().sub(rest, later);
            rest = match self.kernel.exprs.get(later).lo {
                0.. => after,
                _ => self.exprs().min(after, rest),
            };
        }
        let rest = self.name_here(rest, "left");
        self.exprs().lt(own, rest)
    }

    /// A single iteration of a loop, at a given value of its variable.
    fn step(
        &mut self,
        var: Id,
        at: &Affine,
        past: Past,
        body: &[tile::Stmt],
    ) -> std::result::Result<(), Diagnostic> {
        let program = self.program;
        let of = &program.vars[var as usize];
        let (mut at, begin, extent) = (self.affine(at), self.affine(&of.from), self.end(of));
        // There is no last iteration where there is none at all; within the loop there is one.
        let is_first = self.kernel.exprs.constant(at) == Some(0);
        if past == Past::Last && !is_first {
            let last = self.exprs().sub(extent, 1);
            at = self.exprs().min(at, last);
            // It is the smaller of the two.
            let hi = self.kernel.exprs.get(last).hi;
            self.exprs().assume(at, 0, hi);
        }
        let inside = self.exprs().lt(at, extent);
        let skips = past == Past::Skip || past == Past::Last && is_first;
        let always = if skips { self.kernel.exprs.constant(inside) } else { Some(1) };
        if always == Some(0) {
            return Ok(());
        }
        if let Some(at) = self.kernel.exprs.constant(at)
            && body.iter().any(|stmt| self.fetches(stmt))
        {
            self.comment(format!("ahead of the loop: the copies of iteration {at}"));
        }
        let (then, ()) = self.nested(|lower| {
            let value = lower.step_value(&of.name, at, begin, extent, past);
            lower.bind(var, value);
            lower.scope.ahead = lower.scope.loops > 0 && past != Past::Inside;
            lower.statements(body)
        })?;
        match always {
            Some(_) => self.block.extend(then),
            None => self.emit(Op::If { cond: inside.into(), then, other: Vec::new() }),
        }
        Ok(())
    }

    /// Does a statement copy from global to shared memory?
    fn fetches(&self, stmt: &tile::Stmt) -> bool {
        let tile::Op::Copy { from, to, .. } = &stmt.op else { return false };
        let memory = |view: &crate::tile::view::View| self.program.tensor(view.tensor).space;
        matches!(memory(from), Space::Global { .. }) && matches!(memory(to), Space::Shared { .. })
    }

    /// The value of a step's variable, named unless it is a constant or a variable.
    fn step_value(&mut self, name: &str, at: Ix, begin: Ix, extent: Ix, past: Past) -> Ix {
        let known = self.kernel.exprs.get(at).clone();
        if matches!(known.int, Int::Const(_) | Int::Var(_)) {
            return at;
        }
        let id = self.var(name, !known.is_narrow());
        self.emit(Op::Let(id, at));
        self.counts(id, at);
        let (first, last) = (self.kernel.exprs.get(begin).lo, self.kernel.exprs.get(extent).hi - 1);
        let (lo, hi) = match past {
            Past::Anyway => (known.lo, known.hi),
            Past::Skip | Past::Last => (known.lo.max(first.min(0)), known.hi.min(last)),
            Past::Inside => (known.lo.max(first), known.hi.min(last)),
        };
        self.exprs().leaf(Int::Var(id), lo, hi.max(lo), known.multiple, known.same_for)
    }
}

/// The function of several elements that a statement computes, for a comment.
fn described(op: &tile::Op) -> Option<String> {
    let names = |views: &[View]| {
        let mut names: Vec<&str> = Vec::new();
        for view in views {
            if !names.contains(&view.name.as_str()) {
                names.push(&view.name);
            }
        }
        names.join(", ")
    };
    let several = |view: &View| view.layout.size() != Ok(1);
    match op {
        tile::Op::Map { ins, to, value } if several(to) && !ins.is_empty() => Some(match value {
            Expr::In(0) => format!("{} <- {}, {}", to.name, ins[0].name, to.shape()),
            _ => format!("{} <- f({}), {}", to.name, names(ins), to.shape()),
        }),
        tile::Op::Fold { from, to, with, across, .. } => {
            let what = Expr::operation(with).and_then(Bin::reduction_name).unwrap_or("reduction");
            let (to, shape) = (names(to), from[0].shape());
            Some(format!("{to} <- {what} of {}, {shape}{}", names(from), across.described()))
        }
        tile::Op::Scan { from, to, .. } => {
            Some(format!("{} <- scan of {}, {}", names(to), names(from), from[0].shape()))
        }
        tile::Op::Lanes { ins, to, how, lanes, .. } => {
            Some(format!("{} <- {} of {}, {lanes} lanes", to.name, how.name(), ins[0].name))
        }
        _ => None,
    }
}
