//! Groups that take turns at a body. An order is one mbarrier for each group; a phase of it is the permission to go through
//! the body once more, given by the group before. The first group's first permission is there from the beginning.

use super::Lower;
use super::ring::MOST_PHASES;
use crate::diagnostic::Diagnostic;
use crate::index::Int;
use crate::thread::{self, Bar, Fence, Id, Op, Scope};
use crate::tile::{self, Stmt};

/// The groups of an order: who performs the statement, how many parts take turns, and the warps of each.
#[derive(Clone, Copy)]
struct Turns {
    by: Id,
    parts: u32,
    warps: u32,
}

impl Lower<'_> {
    fn turns(&self, by: Id, groups: &[Id]) -> Turns {
        let parts = groups.iter().map(|&group| self.program.groups[group as usize].members.max(1)).sum();
        Turns { by, parts, warps: self.program.threads_of(groups[0]).div_ceil(32) }
    }

    /// The mbarriers of all orders, from a place in shared memory on; returns where they end.
    pub(super) fn declare_orders(&mut self, mut offset: u32) -> u32 {
        let mut found: Vec<Option<Turns>> = vec![None; self.program.orders as usize];
        for stmt in &self.program.body {
            stmt.each(&mut |stmt| {
                if let tile::Op::Ordered { order, groups, .. } = &stmt.op {
                    found[*order as usize].get_or_insert(self.turns(stmt.by, groups));
                }
            });
        }
        for (number, turns) in found.into_iter().enumerate() {
            self.orders.push(self.kernel.bars.len() as Id);
            let Turns { parts: slots, warps: count, .. } =
                turns.unwrap_or(Turns { by: 0, parts: 1, warps: 1 });
            offset = offset.next_multiple_of(8);
            let name = if number == 0 { "order".to_owned() } else { format!("order_{number}") };
            self.kernel.bars.push(Bar::Mbarriers { name, offset, slots, count, scope: Scope::Block });
            offset += 8 * slots;
        }
        offset
    }

    /// Begins to count how often these statements go through the bodies of orders, those inside roles aside.
    pub(super) fn start_orders(&mut self, body: &[Stmt]) {
        let mut found = Vec::new();
        body.iter().for_each(|stmt| ordered(stmt, self.program.orders, &mut found));
        for (order, by, groups) in found {
            let turns = self.turns(by, &groups);
            let name = format!("order{}_phase", if order == 0 { String::new() } else { format!("_{order}") });
            let id = self.var(&name, false);
            self.kernel.vars[id as usize].mutable = true;
            // The first group waits for one permission less.
            let (part, zero) = (self.part_of(turns.by, turns.parts.into()), self.int(0));
            let first = self.exprs().eq(part, zero);
            let start = self.exprs().sub(zero, first);
            self.emit(Op::Let(id, start));
            let phase = self.exprs().leaf(Int::Var(id), -1, MOST_PHASES, 1, Scope::Warp);
            let orders = &mut self.scope.orders;
            orders.resize(orders.len().max(order as usize + 1), None);
            orders[order as usize] = Some(phase);
        }
    }

    /// Waits for the permission, goes through the body, and hands the permission on.
    pub(super) fn ordered(
        &mut self,
        order: Id,
        groups: &[Id],
        body: &[Stmt],
    ) -> std::result::Result<(), Diagnostic> {
        let turns = self.turns(self.scope.by, groups);
        let (by, site) = (self.scope.by, self.scope.site);
        let bar = self.orders[order as usize];
        let part = self.part_of(by, turns.parts.into());
        let phase = self.scope.orders.get(order as usize).copied().flatten().unwrap_or_default();
        self.emit(Op::Await { bar, slot: part, phase: phase });
        self.statements(body)?;
        (self.scope.by, self.scope.site) = (by, site);
        let one = self.int(1);
        let next = self.exprs().add(part, one);
        let slot = self.exprs().rem(next, turns.parts.into());
        // The lane that arrives speaks for what all lanes of its warp have done.
        self.emit(Op::Fence(Fence::Threads(Scope::Warp)));
        let arrive = thread::Stmt { site, op: Op::Arrive { bar, slot, peer: None, bytes: None } };
        self.emit(Op::Elect(Scope::Warp, vec![arrive]));
        if let Int::Var(id) = self.kernel.exprs.get(phase).int {
            let next = self.exprs().add(phase, one);
            self.emit(Op::Set(id, next));
        }
        Ok(())
    }
}

/// The orders that a statement goes through: number, who performs it, groups.
fn ordered(stmt: &Stmt, orders: u32, to: &mut Vec<(Id, Id, Vec<Id>)>) {
    match &stmt.op {
        tile::Op::Ordered { order, groups, .. }
            if *order < orders && !to.iter().any(|(known, ..)| known == order) =>
        {
            to.push((*order, stmt.by, groups.clone()));
        }
        tile::Op::Roles(_) => return,
        _ => {}
    }
    stmt.bodies().into_iter().flatten().for_each(|stmt| ordered(stmt, orders, to));
}
