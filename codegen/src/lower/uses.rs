//! Uses of integer variables, and elimination of unused ones.

use crate::index::{Exprs, Int, Ix};
use crate::mention::blocks;
use crate::thread::{AtomArg, Frag, Id, Mem, Op, Stmt, Val};

/// Removes unused names from this list, and those that only they use; nothing outside of it can use them.
pub(super) fn drop_unread(exprs: &Exprs, list: &mut Vec<Stmt>) {
    for at in (0..list.len()).rev() {
        if let Op::Let(id, _) = list[at].op
            && !list[at + 1..].iter().any(|stmt| reads(exprs, stmt, id))
        {
            list.remove(at);
        }
    }
}

/// Does a statement, or one inside it, read a variable?
fn reads(exprs: &Exprs, stmt: &Stmt, var: Id) -> bool {
    let mut found = false;
    each_index(stmt, &mut |at| found |= depends(exprs, at, var));
    found
}

fn depends(exprs: &Exprs, at: Ix, var: Id) -> bool {
    match &exprs.get(at).int {
        Int::Var(id) => *id == var,
        int => int.parts().into_iter().any(|part| depends(exprs, part, var)),
    }
}

/// The integers of a statement and of those inside it.
fn each_index(stmt: &Stmt, f: &mut dyn FnMut(Ix)) {
    match &stmt.op {
        Op::Let(_, at) | Op::Set(_, at) | Op::Leave { cond: at, .. } => f(*at),
        Op::Take(_, value) => of_value(value, f),
        Op::Assign { at, value, .. } => {
            f(*at);
            of_value(value, f);
        }
        Op::Load { to, from, guard, stays, .. } => {
            of_places(to, from, f);
            guard.iter().chain(stays).for_each(|&at| f(at));
        }
        Op::Store { to, from, guard } => {
            of_places(from, to, f);
            guard.iter().for_each(|&at| f(at));
        }
        Op::Atomic { to, value, guard, old, .. } => {
            of_memory(to, f);
            of_value(value, f);
            guard.iter().for_each(|&at| f(at));
            old.iter().for_each(|old| f(old.at));
        }
        Op::AwaitFlag { from, least } => {
            of_memory(from, f);
            f(*least);
        }
        Op::Atom { args, guard, .. } => {
            args.iter().for_each(|arg| of_operand(arg, f));
            guard.iter().for_each(|&at| f(at));
        }
        Op::Arrive { slot, peer, .. } => [*slot].iter().chain(peer).for_each(|&at| f(at)),
        Op::Await { slot, phase, .. } => [*slot, *phase].into_iter().for_each(&mut *f),
        Op::For { from, to, .. } => [*from, *to].into_iter().for_each(&mut *f),
        Op::If { cond, .. } => f(*cond),
        Op::When { cond, .. } => of_value(cond, f),
        Op::Roles(_)
        | Op::Elect(..)
        | Op::Comment(_)
        | Op::Commit(_)
        | Op::WaitQueue { .. }
        | Op::Fence(_)
        | Op::Sync(_)
        | Op::InitBarriers(_) => {}
    }
    blocks(&stmt.op).into_iter().flatten().for_each(|stmt| each_index(stmt, f));
}

fn of_places(frag: &Frag, mem: &Mem, f: &mut dyn FnMut(Ix)) {
    f(frag.at);
    of_memory(mem, f);
}

fn of_memory(mem: &Mem, f: &mut dyn FnMut(Ix)) {
    [mem.index].iter().chain(&mem.peer).for_each(|&at| f(at));
}

fn of_operand(arg: &AtomArg, f: &mut dyn FnMut(Ix)) {
    match arg {
        AtomArg::Frag(frag) => f(frag.at),
        AtomArg::At(mem) | AtomArg::Descriptor { at: mem, .. } => of_memory(mem, f),
        AtomArg::Map { at, .. } => at.iter().for_each(|&at| f(at)),
        AtomArg::Barrier { slot: at, .. } | AtomArg::Int(at) => f(*at),
    }
}

fn of_value(value: &Val, f: &mut dyn FnMut(Ix)) {
    match value {
        Val::Reg(_, at) | Val::Int(at, _) => f(*at),
        Val::Lit(..) | Val::Param(_) => {}
        Val::Un(_, x) | Val::Cast(_, x) | Val::Bits(_, x) => of_value(x, f),
        Val::Bin(_, x, y) | Val::Cmp(_, x, y) => [x, y].into_iter().for_each(|x| of_value(x, f)),
        Val::Fma(parts) | Val::Product(_, parts) | Val::Pick(parts) => {
            parts.iter().for_each(|x| of_value(x, f))
        }
        Val::Guarded(at, x, y) => {
            f(*at);
            [x, y].into_iter().for_each(|x| of_value(x, f));
        }
        Val::ShuffleXor(x, at) => {
            of_value(x, f);
            f(*at);
        }
    }
}
