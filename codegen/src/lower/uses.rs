//! The integers that statements read: who reads a name, and a number in a variable's place.

use crate::index::{Exprs, Int, Ix};
use crate::thread::{AtomArg, Frag, Id, Mem, Op, Stmt, Val};

/// Takes out names that nobody reads, of this list alone; what is outside of it does not see them.
pub(super) fn drop_unread(exprs: &Exprs, list: &mut Vec<Stmt>) {
    // From the end, as names are made of earlier ones.
    for at in (0..list.len()).rev() {
        if let Op::Let(id, _) = list[at].op
            && !list[at + 1..].iter_mut().any(|stmt| reads(exprs, stmt, id))
        {
            drop(list.remove(at));
        }
    }
}

/// Puts a number in the place of a variable.
pub(super) fn put(exprs: &mut Exprs, stmts: &mut [Stmt], var: Id, value: i64) {
    for stmt in stmts {
        each_index(stmt, &mut |at| *at = exprs.replaced(*at, var, value));
    }
}

/// Does a statement, or one inside it, read a variable?
fn reads(exprs: &Exprs, stmt: &mut Stmt, var: Id) -> bool {
    let mut found = false;
    each_index(stmt, &mut |at| found |= depends(exprs, *at, var));
    found
}

fn depends(exprs: &Exprs, at: Ix, var: Id) -> bool {
    match &exprs.get(at).int {
        Int::Var(id) => *id == var,
        int => int.parts().into_iter().any(|part| depends(exprs, part, var)),
    }
}

/// The integers of a statement and of those inside it, to be read or changed.
fn each_index(stmt: &mut Stmt, f: &mut dyn FnMut(&mut Ix)) {
    match &mut stmt.op {
        Op::Let(_, at) | Op::Set(_, at) | Op::Leave { cond: at, .. } => f(at),
        Op::Assign { at, value, .. } => {
            f(at);
            of_value(value, f);
        }
        Op::Load { to, from, guard, stays, .. } => {
            of_places(to, from, f);
            guard.iter_mut().chain(stays).for_each(&mut *f);
        }
        Op::Store { to, from, guard } => {
            of_places(from, to, f);
            guard.iter_mut().for_each(&mut *f);
        }
        Op::Atomic { to, value, guard, .. } => {
            of_memory(to, f);
            of_value(value, f);
            guard.iter_mut().for_each(&mut *f);
        }
        Op::Atom { args, guard, .. } => {
            args.iter_mut().for_each(|arg| of_operand(arg, f));
            guard.iter_mut().for_each(&mut *f);
        }
        Op::Arrive { slot, peer, .. } => [slot].into_iter().chain(peer).for_each(f),
        Op::Await { slot, turn, .. } => [slot, turn].into_iter().for_each(f),
        Op::For { from, to, body, .. } => {
            [from, to].into_iter().for_each(&mut *f);
            body.iter_mut().for_each(|stmt| each_index(stmt, f));
        }
        Op::If { cond, then, other } => {
            f(cond);
            then.iter_mut().chain(other).for_each(|stmt| each_index(stmt, f));
        }
        Op::When { cond, then, other } => {
            of_value(cond, f);
            then.iter_mut().chain(other).for_each(|stmt| each_index(stmt, f));
        }
        Op::Roles(roles) => {
            roles.iter_mut().flat_map(|role| &mut role.body).for_each(|stmt| each_index(stmt, f))
        }
        Op::Elect(_, body) => body.iter_mut().for_each(|stmt| each_index(stmt, f)),
        Op::Comment(_)
        | Op::Commit(_)
        | Op::WaitQueue { .. }
        | Op::Fence(_)
        | Op::Sync(_)
        | Op::InitBarriers(_) => {}
    }
}

fn of_places(frag: &mut Frag, mem: &mut Mem, f: &mut dyn FnMut(&mut Ix)) {
    f(&mut frag.at);
    of_memory(mem, f);
}

fn of_memory(mem: &mut Mem, f: &mut dyn FnMut(&mut Ix)) {
    [&mut mem.index].into_iter().chain(&mut mem.peer).for_each(f);
}

fn of_operand(arg: &mut AtomArg, f: &mut dyn FnMut(&mut Ix)) {
    match arg {
        AtomArg::Frag(frag) => f(&mut frag.at),
        AtomArg::At(mem) | AtomArg::Descriptor { at: mem, .. } => of_memory(mem, f),
        AtomArg::Map { at, .. } => at.iter_mut().for_each(f),
        AtomArg::Barrier { slot: at, .. } | AtomArg::Int(at) => f(at),
    }
}

fn of_value(value: &mut Val, f: &mut dyn FnMut(&mut Ix)) {
    match value {
        Val::Reg(_, at) | Val::Int(at, _) => f(at),
        Val::Lit(..) | Val::Param(_) => {}
        Val::Un(_, x) | Val::Cast(_, x) => of_value(x, f),
        Val::Bin(_, x, y) | Val::Cmp(_, x, y) => [x, y].into_iter().for_each(|x| of_value(x, f)),
        Val::Fma(parts) | Val::Pick(parts) => parts.iter_mut().for_each(|x| of_value(x, f)),
        Val::Guarded(at, x, y) => {
            f(at);
            [x, y].into_iter().for_each(|x| of_value(x, f));
        }
        Val::ShuffleXor(x, at) => {
            of_value(x, f);
            f(at);
        }
    }
}
