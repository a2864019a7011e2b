//! Accumulators that are stored as they are, behind a loop that loads its operands one k-step ahead. The registers of a vector must
//! be adjacent for the store. That must not constrain the products: their operands would be in one bank of registers more often. So
//! accumulators move to other registers between the loop and the store.

use super::Schedule;
use crate::thread::{Id, Un};
use crate::tile::view::View;
use crate::tile::{Expr, Op, Program, Space, Stmt};
use crate::values::elem::Elem;

impl Schedule {
    /// The moves behind a loop, whose statement is given.
    pub(super) fn moved(&self, stmt: &Stmt, after: &[Stmt]) -> Vec<Stmt> {
        let Op::For { ahead: Some(ahead), body, .. } = &stmt.op else { return Vec::new() };
        let sums = body.iter().filter_map(|stmt| match &stmt.op {
            Op::Gemm { acc, .. } if ahead.fragments > 1 => Some(acc),
            _ => None,
        });
        let sums = sums.filter(|acc| self.program.tensor(acc.tensor).elem == Elem::F32);
        let apart = |acc: &View| Op::Map {
            ins: vec![acc.clone()],
            to: acc.clone(),
            value: Expr::Un(Un::Apart, Box::new(Expr::In(0))),
        };
        let stored = sums.filter(|acc| is_stored(&self.program, acc.tensor, after));
        stored.map(|acc| Stmt { op: apart(acc), ..stmt.clone() }).collect()
    }
}

/// Does the first statement that accesses these registers copy them to memory?
fn is_stored(program: &Program, acc: Id, after: &[Stmt]) -> bool {
    let accesses = |stmt: &&Stmt| stmt.preorder().any(|stmt| stmt.accesses().any(|view| view.tensor == acc));
    let first = after.iter().find(accesses);
    matches!(first.map(|stmt| &stmt.op), Some(Op::Copy { from, to, .. })
        if from.tensor == acc && !matches!(program.tensor(to.tensor).space, Space::Registers { .. }))
}
