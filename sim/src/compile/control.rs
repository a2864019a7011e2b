//! Control flow: loops, branches, roles, elected threads.

use tilewright_program::index::Ix;
use tilewright_program::thread::{Id, Op, Role, Scope, Stmt, Unroll, Val};

use super::{Asking, Compiler, Level, Result, resources};
use crate::code::*;
use crate::numbers::Num;

impl Compiler<'_> {
    /// Warp specialisation: each role in its own part of the code.
    pub(super) fn roles(&mut self, roles: &[Role], site: Id) -> Result<()> {
        resources::roles(self.kernel, roles, site)?;
        let end = self.label();
        for role in roles {
            let other = self.label();
            self.emit(Ins::Role { from: role.warps.0, to: role.warps.1, other });
            let outer = std::mem::replace(&mut self.first, role.warps.0 * 32);
            let from = self.label();
            self.emit(Ins::Label(from));
            if let Some(registers) = role.registers {
                self.emit(Ins::Registers(registers));
            }
            self.statements(&role.body)?;
            self.first = outer;
            self.site = site;
            if let Some(registers) = role.registers {
                self.asking.push(Asking { name: role.name.clone(), registers, site, from, to: other });
            }
            self.emit(Ins::Jump(end));
            self.emit(Ins::Label(other));
        }
        self.emit(Ins::Label(end));
        Ok(())
    }

    pub(super) fn elect(&mut self, scope: Scope, body: &[Stmt]) -> Result<()> {
        if scope == Scope::Thread {
            return self.statements(body);
        }
        let end = self.label();
        self.emit(Ins::Elect { scope, first: self.first, end });
        self.branches.push(end);
        self.statements(body)?;
        self.branches.pop();
        self.emit(Ins::Label(end));
        self.emit(Ins::EndIf);
        Ok(())
    }

    pub(super) fn choose(&mut self, cond: &Val, then: &[Stmt], other: &[Stmt]) -> Result<()> {
        let cond = self.condition(cond)?;
        if let Cond::Int(Src::Const(known)) = cond {
            return self.statements(if known != 0 { then } else { other });
        }
        let label = self.label();
        self.emit(Ins::If { cond, other: label });
        self.branches(label, then, other)
    }

    pub(super) fn condition(&mut self, cond: &Val) -> Result<Cond> {
        if let Val::Int(cond, _) = cond {
            return Ok(Cond::Int(self.src(*cond)));
        }
        let (slot, elem) = self.value(cond)?;
        Ok(Cond::Value(slot, elem))
    }

    /// Leaves a loop, lane by lane.
    pub(super) fn leave(&mut self, of: Id, cond: Ix) -> Result<()> {
        let cond = self.num(cond);
        let Some(&(_, exit, outside)) = self.loops.iter().rev().find(|(var, ..)| *var == of) else {
            return self.malformed("a loop exit is outside of its loop");
        };
        let inside = &self.branches[outside.min(self.branches.len())..];
        let (depth, next) = (inside.len() as u32, inside.last().copied().unwrap_or(exit));
        if cond.as_constant() != Some(0) {
            let cond = self.location_of(cond);
            self.emit(Ins::Leave { cond, depth, next, exit });
        }
        Ok(())
    }

    pub(super) fn branches(&mut self, label: u32, then: &[Stmt], other: &[Stmt]) -> Result<()> {
        let end = self.label();
        self.branches.push(label);
        self.statements(then)?;
        self.branches.pop();
        self.emit(Ins::Label(label));
        self.emit(Ins::Else { end });
        self.branches.push(end);
        self.statements(other)?;
        self.branches.pop();
        self.emit(Ins::Label(end));
        self.emit(Ins::EndIf);
        Ok(())
    }

    pub(super) fn repeat(
        &mut self,
        var: Id,
        range: (Ix, Ix, i64),
        unroll: Unroll,
        body: &[Stmt],
        exit: u32,
    ) -> Result<()> {
        let (from, to, step) = (self.num(range.0), self.num(range.1), range.2);
        if step <= 0 {
            return self.malformed(format!("a loop whose step is {step} never ends"));
        }
        if let (Unroll::Full, Some(from), Some(to)) = (unroll, from.as_constant(), to.as_constant()) {
            let mut at = from;
            self.enter(var, body, exit);
            while at < to {
                self.bind(var, Num::constant(at));
                self.statements(body)?;
                at += step;
            }
            self.exit(is_left(body, var), exit);
            return Ok(());
        }
        let vector =
            |compiler: &Self, num: Num| num.node.is_some_and(|node| compiler.numbers.get(node).vector);
        let vector = vector(self, from) || vector(self, to);
        let range = Range {
            lo: self.numbers.range(from).lo,
            hi: self.numbers.range(to).hi.saturating_sub(1).max(self.numbers.range(from).lo),
        };
        if !self.kernel.vars[var as usize].wide && !range.is_narrow() {
            let name = &self.kernel.vars[var as usize].name;
            return self.malformed(format!("the loop over `{name}`, a variable of 32 bits, can overflow"));
        }
        let (from, to) = (self.location_of(from), self.location_of(to));
        let head = self.label();
        let (slot, cell) = self.integer(vector);
        let num = self.numbers.cell(vector, slot, self.levels.len() as u32, false, range);
        if vector {
            self.branches.push(exit);
        } else {
            self.enter(var, body, exit);
        }
        self.emit(Ins::Loop { var: cell, from, to, exit });
        self.levels.push(Level::default());
        let outer = self.vars[var as usize];
        self.bind(var, num);
        let site = self.site;
        if let Some((.., branches)) = self.loops.last_mut() {
            *branches = self.branches.len();
        }
        self.statements(body)?;
        self.bind(var, outer);
        self.site = site;
        let level = self.levels.pop().unwrap_or_default();
        self.emit(Ins::Label(head));
        let outer = &mut self.levels.last_mut().expect("there is always a level").body;
        outer.extend(level.before);
        outer.extend(level.body);
        self.emit(Ins::Next { var: cell, step, to, head });
        self.exit(vector || is_left(body, var), exit);
        Ok(())
    }

    /// Begins a loop that some lanes may leave before the others.
    fn enter(&mut self, var: Id, body: &[Stmt], exit: u32) {
        if is_left(body, var) {
            self.emit(Ins::Enter);
            self.branches.push(exit);
        }
        if let Some((.., branches)) = self.loops.last_mut() {
            *branches = self.branches.len();
        }
    }

    /// The end of a loop, where the lanes meet again that ran it alone.
    fn exit(&mut self, meets: bool, exit: u32) {
        self.emit(Ins::Label(exit));
        if meets {
            self.branches.pop();
            self.emit(Ins::EndIf);
        }
    }
}

/// May the loop of a variable be left before its end?
fn is_left(body: &[Stmt], var: Id) -> bool {
    body.iter().any(|stmt| match &stmt.op {
        Op::Leave { of, .. } => *of == var,
        Op::For { body, .. } | Op::Elect(_, body) => is_left(body, var),
        Op::If { then, other, .. } => is_left(then, var) || is_left(other, var),
        Op::Roles(roles) => roles.iter().any(|role| is_left(&role.body, var)),
        _ => false,
    })
}
