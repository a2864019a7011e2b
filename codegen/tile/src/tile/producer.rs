//! Roles that only fill rings by bulk copies. One elected thread issues the copies, so one warp of the group runs the role.
//! The waits of several warps for free slots would not be ordered: a warp that falls behind would wait for a phase that has
//! passed.

use super::{Op, Program, Stmt};
use crate::isa::scope::Scope;
use crate::values::id::Id;

impl Program {
    /// Does the first warp of a group run this role alone?
    pub fn is_of_one_warp(&self, body: &[Stmt]) -> bool {
        let Some(group) = body.first().map(|stmt| stmt.by) else { return false };
        let warps = self.groups[group as usize].warps.map_or(1, |(first, end)| end - first);
        warps > 1 && body.iter().all(|stmt| only_fills(stmt, group))
    }
}

/// Does a statement only fill rings, by copies that one thread issues? Integers on which they depend may be read.
fn only_fills(stmt: &Stmt, group: Id) -> bool {
    let own = match &stmt.op {
        Op::Acquire { .. } | Op::Publish { bytes: Some(_), .. } | Op::Advance { .. } | Op::Take { .. } => {
            true
        }
        Op::For { ahead: None, .. } | Op::Step { .. } | Op::Tiles { .. } | Op::If { .. } => {
            stmt.bodies().into_iter().flatten().all(|stmt| only_fills(stmt, group))
        }
        _ => stmt.instruction().is_some_and(|row| row.family.issued_by == Scope::Thread && row.has_map()),
    };
    own && stmt.by == group
}
