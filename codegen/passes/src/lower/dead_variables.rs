//! Uses of integer variables, and elimination of what nothing reads.

use std::collections::BTreeSet;

use crate::thread::index::{Exprs, Int, Ix};
use crate::thread::visit::{Access, Use, preorder};
use crate::thread::{Id, Kernel, Op, Stmt, Val};

/// Removes registers that are only written, and names that no statement reads. A warp-specialized role, and copies ahead of a
/// loop, do not need all that the statements before them compute.
pub(super) fn remove(kernel: &mut Kernel) {
    loop {
        let read = Read::of(kernel);
        let count = preorder(&kernel.body).count();
        remove_unread(&mut kernel.body, &read);
        if preorder(&kernel.body).count() == count {
            return;
        }
    }
}

/// What the statements of a kernel read.
struct Read {
    registers: BTreeSet<Id>,
    variables: BTreeSet<Id>,
}

impl Read {
    fn of(kernel: &Kernel) -> Read {
        let mut registers = BTreeSet::new();
        let mut pending = Vec::new();
        for used in preorder(&kernel.body).flat_map(|stmt| stmt.op.uses()) {
            match used {
                Use::Registers(reg, Access::Read | Access::Update) => drop(registers.insert(reg)),
                Use::Integer(at) | Use::Operand(at) => pending.push(at),
                Use::Registers(_, Access::Write) | Use::Memory { .. } => {}
            }
        }
        let (mut seen, mut variables) = (BTreeSet::new(), BTreeSet::new());
        while let Some(at) = pending.pop() {
            if !seen.insert(at) {
                continue;
            }
            match &kernel.exprs.get(at).int {
                Int::Var(id) => drop(variables.insert(*id)),
                int => pending.extend(int.parts()),
            }
        }
        Read { registers, variables }
    }
}

/// Removes what is not read, and loops and conditions that are empty then.
fn remove_unread(list: &mut Vec<Stmt>, read: &Read) {
    for at in (0..list.len()).rev() {
        // The comment that was here may have gone with the statement behind it.
        let Some(Stmt { op, .. }) = list.get_mut(at) else { continue };
        op.blocks_mut().into_iter().for_each(|block| remove_unread(block, read));
        let is_dead = match op {
            Op::Let(id, _) => !read.variables.contains(id),
            Op::Take(id, value) => !read.variables.contains(id) && is_pure(value),
            Op::Assign { reg, value, .. } => !read.registers.contains(reg) && is_pure(value),
            Op::Load { to, volatile_at: None, .. } => !read.registers.contains(&to.reg),
            Op::For { .. } | Op::If { .. } => op.blocks().iter().all(|block| block.is_empty()),
            _ => false,
        };
        if is_dead {
            remove_with_comment(list, at);
        }
    }
}

/// Removes a statement, and the comment before it if no other statement follows under it.
fn remove_with_comment(list: &mut Vec<Stmt>, at: usize) {
    list.remove(at);
    let is_comment = |stmt: &Stmt| matches!(stmt.op, Op::Comment(_));
    let goes_on = list.get(at).is_some_and(|next| !is_comment(next));
    if !goes_on && at > 0 && is_comment(&list[at - 1]) {
        list.remove(at - 1);
    }
}

/// Has its computation no other effect? The PTX of an author may have one.
fn is_pure(value: &Val) -> bool {
    !matches!(value, Val::Ptx { .. }) && value.parts().into_iter().all(is_pure)
}

/// Does a statement, or one inside it, read a variable?
pub(super) fn reads(exprs: &Exprs, stmt: &Stmt, var: Id) -> bool {
    stmt.preorder().flat_map(|stmt| stmt.op.uses()).any(|used| match used {
        Use::Integer(at) | Use::Operand(at) => depends(exprs, at, var),
        Use::Registers(..) | Use::Memory { .. } => false,
    })
}

fn depends(exprs: &Exprs, at: Ix, var: Id) -> bool {
    match &exprs.get(at).int {
        Int::Var(id) => *id == var,
        int => int.parts().into_iter().any(|part| depends(exprs, part, var)),
    }
}
