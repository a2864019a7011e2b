//! Which statements use which register arrays.

use crate::atom::{Done, Effect};
use crate::thread::{AtomArg, Id, Op, Queue, Stmt, Val};

/// The blocks inside a statement.
pub(crate) fn blocks(op: &Op) -> Vec<&[Stmt]> {
    match op {
        Op::For { body, .. } | Op::Elect(_, body) => vec![body],
        Op::If { then, other, .. } | Op::When { then, other, .. } => vec![then, other],
        Op::Roles(roles) => roles.iter().map(|role| role.body.as_slice()).collect(),
        _ => Vec::new(),
    }
}

/// Is the loop over `var`, whose body this is, left from inside of another loop in it?
pub(crate) fn is_left_from_inside(body: &[Stmt], var: Id) -> bool {
    fn is_left(stmt: &Stmt, var: Id, inside: bool) -> bool {
        let inside = inside || matches!(stmt.op, Op::For { .. });
        matches!(stmt.op, Op::Leave { of, .. } if of == var && inside)
            || blocks(&stmt.op).into_iter().flatten().any(|stmt| is_left(stmt, var, inside))
    }
    body.iter().any(|stmt| is_left(stmt, var, false))
}

/// How many statements use the array: this one, and those inside it.
pub(crate) fn count(stmt: &Stmt, id: Id) -> usize {
    let own = match &stmt.op {
        Op::Assign { reg, value, .. } => *reg == id || value_mentions(value, id),
        Op::Load { to: frag, .. } | Op::Store { from: frag, .. } => frag.reg == id,
        Op::Atomic { value, .. } | Op::When { cond: value, .. } => value_mentions(value, id),
        Op::Atom { args, .. } => args.iter().any(|arg| is_frag(arg, id)),
        _ => false,
    };
    let inside = blocks(&stmt.op).into_iter().flatten().map(|stmt| count(stmt, id));
    usize::from(own) + inside.sum::<usize>()
}

/// Does the statement use the array?
pub(crate) fn mentions(stmt: &Stmt, id: Id) -> bool {
    count(stmt, id) > 0
}

/// Does a simple statement read the array?
pub(crate) fn reads(stmt: &Stmt, id: Id) -> bool {
    match &stmt.op {
        Op::Assign { value, .. } => value_mentions(value, id),
        Op::Load { .. } => false,
        Op::Atom { row, args, .. } => {
            let in_place = matches!(row.effect, Effect::Mma { .. });
            let mut operands = row.operands.iter().zip(args);
            operands.any(|(operand, arg)| is_frag(arg, id) && (in_place || !operand.writes))
        }
        _ => mentions(stmt, id),
    }
}

fn is_frag(arg: &AtomArg, id: Id) -> bool {
    matches!(arg, AtomArg::Frag(frag) if frag.reg == id)
}

pub(crate) fn value_mentions(value: &Val, id: Id) -> bool {
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

/// The arrays that asynchronous matrix products write, in the order of their first use.
pub(crate) fn in_flight(body: &[Stmt]) -> Vec<Id> {
    let mut found = Vec::new();
    for stmt in body {
        let mut add = |id: Id| {
            if !found.contains(&id) {
                found.push(id);
            }
        };
        if let Op::Atom { row, args, .. } = &stmt.op
            && row.done == Done::Queue(Queue::Wgmma)
        {
            for (operand, arg) in row.operands.iter().zip(args) {
                if let AtomArg::Frag(frag) = arg
                    && operand.writes
                {
                    add(frag.reg);
                }
            }
        }
        blocks(&stmt.op).into_iter().flat_map(in_flight).for_each(add);
    }
    found
}
