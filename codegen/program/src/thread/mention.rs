//! The register arrays that statements use. Queries are answered for all arrays of a block at once: one
//! query per array would take quadratic time.

use std::collections::{BTreeMap, BTreeSet};

use crate::isa::atom::{Done, Effect};
use crate::thread::index::{Int, Ix};
use crate::thread::visit::{Access, Use};
use crate::thread::{AtomArg, Id, Kernel, Op, Param, Queue, Space, Stmt};

impl Kernel {
    /// The pointer parameters whose elements it may access.
    pub fn accessed(&self) -> BTreeSet<Id> {
        let mapped = self.params.iter().filter_map(|param| match param {
            Param::TensorMap { tensor, .. } => Some(*tensor),
            _ => None,
        });
        let mut all: BTreeSet<Id> = mapped.collect();
        any(&self.body, &mut |op| {
            op.each_use(&mut |used| {
                if let Use::Memory { space: Space::Global(param), .. } = used {
                    all.insert(param);
                }
            });
            false
        });
        all
    }

    /// Does it update elements of this pointer parameter atomically, so that they must have been initialised?
    pub fn updates(&self, param: Id) -> bool {
        let updated =
            Use::Memory { space: Space::Global(param), access: Access::Update, asynchronous: false };
        let is_map = |arg: &AtomArg| match arg {
            AtomArg::Map { param: map, .. } => {
                matches!(self.params[*map as usize], Param::TensorMap { tensor, .. } if tensor == param)
            }
            _ => false,
        };
        any(&self.body, &mut |op| {
            let mut result = match op {
                Op::Atom { row, args, .. } => {
                    matches!(row.effect, Effect::Reduce(_)) && args.iter().any(is_map)
                }
                _ => false,
            };
            op.each_use(&mut |used| result |= used == updated);
            result
        })
    }
}

impl Kernel {
    /// The integer parameters on which statements or other expressions depend.
    pub fn used_sizes(&self) -> BTreeSet<Id> {
        let mut used: BTreeSet<Ix> = self.exprs.iter().flat_map(|expr| expr.int.parts()).collect();
        any(&self.body, &mut |op| {
            op.each_use(&mut |of| {
                if let Use::Integer(at) | Use::Operand(at) = of {
                    used.insert(at);
                }
            });
            false
        });
        let param = |at: Ix| match self.exprs.get(at).int {
            Int::Param(id) => Some(id),
            _ => None,
        };
        used.into_iter().filter_map(param).collect()
    }
}

/// Is it true of any of these statements or their substatements?
pub(crate) fn any(body: &[Stmt], is: &mut dyn FnMut(&Op) -> bool) -> bool {
    body.iter().any(|stmt| is(&stmt.op) || stmt.op.blocks().into_iter().any(|body| any(body, is)))
}

/// Do these statements leave the loop over `var`?
pub(crate) fn is_left_in(body: &[Stmt], var: Id) -> bool {
    any(body, &mut |op| matches!(op, Op::Leave { of, .. } if *of == var))
}

/// For each array, the number of these statements and their substatements that use it.
pub(crate) fn counts<'s>(stmts: impl IntoIterator<Item = &'s Stmt>) -> BTreeMap<Id, usize> {
    fn add(stmt: &Stmt, to: &mut BTreeMap<Id, usize>) {
        let mut own = Vec::new();
        stmt.op.each_use(&mut |used| own.extend(array(used).map(|(id, _)| id)));
        own.sort_unstable();
        own.dedup();
        for id in own {
            *to.entry(id).or_default() += 1;
        }
        stmt.op.blocks().into_iter().flatten().for_each(|stmt| add(stmt, to));
    }
    let mut all = BTreeMap::new();
    stmts.into_iter().for_each(|stmt| add(stmt, &mut all));
    all
}

pub(crate) fn array(used: Use) -> Option<(Id, Access)> {
    match used {
        Use::Registers(id, access) => Some((id, access)),
        Use::Integer(_) | Use::Operand(_) | Use::Memory { .. } => None,
    }
}

/// For each array, the vector width of its widest access.
pub(crate) fn widest(body: &[Stmt]) -> BTreeMap<Id, u32> {
    fn add(stmt: &Stmt, to: &mut BTreeMap<Id, u32>) {
        if let Op::Load { to: frag, .. } | Op::Store { from: frag, .. } = &stmt.op {
            let known = to.entry(frag.reg).or_default();
            *known = frag.len.max(*known);
        }
        if let Op::Atom { row, args, .. } = &stmt.op
            && row.effect == Effect::FunnelShift
            && let Some(AtomArg::Frag(frag)) = args.first()
        {
            let known = to.entry(frag.reg).or_default();
            *known = frag.len.max(*known);
        }
        stmt.op.blocks().into_iter().flatten().for_each(|stmt| add(stmt, to));
    }
    let mut all = BTreeMap::new();
    body.iter().for_each(|stmt| add(stmt, &mut all));
    all
}

/// Does the statement, or one inside it, use the array?
pub(crate) fn mentions(stmt: &Stmt, id: Id) -> bool {
    let mut result = false;
    stmt.op.each_use(&mut |used| result |= array(used).is_some_and(|(known, _)| known == id));
    result || stmt.op.blocks().into_iter().flatten().any(|stmt| mentions(stmt, id))
}

/// Does a statement itself read the array?
pub(crate) fn reads(stmt: &Stmt, id: Id) -> bool {
    let mut result = false;
    stmt.op.each_use(&mut |used| {
        result |= array(used).is_some_and(|(known, access)| known == id && access != Access::Write);
    });
    result
}

/// The arrays that asynchronous matrix products write, in the order of their first use.
pub fn in_flight(body: &[Stmt]) -> Vec<Id> {
    let mut result = Vec::new();
    for stmt in body {
        let mut add = |id: Id| {
            if !result.contains(&id) {
                result.push(id);
            }
        };
        if let Op::Atom { row, args, .. } = &stmt.op
            && row.family.completes == Done::Queue(Queue::Products)
        {
            for (operand, arg) in row.operands.iter().zip(args) {
                if let AtomArg::Frag(frag) = arg
                    && operand.writes
                {
                    add(frag.reg);
                }
            }
        }
        stmt.op.blocks().into_iter().flat_map(in_flight).for_each(add);
    }
    result
}
