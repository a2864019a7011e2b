//! Ordered sections: groups enter a body in a cyclic order, as with the ordered sequence barrier of CUTLASS. Each
//! group has an mbarrier; the previous group arrives at it when it leaves the body. The first group passes its first
//! wait at once.

use super::Lower;
use super::ring::MOST_PHASES;
use crate::source::diagnostic::Diagnostic;
use crate::thread::index::Int;
use crate::thread::{self, Bar, Fence, Id, Op, Scope};
use crate::tile::visit::preorder;
use crate::tile::{self, Stmt};

/// The groups of an ordered section: who performs the statement, how many parts alternate, and the warps of
/// each.
#[derive(Clone, Copy)]
struct Section {
    by: Id,
    parts: u32,
    warps: u32,
}

impl Lower<'_> {
    fn section(&self, by: Id, groups: &[Id]) -> Section {
        let parts = self.program.members(groups);
        Section { by, parts, warps: self.program.threads_of(groups[0]).div_ceil(32) }
    }

    /// Declares the mbarriers of all ordered sections.
    pub(super) fn declare_orders(&mut self) {
        let mut matched: Vec<Option<Section>> = vec![None; self.program.orders as usize];
        for stmt in preorder(&self.program.body) {
            if let tile::Op::Ordered { order, groups, .. } = &stmt.op {
                matched[*order as usize].get_or_insert(self.section(stmt.by, groups));
            }
        }
        for (number, section) in matched.into_iter().enumerate() {
            self.orders.push(self.kernel.bars.len() as Id);
            let Section { parts: slots, warps: count, .. } =
                section.unwrap_or(Section { by: 0, parts: 1, warps: 1 });
            let offset = self.allocation.orders[number];
            let name = if number == 0 { "order".to_owned() } else { format!("order_{number}") };
            self.kernel.bars.push(Bar::Mbarriers {
                name,
                offset,
                slots,
                slots_name: None,
                count,
                scope: Scope::Block,
            });
        }
    }

    /// Declares the phase counters of the ordered sections in these statements, except inside roles.
    pub(super) fn start_orders(&mut self, body: &[Stmt]) {
        let mut matched = Vec::new();
        body.iter().for_each(|stmt| ordered(stmt, self.program.orders, &mut matched));
        for (order, by, groups) in matched {
            let section = self.section(by, &groups);
            let name = format!("order{}_phase", if order == 0 { String::new() } else { format!("_{order}") });
            let id = self.var(&name, false);
            self.kernel.vars[id as usize].mutable = true;
            // The first group counts from one phase earlier, so that its first wait passes at once.
            let (part, zero) = (self.part_of(section.by, section.parts.into()), self.int(0));
            let first = self.exprs().eq(part, zero);
            let start = self.exprs().sub(zero, first);
            self.emit(Op::Let(id, start));
            let phase = self.exprs().leaf(Int::Var(id), -1, MOST_PHASES, 1, Scope::Warp);
            let orders = &mut self.scope.orders;
            orders.resize(orders.len().max(order as usize + 1), None);
            orders[order as usize] = Some(phase);
        }
    }

    /// Waits for the own mbarrier, runs the body, and arrives at the mbarrier of the next group.
    pub(super) fn ordered(
        &mut self,
        order: Id,
        groups: &[Id],
        body: &[Stmt],
    ) -> std::result::Result<(), Diagnostic> {
        let section = self.section(self.scope.by, groups);
        let (by, site) = (self.scope.by, self.scope.site);
        let bar = self.orders[order as usize];
        let part = self.part_of(by, section.parts.into());
        let phase = self.scope.orders.get(order as usize).copied().flatten().unwrap_or_default();
        self.emit(Op::Await { bar, slot: part, phase });
        self.statements(body)?;
        (self.scope.by, self.scope.site) = (by, site);
        let one = self.int(1);
        let next = self.exprs().add(part, one);
        let slot = self.exprs().rem(next, section.parts.into());
        // One lane arrives for its warp; the warp fence orders the other lanes' accesses before that.
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

/// The ordered sections in a statement: number, performing group, groups.
fn ordered(stmt: &Stmt, orders: u32, to: &mut Vec<(Id, Id, Vec<Id>)>) {
    if matches!(stmt.op, tile::Op::Roles(_)) {
        return;
    }
    if let tile::Op::Ordered { order, groups, .. } = &stmt.op
        && *order < orders
        && !to.iter().any(|(known, ..)| known == order)
    {
        to.push((*order, stmt.by, groups.clone()));
    }
    stmt.bodies().into_iter().flatten().for_each(|stmt| ordered(stmt, orders, to));
}
