//! The register arrays that statements use. Queries are answered for all arrays of a block at once: one
//! query per array would take quadratic time.

use std::collections::{BTreeMap, BTreeSet};

use crate::isa::atom::{Done, Effect};
use crate::thread::index::{Int, Ix};
use crate::thread::visit::{Access, Use, preorder};
use crate::thread::{AtomArg, Id, Kernel, Op, Param, Queue, Space, Stmt};

impl Kernel {
    /// The pointer parameters whose elements it may access.
    pub fn accessed(&self) -> BTreeSet<Id> {
        let mapped = self.params.iter().filter_map(|param| match param {
            Param::TensorMap { tensor, .. } => Some(*tensor),
            _ => None,
        });
        let used = preorder(&self.body).flat_map(|stmt| stmt.op.uses()).filter_map(|used| match used {
            Use::Memory { space: Space::Global(param), .. } => Some(param),
            _ => None,
        });
        mapped.chain(used).collect()
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
        let reduces = |op: &Op| match op {
            Op::Atom { row, args, .. } => matches!(row.effect, Effect::Reduce(_)) && args.iter().any(is_map),
            _ => false,
        };
        preorder(&self.body).any(|stmt| reduces(&stmt.op) || stmt.op.uses().contains(&updated))
    }

    /// The integer parameters on which statements or other expressions depend.
    pub fn used_sizes(&self) -> BTreeSet<Id> {
        let mut used: BTreeSet<Ix> = self.exprs.iter().flat_map(|expr| expr.int.parts()).collect();
        used.extend(preorder(&self.body).flat_map(|stmt| stmt.op.uses()).filter_map(|used| match used {
            Use::Integer(at) | Use::Operand(at) => Some(at),
            _ => None,
        }));
        let param = |at: Ix| match self.exprs.get(at).int {
            Int::Param(id) => Some(id),
            _ => None,
        };
        used.into_iter().filter_map(param).collect()
    }
}

/// Is it true of any of these statements or their substatements?
pub(crate) fn any(body: &[Stmt], is: impl Fn(&Op) -> bool) -> bool {
    preorder(body).any(|stmt| is(&stmt.op))
}

/// Do these statements leave the loop over `var`?
pub(crate) fn is_left_in(body: &[Stmt], var: Id) -> bool {
    any(body, |op| matches!(op, Op::Leave { of, .. } if *of == var))
}

/// For each array, the number of these statements and their substatements that use it.
pub(crate) fn counts<'s>(stmts: impl IntoIterator<Item = &'s Stmt>) -> BTreeMap<Id, usize> {
    let mut all = BTreeMap::new();
    for stmt in stmts.into_iter().flat_map(Stmt::preorder) {
        let own: BTreeSet<Id> = stmt.op.uses().into_iter().filter_map(array).map(|(id, _)| id).collect();
        own.into_iter().for_each(|id| *all.entry(id).or_default() += 1);
    }
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
    let mut all = BTreeMap::<Id, u32>::new();
    for stmt in preorder(body) {
        let frag = match &stmt.op {
            Op::Load { to: frag, .. } | Op::Store { from: frag, .. } => frag,
            Op::Atom { row, args, .. } if row.effect == Effect::FunnelShift => match args.first() {
                Some(AtomArg::Frag(frag)) => frag,
                _ => continue,
            },
            _ => continue,
        };
        let known = all.entry(frag.reg).or_default();
        *known = frag.len.max(*known);
    }
    all
}

/// Does the statement, or one inside it, use the array?
pub(crate) fn mentions(stmt: &Stmt, id: Id) -> bool {
    let mut uses = stmt.preorder().flat_map(|stmt| stmt.op.uses()).filter_map(array);
    uses.any(|(known, _)| known == id)
}

/// Does a statement itself read the array?
pub(crate) fn reads(stmt: &Stmt, id: Id) -> bool {
    let mut uses = stmt.op.uses().into_iter().filter_map(array);
    uses.any(|(known, access)| known == id && access != Access::Write)
}

/// The arrays that asynchronous matrix products write, in the order of their first use.
pub fn in_flight(body: &[Stmt]) -> Vec<Id> {
    let mut result = Vec::new();
    for stmt in preorder(body) {
        let Op::Atom { row, args, .. } = &stmt.op else { continue };
        let is_product = row.family.completes == Done::Queue(Queue::Products);
        for (operand, arg) in row.operands.iter().zip(args).filter(|_| is_product) {
            if let AtomArg::Frag(frag) = arg
                && operand.writes
                && !result.contains(&frag.reg)
            {
                result.push(frag.reg);
            }
        }
    }
    result
}
