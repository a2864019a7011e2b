//! Redistribution of register tiles over threads, through shared memory: for a statement that needs another distribution, or
//! for an operand of an instruction.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_layout::{Composed, Distribution, Tuple};

use super::words::moved;
use super::{Resolve, part, shared};
use crate::source::problem::{Problem, Result};
use crate::thread::Id;
use crate::tile::view::View;
use crate::tile::visit::preorder;
use crate::tile::{Op, Program, Space, Stmt};
use crate::values::elem::Elem;
use crate::values::target::{STATIC_SHARED, Target};

/// Bytes that are left to mbarriers.
pub(super) const BARRIERS: i64 = 1024;

/// Where shared tensors are used for the last time.
#[derive(Default)]
pub(super) struct Uses {
    /// The last statement, and whether it reads the tensor.
    last: BTreeMap<Id, (Id, bool)>,
    /// How many statements access a tensor.
    statements: BTreeMap<Id, usize>,
    /// Slots of tensors that pipelined loops fill.
    slots: BTreeMap<Id, i64>,
    /// Is every access a statement of this program, in its order? Accesses of rings, roles and other blocks are not.
    in_order: bool,
}

impl Uses {
    /// The uses in a numbered program.
    pub(super) fn of(program: &Program, body: &[Stmt]) -> Uses {
        let in_order = program.rings.is_empty() && program.groups.len() == 1;
        let mut uses = Uses { in_order, ..Uses::default() };
        for stmt in preorder(body) {
            uses.in_order &= stmt.accesses().all(|view| view.peer.is_none());
            let touched: BTreeSet<Id> = stmt.accesses().map(|view| view.tensor).collect();
            touched.into_iter().for_each(|id| *uses.statements.entry(id).or_default() += 1);
            for view in stmt.writes() {
                uses.last.insert(view.tensor, (stmt.id, false));
            }
            for view in stmt.reads() {
                uses.last.insert(view.tensor, (stmt.id, true));
            }
            if let Op::For { ahead: Some(ahead), body, .. } = &stmt.op {
                let filled = body.iter().flat_map(Stmt::writes);
                uses.slots.extend(filled.map(|view| (view.tensor, i64::from(ahead.stages))));
            }
        }
        uses
    }

    /// How many statements access a tensor?
    pub(super) fn statements(&self, id: Id) -> usize {
        self.statements.get(&id).copied().unwrap_or(0)
    }

    /// Is a tensor read for the last time before this statement? A copy without a wait may still be in
    /// flight.
    fn dead(&self, id: Id, at: &Stmt) -> bool {
        let over = |&(last, reads): &(Id, bool)| reads && last < at.id;
        self.in_order && self.last.get(&id).is_some_and(over)
    }
}

/// Groups of consumers that alternate would use shared memory at the same time.
pub(crate) fn crowded() -> Problem {
    Problem::new("two groups of consumers that alternate would use the shared memory of this statement at the same time")
        .help("use products and functions of elements alone, or leave `alternate` out")
}

impl Resolve {
    /// A register tile in another distribution, through shared memory.
    pub(super) fn through_shared(
        &mut self,
        stmt: &Stmt,
        tile: Id,
        own: &Distribution,
        to: &Distribution,
        fragment: Id,
    ) -> Result<()> {
        let (name, elem) = (self.program.tensor(tile).name.clone(), self.program.tensor(tile).elem);
        let whole = View::whole(tile, &name, &Tuple::flat(own.tile()))?;
        let layout = shared::exchanged(elem, own, to, own.tile().len().saturating_sub(1))?;
        let scratch = self.stored(stmt, &whole, own, &format!("{name}_exchanged"), elem, layout)?;
        let from = part::of_memory(&scratch, to, stmt.by, false)?;
        let into = part::of_tile(&whole, to, to, fragment)?;
        self.push(stmt, moved(from, into));
        Ok(())
    }

