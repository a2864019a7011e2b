//! Which statements use which register arrays. Queries are answered for all arrays of a block at once: one
//! query per array would take quadratic time.

use std::collections::BTreeMap;

use crate::atom::{Done, Effect};
use crate::thread::{AtomArg, Id, Kernel, Op, Queue, Space, Stmt, Val};

/// The blocks inside a statement.
pub(crate) fn blocks(op: &Op) -> Vec<&[Stmt]> {
    match op {
        Op::For { body, .. } | Op::Elect(_, body) => vec![body],
        Op::If { then, other, .. } | Op::When { then, other, .. } => vec![then, other],
        Op::Roles(roles) => roles.iter().map(|role| role.body.as_slice()).collect(),
        Op::Comment(_)
        | Op::Let(..)
        | Op::Set(..)
        | Op::Take(..)
        | Op::Assign { .. }
        | Op::Load { .. }
        | Op::Store { .. }
        | Op::Atomic { .. }
        | Op::AwaitFlag { .. }
        | Op::Atom { .. }
        | Op::Commit(_)
        | Op::WaitQueue { .. }
        | Op::Fence(_)
        | Op::Sync(_)
        | Op::Arrive { .. }
        | Op::Await { .. }
        | Op::InitBarriers(_)
        | Op::Leave { .. } => Vec::new(),
    }
}

impl Kernel {
    /// Does it update elements of this pointer parameter atomically, so that they must have been initialised?
    pub fn updates(&self, param: Id) -> bool {
        fn any(body: &[Stmt], param: Id) -> bool {
            body.iter().any(|stmt| match &stmt.op {
                Op::Atomic { to, .. } => to.space == Space::Global(param),
                op => blocks(op).into_iter().any(|body| any(body, param)),
            })
        }
        any(&self.body, param)
    }
}

/// Does an inner loop in this body leave the loop over `var`?
pub(crate) fn is_left_from_inside(body: &[Stmt], var: Id) -> bool {
    fn is_left(stmt: &Stmt, var: Id, inside: bool) -> bool {
        let inside = inside || matches!(stmt.op, Op::For { .. });
        matches!(stmt.op, Op::Leave { of, .. } if of == var && inside)
            || blocks(&stmt.op).into_iter().flatten().any(|stmt| is_left(stmt, var, inside))
    }
    body.iter().any(|stmt| is_left(stmt, var, false))
}

/// For each array, the number of these statements and their substatements that use it.
pub(crate) fn counts<'s>(stmts: impl IntoIterator<Item = &'s Stmt>) -> BTreeMap<Id, usize> {
    fn add(stmt: &Stmt, to: &mut BTreeMap<Id, usize>) {
        let mut own = Vec::new();
        match &stmt.op {
            Op::Assign { reg, value, .. } => {
                own.push(*reg);
                arrays(value, &mut own);
            }
            Op::Load { to: frag, .. } | Op::Store { from: frag, .. } => own.push(frag.reg),
            Op::Atomic { value, old, .. } => {
                arrays(value, &mut own);
                own.extend(old.iter().map(|old| old.reg));
            }
            Op::When { cond: value, .. } | Op::Take(_, value) => arrays(value, &mut own),
            Op::Atom { args, .. } => own.extend(args.iter().filter_map(|arg| match arg {
                AtomArg::Frag(frag) => Some(frag.reg),
                _ => None,
            })),
            _ => {}
        }
        own.sort_unstable();
        own.dedup();
        for id in own {
            *to.entry(id).or_default() += 1;
        }
        blocks(&stmt.op).into_iter().flatten().for_each(|stmt| add(stmt, to));
    }
    let mut all = BTreeMap::new();
    stmts.into_iter().for_each(|stmt| add(stmt, &mut all));
    all
}

/// The arrays in a value.
fn arrays(value: &Val, to: &mut Vec<Id>) {
    match value {
        Val::Reg(reg, _) => to.push(*reg),
        Val::Lit(..) | Val::Int(..) | Val::Param(_) => {}
        Val::Un(_, x) | Val::Cast(_, x) | Val::Bits(_, x) | Val::ShuffleXor(x, _) => arrays(x, to),
        Val::Bin(_, x, y) | Val::Guarded(_, x, y) | Val::Cmp(_, x, y) => {
            arrays(x, to);
            arrays(y, to);
        }
        Val::Fma(args) | Val::Product(_, args) | Val::Pick(args) => {
            args.iter().for_each(|arg| arrays(arg, to))
        }
    }
}

/// For each array, the vector width of its widest access.
pub(crate) fn widest(body: &[Stmt]) -> BTreeMap<Id, u32> {
    fn add(stmt: &Stmt, to: &mut BTreeMap<Id, u32>) {
        if let Op::Load { to: frag, .. } | Op::Store { from: frag, .. } = &stmt.op {
            let known = to.entry(frag.reg).or_default();
            *known = frag.len.max(*known);
        }
        blocks(&stmt.op).into_iter().flatten().for_each(|stmt| add(stmt, to));
    }
    let mut all = BTreeMap::new();
    body.iter().for_each(|stmt| add(stmt, &mut all));
    all
}

/// How many statements use the array: this one, and its substatements.
pub(crate) fn count(stmt: &Stmt, id: Id) -> usize {
    let own = match &stmt.op {
        Op::Assign { reg, value, .. } => *reg == id || value_mentions(value, id),
        Op::Load { to: frag, .. } | Op::Store { from: frag, .. } => frag.reg == id,
        Op::Atomic { value, old, .. } => value_mentions(value, id) || old.is_some_and(|old| old.reg == id),
        Op::When { cond: value, .. } | Op::Take(_, value) => value_mentions(value, id),
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
        Val::Un(_, x) | Val::Cast(_, x) | Val::Bits(_, x) | Val::ShuffleXor(x, _) => value_mentions(x, id),
        Val::Bin(_, x, y) | Val::Guarded(_, x, y) | Val::Cmp(_, x, y) => {
            value_mentions(x, id) || value_mentions(y, id)
        }
        Val::Fma(args) | Val::Product(_, args) | Val::Pick(args) => {
            args.iter().any(|arg| value_mentions(arg, id))
        }
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
