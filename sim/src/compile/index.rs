//! Lowers index expressions: the cell of each number when a step needs it.

use tilewright_program::Elem;
use tilewright_program::index::{Int, Ix};
use tilewright_program::thread::{Frag, Id};

use super::{Compiler, Result};
use crate::code::*;
use crate::numbers::{Node, NodeId, Num};

impl Compiler<'_> {
    /// The value of an index expression.
    pub(super) fn num(&mut self, at: Ix) -> Num {
        if let Some(&known) = self.memo.get(&at) {
            return known;
        }
        let cell = |compiler: &Compiler<'_>, slot: u32| {
            // The first nodes are the cells that every warp has.
            debug_assert!(compiler.numbers.get(slot).slot.is_some());
            Num { node: Some(slot), add: 0 }
        };
        use IntOp::*;
        let num = match self.kernel.exprs.get(at).int {
            Int::Const(n) => Num::constant(n),
            Int::Var(id) => self.vars[id as usize],
            Int::Param(id) => Num::constant(self.given.ints[id as usize]),
            Int::Thread => cell(self, FIRST_SCALAR),
            Int::Block(axis) => match self.given.grid[usize::from(axis)] {
                1 => Num::constant(0),
                _ => cell(self, BLOCK + u32::from(axis)),
            },
            Int::Grid(axis) => Num::constant(i64::from(self.given.grid[usize::from(axis)])),
            Int::ClusterRank => cell(self, RANK),
            Int::Add(a, b) => self.both(Add, a, b),
            Int::Sub(a, b) => self.both(Sub, a, b),
            Int::Mul(a, b) => self.both(Mul, a, b),
            Int::Div(a, b) => self.both(Div, a, b),
            Int::Rem(a, b) => self.both(Rem, a, b),
            Int::And(a, b) => self.both(And, a, b),
            Int::Xor(a, b) => self.both(Xor, a, b),
            Int::Shl(a, b) => self.both(Shl, a, b),
            Int::Min(a, b) => self.both(Min, a, b),
            Int::Max(a, b) => self.both(Max, a, b),
            Int::Lt(a, b) => self.both(Lt, a, b),
            Int::Within(a, b) => self.both(Within, a, b),
            Int::Eq(a, b) => self.both(Eq, a, b),
            Int::All(a, b) => self.both(All, a, b),
            Int::Not(a) => {
                let a = self.num(a);
                self.numbers.two(Eq, a, Num::constant(0))
            }
            Int::Wrap(at, end, last) => {
                let (at, end) = (self.num(at), self.num(end));
                let (inside, excess) = (self.numbers.two(Lt, at, end), self.numbers.two(Sub, at, end));
                let last = self.num(last);
                let excess = self.numbers.two(Min, excess, last);
                self.numbers.select(inside, at, excess)
            }
            Int::Select(c, a, b) => {
                let (c, a, b) = (self.num(c), self.num(a), self.num(b));
                self.numbers.select(c, a, b)
            }
        };
        // Wraps to 32 bits where the printed C computes in 32 bits.
        let num = match self.kernel.exprs.get(at).is_narrow() {
            true => self.numbers.wrapped(num),
            false => num,
        };
        self.memo.insert(at, num);
        num
    }

    /// A number as a variable stores it.
    pub(super) fn stored_in(&mut self, var: Id, num: Num) -> Num {
        match self.kernel.vars[var as usize].wide {
            true => num,
            false => self.numbers.wrapped(num),
        }
    }

    pub(super) fn both(&mut self, op: IntOp, a: Ix, b: Ix) -> Num {
        let (a, b) = (self.num(a), self.num(b));
        self.numbers.two(op, a, b)
    }

    /// The cell of a value, computed first if needed.
    pub(super) fn src(&mut self, at: Ix) -> Src {
        let num = self.num(at);
        self.location_of(num)
    }

    /// The cell of a value as an instruction, or a function of the printed C, takes it: in 32 bits.
    pub(super) fn operand(&mut self, at: Ix) -> Src {
        let num = self.num(at);
        let num = self.numbers.wrapped(num);
        self.location_of(num)
    }

    pub(super) fn location_of(&mut self, num: Num) -> Src {
        if let Some(node) = num.node {
            self.ensure(node);
        }
        let src = self.numbers.src(num);
        if let Some(node) = num.node
            && self.numbers.get(node).volatile
            && !matches!(self.numbers.get(node).node, Node::Cell { .. })
        {
            self.forget(node);
        }
        src
    }

    /// A new integer, of each lane or of the warp: its number among these, and where it is.
    pub(super) fn integer(&mut self, vector: bool) -> (u32, IntCell) {
        let file = if vector { &mut self.code.vectors } else { &mut self.code.scalars };
        let slot = *file;
        *file += 1;
        (slot, if vector { IntCell::Lanes(slot) } else { IntCell::Warp(slot) })
    }

    /// Emits the steps that compute a node, in its innermost loop.
    pub(super) fn ensure(&mut self, node: NodeId) {
        let known = self.numbers.get(node);
        if known.slot.is_some() {
            return;
        }
        let (slot, to) = self.integer(known.vector);
        let part = |compiler: &mut Self, num: Num| {
            if let Some(node) = num.node {
                compiler.ensure(node);
            }
            compiler.numbers.src(num)
        };
        let ins = match known.node {
            Node::Cell { .. } => return,
            Node::Scaled(x, by) => {
                let a = part(self, Num { node: Some(x), add: 0 });
                Ins::Int { op: IntOp::Mul, to, a, b: Src::Const(by) }
            }
            Node::Two(op, a, b) => {
                let (a, b) = (part(self, a), part(self, b));
                Ins::Int { op, to, a, b }
            }
            Node::Select(cond, a, b) => {
                let (cond, a, b) = (part(self, cond), part(self, a), part(self, b));
                Ins::Select { to, cond, a, b }
            }
        };
        self.numbers.assign(node, slot);
        if known.volatile {
            self.emit(ins);
        } else {
            let site = self.site;
            self.steps += 1;
            self.levels[known.level as usize].before.push((ins, site));
        }
    }

    /// Invalidates all that depends on a variable that changes.
    pub(super) fn forget(&mut self, node: NodeId) {
        let known = self.numbers.get(node);
        if !known.volatile || matches!(known.node, Node::Cell { .. }) {
            return;
        }
        self.numbers.forget(node);
        let parts: [Option<NodeId>; 3] = match known.node {
            Node::Cell { .. } => [None; 3],
            Node::Scaled(x, _) => [Some(x), None, None],
            Node::Two(_, a, b) => [a.node, b.node, None],
            Node::Select(a, b, c) => [a.node, b.node, c.node],
        };
        parts.into_iter().flatten().for_each(|part| self.forget(part));
    }

    pub(super) fn bind(&mut self, var: Id, num: Num) {
        self.vars[var as usize] = num;
        self.memo.clear();
    }

    /// An index into registers.
    pub(super) fn fixed(&mut self, at: Ix, what: &str) -> Result<i64> {
        match self.num(at).as_constant() {
            Some(n) => Ok(n),
            None => self.malformed(format!("{what} is not constant once loops are unrolled")),
        }
    }

    pub(super) fn frag(&mut self, frag: Frag) -> Result<(Slot, Elem)> {
        let reg = self.code.regs[frag.reg as usize].clone();
        let at = self.fixed(frag.at, &format!("an index into the registers `{}`", reg.name))?;
        if at < 0 || at + i64::from(frag.len) > i64::from(reg.len) {
            return self.malformed(format!(
                "elements {at} to {} of the registers `{}`, which are {}",
                at + i64::from(frag.len) - 1,
                reg.name,
                reg.len
            ));
        }
        Ok((reg.at + at as u32, reg.elem))
    }
}
