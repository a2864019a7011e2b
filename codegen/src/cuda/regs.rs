//! Register arrays: where each is declared, and how its elements are written.

use super::Printer;
use crate::index::Ix;
use crate::thread::{AtomArg, Frag, Id, Op, Stmt, Val};

impl Printer<'_> {
    /// How many elements one word of an array holds; 1 for an array of elements.
    pub(super) fn per_word(&self, reg: Id) -> u32 {
        let reg = &self.kernel.regs[reg as usize];
        if reg.words {
            (4 / reg.elem.bytes()).max(1)
        } else {
            1
        }
    }

    /// Declares the arrays among the undeclared ones that a statement of the block uses, unless it is the only one that
    /// does and can do so itself, further in. What a loop uses is declared before the loop, since it may live from one
    /// turn to the next.
    pub(super) fn declare_for(&mut self, stmt: &Stmt, rest: &[Stmt]) {
        let mut here = Vec::new();
        self.undeclared.retain(|&reg| {
            let needed = mentions(stmt, reg);
            let further_in = !rest.iter().any(|later| mentions(later, reg)) && can_declare(stmt, reg);
            if needed && !further_in {
                here.push(reg);
            }
            !needed || further_in
        });
        for reg in here {
            if !is_first_value(stmt, reg, self.kernel.regs[reg as usize].len) {
                let text = self.declaration(reg);
                self.line(&(text + ";"));
            } else {
                self.undeclared.push(reg);
            }
        }
    }

    /// `float acc[64]`, `float sum`.
    pub(super) fn declaration(&mut self, id: Id) -> String {
        let (reg, name) = (
            &self.kernel.regs[id as usize],
            self.names.regs[id as usize].clone(),
        );
        let (elem, len, size) = match self.per_word(id) {
            1 if reg.words => ("unsigned", reg.len, 4),
            1 => (reg.elem.cuda(), reg.len, reg.elem.bytes()),
            per => ("unsigned", reg.len.div_ceil(per), 4),
        };
        if len == 1 && !reg.words {
            return format!("{elem} {name}");
        }
        let widest = widest_access(&self.kernel.body, id) * reg.elem.bytes();
        let align = if widest > size {
            format!("alignas({widest}) ")
        } else {
            String::new()
        };
        format!("{align}{elem} {name}[{len}]")
    }

    /// One element.
    pub(super) fn element(&mut self, id: Id, at: Ix) -> String {
        let (reg, name) = (
            &self.kernel.regs[id as usize],
            self.names.regs[id as usize].clone(),
        );
        if reg.len == 1 && !reg.words {
            return name;
        }
        let index = self.int(at);
        if reg.words {
            format!("(({}*){name})[{index}]", reg.elem.cuda())
        } else {
            format!("{name}[{index}]")
        }
    }

    /// The word, or the element of an array of elements, at which a fragment begins.
    pub(super) fn word(&mut self, frag: Frag) -> String {
        let name = self.names.regs[frag.reg as usize].clone();
        let reg = &self.kernel.regs[frag.reg as usize];
        if reg.len == 1 && !reg.words {
            return name;
        }
        let at = self.exprs.div(frag.at, i64::from(self.per_word(frag.reg)));
        format!("{name}[{}]", self.int(at))
    }

    /// A pointer to where a fragment begins.
    pub(super) fn pointer(&mut self, frag: Frag) -> String {
        let reg = &self.kernel.regs[frag.reg as usize];
        match self.exprs.constant(frag.at) {
            Some(0) if reg.len > 1 || reg.words => self.names.regs[frag.reg as usize].clone(),
            _ => format!("&{}", self.word(frag)),
        }
    }
}

/// Does the statement give an array of one element its first value? Then it declares it too.
pub(super) fn is_first_value(stmt: &Stmt, id: Id, len: u32) -> bool {
    matches!(&stmt.op, Op::Assign { reg, value, .. } if *reg == id && len == 1 && !value_mentions(value, id))
}

/// Is there one block inside the statement, not a loop's, that alone uses the array?
fn can_declare(stmt: &Stmt, reg: Id) -> bool {
    let users = |blocks: &[&Vec<Stmt>]| {
        blocks
            .iter()
            .filter(|block| block.iter().any(|stmt| mentions(stmt, reg)))
            .count()
            == 1
    };
    match &stmt.op {
        Op::If { then, other, .. } | Op::When { then, other, .. } => users(&[then, other]),
        Op::Roles(roles) => users(&roles.iter().map(|role| &role.body).collect::<Vec<_>>()),
        Op::Elect(_, body) => users(&[body]),
        _ => false,
    }
}

fn blocks(op: &Op) -> Vec<&[Stmt]> {
    match op {
        Op::For { body, .. } | Op::Elect(_, body) => vec![body],
        Op::If { then, other, .. } | Op::When { then, other, .. } => vec![then, other],
        Op::Roles(roles) => roles.iter().map(|role| role.body.as_slice()).collect(),
        _ => Vec::new(),
    }
}

/// Does the statement use the array?
fn mentions(stmt: &Stmt, id: Id) -> bool {
    let own = match &stmt.op {
        Op::Assign { reg, value, .. } => *reg == id || value_mentions(value, id),
        Op::Load { to: frag, .. } | Op::Store { from: frag, .. } => frag.reg == id,
        Op::Atomic { value, .. } => value_mentions(value, id),
        Op::Atom { args, .. } => args
            .iter()
            .any(|arg| matches!(arg, AtomArg::Frag(frag) if frag.reg == id)),
        _ => false,
    };
    own || blocks(&stmt.op)
        .iter()
        .any(|block| block.iter().any(|stmt| mentions(stmt, id)))
}

fn value_mentions(value: &Val, id: Id) -> bool {
    match value {
        Val::Reg(reg, _) => *reg == id,
        Val::Lit(..) | Val::Int(..) | Val::Param(_) => false,
        Val::Un(_, x) | Val::Cast(_, x) | Val::ShuffleXor(x, _) => value_mentions(x, id),
        Val::Bin(_, x, y) | Val::Guarded(_, x, y) | Val::Cmp(_, x, y) => {
            value_mentions(x, id) || value_mentions(y, id)
        }
        Val::Fma(args) | Val::Pick(args) => args.iter().any(|arg| value_mentions(arg, id)),
    }
}

/// Elements of the widest access to an array.
fn widest_access(body: &[Stmt], id: Id) -> u32 {
    let widest = |stmt: &Stmt| {
        let own = match &stmt.op {
            Op::Load { to: frag, .. } | Op::Store { from: frag, .. } if frag.reg == id => frag.len,
            _ => 1,
        };
        blocks(&stmt.op)
            .iter()
            .map(|block| widest_access(block, id))
            .fold(own, u32::max)
    };
    body.iter().map(widest).max().unwrap_or(1)
}

/// The arrays that an asynchronous matrix product writes.
pub(super) fn in_flight(body: &[Stmt]) -> Vec<Id> {
    let mut found = Vec::new();
    for stmt in body {
        if let Op::Atom { row, args, .. } = &stmt.op
            && row.done == crate::atom::Done::Queue(crate::thread::Queue::Wgmma)
        {
            for (operand, arg) in row.operands.iter().zip(args) {
                if let AtomArg::Frag(frag) = arg
                    && operand.writes
                    && !found.contains(&frag.reg)
                {
                    found.push(frag.reg);
                }
            }
        }
        for block in blocks(&stmt.op) {
            for reg in in_flight(block) {
                if !found.contains(&reg) {
                    found.push(reg);
                }
            }
        }
    }
    found
}
