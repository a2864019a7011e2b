//! Statements: integers, values, memory. Control flow and instructions are in other modules.

use tilewright_program::Elem;
use tilewright_program::index::Ix;
use tilewright_program::thread::{Change, Frag, Id, Interval, MemoryOrder, Op, Scope, Space, Stmt, Val};

use super::{Compiler, MOST_STEPS, Result};
use crate::code::*;
use crate::numbers::Num;

impl Compiler<'_> {
    pub(super) fn statements(&mut self, body: &[Stmt]) -> Result<()> {
        for stmt in body {
            self.site = stmt.site;
            self.stmt = std::ptr::from_ref(stmt) as usize;
            self.statement(stmt)?;
            for file in 0..2 {
                let lent = std::mem::take(&mut self.lent[file]);
                self.free[file].extend(lent);
            }
            if self.steps > MOST_STEPS {
                return self.malformed("more than eight million steps when loops are unrolled");
            }
        }
        Ok(())
    }

    fn statement(&mut self, stmt: &Stmt) -> Result<()> {
        match &stmt.op {
            Op::Comment(_) => {}
            Op::Let(id, at) => self.let_be(*id, *at),
            Op::Set(id, at) => self.set(*id, *at)?,
            Op::Take(id, value) => self.take(*id, value)?,
            Op::Assign { reg, at, value } => {
                let (to, elem) = self.frag(Frag { reg: *reg, at: *at, len: 1 })?;
                self.value_into(value, to, elem)?;
            }
            Op::Load { to, from, guard, fill, .. } => {
                let (slot, elem) = self.frag(*to)?;
                self.same_width(from.space, elem, to.reg)?;
                let guard = self.guard(*guard);
                let from = self.location(from, What::Load, to.len, 0);
                self.emit(Ins::Load {
                    from,
                    to: slot,
                    guard,
                    fill: self.given.arithmetic.literal(*fill, elem),
                });
            }
            Op::Store { to, from, guard } => {
                let (slot, elem) = self.frag(*from)?;
                self.same_width(to.space, elem, from.reg)?;
                let guard = self.guard(*guard);
                let to = self.location(to, What::Store, from.len, 0);
                self.emit(Ins::Store { to, from: slot, guard });
            }
            Op::Atomic { .. } => self.atomic(&stmt.op)?,
            Op::Atom { row, args, guard } => self.atom(row, args, *guard)?,
            Op::Commit(queue) => self.emit(Ins::Commit(*queue)),
            Op::WaitQueue { queue, pending } => {
                self.emit(Ins::WaitQueue { queue: *queue, pending: *pending });
            }
            Op::Fence(fence) => self.emit(Ins::Fence(*fence)),
            Op::Pin(reg) => {
                let Some(reg) = self.code.regs.get(*reg as usize) else {
                    return self.malformed("a pin names no registers");
                };
                let (from, to) = (reg.at, reg.at + reg.len);
                if !is_double(reg.elem) {
                    self.emit(Ins::Pin { from, to });
                }
            }
            Op::Claim(claim) => self.claim(claim)?,
            Op::Probe { probe, values, guard } => self.probe(probe, values, *guard)?,
            Op::Sync { bar, member } => {
                let member = member.map_or(Src::Const(0), |member| self.operand(member));
                self.emit(Ins::Sync { first: *bar, member });
            }
            Op::Arrive { bar, slot, peer, bytes } => {
                let (slot, peer) = (self.operand(*slot), peer.map(|peer| self.operand(peer)));
                self.emit(Ins::Arrive { bar: *bar, slot, peer, bytes: *bytes });
            }
            Op::Await { bar, slot, phase } => {
                let (slot, phase) = (self.operand(*slot), self.src(*phase));
                self.emit(Ins::Await { bar: *bar, slot, phase });
            }
            Op::AwaitPrevious => self.emit(Ins::AwaitPrevious),
            // One launch runs at a time.
            Op::StartNext => {}
            Op::InitBarriers(bar) => self.emit(Ins::Init(*bar)),
            Op::For { var, from, to, step, unroll, body } => {
                let exit = self.label();
                self.loops.push((*var, exit, self.branches.len()));
                self.repeat(*var, (*from, *to, *step), *unroll, body, exit)?;
                self.loops.pop();
            }
            Op::Leave { of, cond } => self.leave(*of, *cond)?,
            Op::If { cond, then, other } => self.choose(cond, then, other)?,
            Op::Roles(roles) => self.roles(roles, stmt.site)?,
            Op::Elect(scope, body) => self.elect(*scope, body)?,
        }
        Ok(())
    }

    /// A cell for an integer of each lane.
    fn int_cell(&mut self, range: Range) -> (Slot, Num) {
        let (slot, _) = self.integer(true);
        (slot, self.numbers.cell(true, slot, 0, true, range))
    }

    fn let_be(&mut self, id: Id, at: Ix) {
        if self.kernel.vars[id as usize].mutable {
            return self.assign(id, at);
        }
        let num = self.num(at);
        let mut num = self.stored_in(id, num);
        if num.node.is_some_and(|node| self.numbers.get(node).volatile) {
            // Copies the value: its operands change later.
            let a = self.location_of(num);
            let (to, _) = self.integer(true);
            self.emit(Ins::Set { to, a });
            num = self.numbers.cell(true, to, 0, true, self.numbers.range(num));
        }
        self.bind(id, num);
    }

    fn set(&mut self, id: Id, at: Ix) -> Result<()> {
        let var = &self.kernel.vars[id as usize];
        if !var.mutable {
            return self.malformed(format!("`{}` is assigned, and it is no mutable variable", var.name));
        }
        self.assign(id, at);
        Ok(())
    }

    /// Sets a mutable integer, in the cell that it has.
    fn assign(&mut self, id: Id, at: Ix) {
        let num = self.num(at);
        let num = self.stored_in(id, num);
        let a = self.location_of(num);
        let known = self.vars[id as usize].node.map(|node| self.numbers.get(node));
        let to = match known {
            Some(known) if known.volatile => known.slot.unwrap_or_default(),
            _ => {
                let wide = self.kernel.vars[id as usize].wide;
                let (slot, num) = self.int_cell(if wide { Range::ALL } else { Range::NARROW });
                self.bind(id, num);
                slot
            }
        };
        self.emit(Ins::Set { to, a });
    }

    fn take(&mut self, id: Id, value: &Val) -> Result<()> {
        let (x, elem) = self.value(value)?;
        // The cell is set here, so dependent numbers must not be hoisted above.
        let Interval { lo, hi } = Interval::of(if elem.is_float() { Elem::I32 } else { elem });
        // Only integers of 32 bits are taken: others are clamped before.
        let (to, num) = self.int_cell(Range {
            lo: i64::try_from(lo).unwrap_or(i64::MIN),
            hi: i64::try_from(hi).unwrap_or(i64::MAX),
        });
        self.emit(Ins::ToInt { elem, to, x });
        self.bind(id, num);
        Ok(())
    }

    fn atomic(&mut self, op: &Op) -> Result<()> {
        let Op::Atomic { to, op, value, guard, order, scope, old, expected } = op else { return Ok(()) };
        // The old value depends on the order of updates, and so on other blocks.
        self.code.uses.together |= matches!(to.space, Space::Global(_))
            && *scope > Scope::Block
            && (old.is_some() || *order != MemoryOrder::Relaxed || op.function().is_none());
        if old.is_some() || *op == Change::Await {
            self.code.flags.push(to.space);
        }
        let guard = self.guard(*guard);
        let elem = self.elem_of(to.space);
        let slot = self.scratch(elem);
        if let Some(guard) = guard {
            self.emit(Ins::Narrow { cond: Cond::Int(guard), expected: true });
        }
        self.value_into(value, slot, elem)?;
        let expected = match expected {
            Some(value) => {
                let slot = self.scratch(elem);
                self.value_into(value, slot, elem)?;
                Some(slot)
            }
            None => None,
        };
        if guard.is_some() {
            self.emit(Ins::Widen);
        }
        let old = match old {
            Some(old) => {
                let (slot, elem) = self.frag(*old)?;
                self.same_width(to.space, elem, old.reg)?;
                Some(slot)
            }
            None => None,
        };
        let to = self.location(to, What::Atomic, 1, 0);
        let (op, order, scope) = (*op, *order, *scope);
        self.emit(Ins::Atomic { to, op, value: slot, guard, order, scope, old, expected });
        Ok(())
    }
}
