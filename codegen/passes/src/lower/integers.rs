//! Integers that are loaded from memory or passed as arguments: each is assigned to a variable once, which is
//! then an index like any other.

use super::Lower;
use crate::source::problem::Result;
use crate::thread::index::{Int, Ix};
use crate::thread::{self, Bin, Cmp, Frag, Id, Op, Stmt, Val};
use crate::tile::range::Range;
use crate::tile::view::View;
use crate::tile::view::leaf::leaves;
use crate::tile::{Arg, Purpose, Space};
use crate::values::elem::Elem;

impl Lower<'_> {
    /// Reads an element as an integer. An out-of-bounds element reads as -1, which is out of bounds of every
    /// tensor.
    pub(super) fn take(&mut self, number: Id, from: &View) -> Result<()> {
        let program = self.program;
        let (read, tensor) = (&program.reads[number as usize], program.tensor(from.tensor));
        self.at_tensor(&tensor.name);
        let leaves = leaves(from);
        let first = vec![self.int(0); leaves.len()];
        let (value, guard) = match tensor.space {
            Space::Registers { .. } => {
                let at = self.register_index(from, &leaves, &first);
                (Val::Reg(self.storage[from.tensor as usize], at), None)
            }
            Space::Global { .. } | Space::Shared { .. } => {
                let reg = self.register(format!("{}_element", read.name), tensor.elem, 1, false);
                let guard = self.guard(from, &leaves, &first);
                let address = self.address(from, &leaves, &first);
                let at = self.int(0);
                let to = Frag { reg, at, len: 1 };
                self.emit(Op::Load { to, from: address, guard, fill: 0.0.into(), volatile_at: None });
                (Val::Reg(reg, at), guard)
            }
        };
        let scope = if read.per_thread { thread::Scope::Thread } else { thread::Scope::Block };
        let (taken, at) = self.taken(&read.name, value, tensor.elem, scope);
        self.emit(taken);
        let at = match guard {
            None => at,
            Some(guard) => {
                let outside = self.int(read.purpose.out_of_bounds());
                let chosen = self.exprs().select(guard, at, outside);
                let or = if read.purpose == Purpose::Index { "or_none" } else { "or_0" };
                self.name_here(chosen, &format!("{}_{or}", read.name))
            }
        };
        self.scope.reads[number as usize] = Some(at);
        Ok(())
    }

    /// An integer argument, named at the kernel's top.
    pub(super) fn scalar(&mut self, id: Id) -> Ix {
        let scalar = &self.program.scalars[id as usize];
        if let Some((_, at)) = self.scalars.iter().find(|(known, _)| *known == id) {
            return *at;
        }
        let index = self.program.args.iter().position(|arg| *arg == Arg::Scalar(id)).unwrap_or(0);
        let name = format!("{}_number", scalar.name);
        let (taken, at) = self.taken(&name, Val::Param(index as Id), scalar.elem, thread::Scope::Grid);
        self.preamble.push(Stmt { site: self.scope.site, op: taken });
        if let Int::Var(var) = self.kernel.exprs.get(at).int {
            self.named.push((at, var));
        }
        self.scalars.push((id, at));
        at
    }

    /// The statement that names a value as an integer, and the integer.
    pub(super) fn taken(&mut self, name: &str, value: Val, elem: Elem, scope: thread::Scope) -> (Op, Ix) {
        let Range { lo, hi } = Range::of(elem);
        let (lo, hi) = (lo as i64, hi as i64);
        let value = match elem {
            elem if elem.is_float() => Val::Cast(Elem::I32, Box::new(value)),
            elem if elem.bits() > 32 => clamped(value, elem),
            Elem::Bool => truth(value),
            _ => value,
        };
        let var = self.var(name, hi > i64::from(i32::MAX));
        let at = self.exprs().leaf(Int::Var(var), lo, hi, 1, scope);
        (Op::Take(var, value), at)
    }
}

/// A `bool` of memory as 1 or 0.
pub(super) fn truth(value: Val) -> Val {
    Val::Cmp(Cmp::Ne, Box::new(value), Box::new(Val::lit(0, Elem::Bool)))
}

/// An integer of 64 bits, or the nearest `i32`.
fn clamped(value: Val, elem: Elem) -> Val {
    let limit = |function, value, limit: i32| {
        Val::Bin(function, Box::new(value), Box::new(Val::Lit(limit.into(), elem)))
    };
    let below = limit(Bin::Min, value, i32::MAX);
    if elem.is_signed() { limit(Bin::Max, below, i32::MIN) } else { below }
}
