//! Uses of integer variables, and elimination of unused ones.

use crate::thread::index::{Exprs, Int, Ix};
use crate::thread::visit::Use;
use crate::thread::{Id, Op, Stmt};

/// Removes unused names from this list, and names that only these use; no statement outside of it can use them.
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