    /// A register tile in shared memory, for all threads to read.
    pub(super) fn stored(
        &mut self,
        stmt: &Stmt,
        view: &View,
        own: &Distribution,
        name: &str,
        elem: Elem,
        layout: Composed,
    ) -> Result<View> {
        if self.loops > 0 {
            // Other threads may still be reading the previous iteration's elements.
            self.push(stmt, Op::Sync);
        }
        let scratch = self.scratch(stmt, name, elem, layout)?;
        let from = self.side(stmt, view, own, false)?;
        let to = part::of_memory(&scratch, own, stmt.by, true)?;
        self.push(stmt, moved(from, to));
        self.push(stmt, Op::Sync);
        Ok(scratch)
    }

    /// Shared memory for a statement, which overlays tiles that are no longer used.
    pub(super) fn scratch(&mut self, stmt: &Stmt, name: &str, elem: Elem, layout: Composed) -> Result<View> {
        if self.program.alternates {
            return Err(crowded());
        }
        let (free, mut made) = (self.free(stmt), None);
        self.built(stmt, |builder| {
            made = Some(builder.shared(name, elem, layout)?);
            Ok(())
        })?;
        let made = made.ok_or_else(Problem::reported)?;
        self.overlay(stmt, made.tensor, free);
        Ok(made)
    }

    /// A shared tensor of a statement overlays tiles that are no longer used.
    pub(super) fn overlay(&mut self, stmt: &Stmt, id: Id, free: Vec<Id>) {
        if self.in_flight.any(stmt, &free) {
            self.push(stmt, Op::Wait { token: None, but: 0 });
        }
        // Bulk stores may still read buffers of earlier results, which no later result uses again. They are awaited at the end
        // too, since a condition may leave this out.
        let tokens: Vec<Option<Id>> =
            self.staging.extract_if(.., |of| free.contains(&of.buffers.tensor)).map(|of| of.token).collect();
        let is_of = |stmt: &&Stmt| matches!(stmt.op, Op::Wait { token, .. } if tokens.contains(&token));
        let waits: Vec<Stmt> = self.stores.iter().filter(is_of).cloned().collect();
        self.body.extend(waits);
        if !free.is_empty() {
            self.push(stmt, Op::Sync);
            self.program.overlays.push((id, free));
        }
        self.uses.last.insert(id, (stmt.id, true));
    }

    /// Shared tensors that are no longer used where a statement begins, and are after all others.
    pub(super) fn free(&self, stmt: &Stmt) -> Vec<Id> {
        if self.loops > 0 {
            return Vec::new();
        }
        let shared = self.shared();
        let free = shared.iter().rev().map(|(id, _)| *id);
        free.take_while(|id| self.uses.dead(*id, stmt)).collect()
    }

    /// Every shared tensor, with its bytes in all slots.
    pub(super) fn shared(&self) -> Vec<(Id, i64)> {
        let all = (0..).zip(&self.program.tensors);
        let shared = all.filter(|(_, tensor)| matches!(tensor.space, Space::Shared { .. }));
        shared
            .map(|(id, tensor)| {
                let slots = self.uses.slots.get(&id).copied().unwrap_or(1);
                (id, tensor.elem.bytes_of(tensor.layout.cosize().unwrap_or(0)) * slots)
            })
            .collect()
    }

    /// Does a block need no more shared memory than before, or than every block has? If a producer fills a ring, there
    /// is one block on a multiprocessor.
    pub(super) fn has_room(&self, stmt: &Stmt, bytes: i64) -> bool {
        let (free, shared) = (self.free(stmt), self.shared());
        let all: i64 = shared.iter().map(|(_, bytes)| bytes).sum();
        let live: i64 = shared.iter().filter(|(id, _)| !free.contains(id)).map(|(_, bytes)| bytes).sum();
        let most = i64::from(Target::of(self.program.arch).block_shared);
        let limit = if self.program.rings.is_empty() { STATIC_SHARED.into() } else { most - BARRIERS };
        live + bytes <= all.min(most).max(limit)
    }
}
