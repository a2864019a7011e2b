//! Gathers and scatters: accesses to elements whose coordinates are integers in registers.

use super::Lower;
use super::elementwise::refined;
use super::numbering::{extents_of, named};
use crate::source::problem::Result;
use crate::thread::index::Ix;
use crate::thread::probe::Probe;
use crate::thread::{Change, Frag, Mem, Op, Scope, Unroll, Val};
use crate::tile::Update;
use crate::tile::elements::{Along, Edge, ElementFacts};
use crate::tile::view::View;
use crate::tile::view::leaf::{Leaf, leaves};
use crate::values::elem::Elem;
use crate::values::number::Number;

impl Lower<'_> {
    /// Loads each element of `to` from its coordinates.
    pub(super) fn gather(
        &mut self,
        from: &View,
        at: &[(u32, View)],
        to: &View,
        known: &ElementFacts,
    ) -> Result<()> {
        self.comment(format!("{} <- {}, each from its own address, {}", to.name, from.name, to.shape()));
        let reg = self.storage[to.tensor as usize];
        self.each_address(from, at, to, &[], &known.claims, &mut |lower, own, address, guard| {
            let index = lower.register_index(own.0, own.1, own.2);
            let to = Frag { reg, at: index, len: 1 };
            lower.emit(Op::Load { to, from: address, guard, fill: 0.0.into(), volatile_at: None });
        })
    }

    /// Stores each element of `from` to its coordinates, or updates the element there.
    pub(super) fn scatter(
        &mut self,
        from: &View,
        at: &[(u32, View)],
        to: &View,
        update: Option<&Update>,
        known: &ElementFacts,
    ) -> Result<()> {
        let verb = update.and_then(|update| Change::ALL.iter().find(|row| row.1 == update.with));
        let how = verb.map_or(String::new(), |row| format!("{} of ", row.0));
        self.comment(format!("{} <- {how}{}, each to its own address, {}", to.name, from.name, from.shape()));
        let reg = self.storage[from.tensor as usize];
        let along = |edge: &Edge| Along { edge: edge.clone(), combined: false };
        let edges = [known.masks.iter().map(along).collect()];
        self.each_address(to, at, from, &known.claims, &edges, &mut |lower, own, address, guard| {
            let coordinates = lower.coordinates(own.0, own.1, own.2);
            let guard = match (lower.inside(&known.masks, &coordinates), guard) {
                (Some(inside), Some(guard)) => Some(lower.exprs().all(inside, guard)),
                (inside, guard) => inside.or(guard),
            };
            let index = lower.register_index(own.0, own.1, own.2);
            let op = match update {
                None => Op::Store { to: address, from: Frag { reg, at: index, len: 1 }, guard },
                Some(update) => {
                    let mut beside = |view: &View| lower.own_element(view, own.2);
                    let old = update.old.as_ref().map(&mut beside).map(|(reg, at)| Frag { reg, at, len: 1 });
                    let expected = update.expected.as_ref().map(beside).map(|(reg, at)| Val::Reg(reg, at));
                    let (op, order, scope) = (update.with, update.order, update.scope);
                    Op::Atomic {
                        to: address,
                        op,
                        value: Val::Reg(reg, index),
                        guard,
                        order,
                        scope,
                        old,
                        expected,
                    }
                }
            };
            lower.emit(op);
        })
    }

    /// Shows each element that is in bounds.
    pub(super) fn probe(&mut self, of: &[View], probe: &Probe, known: &ElementFacts) -> Result<()> {
        let (others, own) = refined(&of[1..], &of[0])?;
        let own_leaves = leaves(&own);
        self.loops(&named(extents_of(&own_leaves)), Unroll::Full, &mut |lower, index| {
            let coordinates = lower.coordinates(&own, &own_leaves, index);
            let guard = lower.inside(&known.masks, &coordinates);
            let mut value = |view: &View| {
                let elem = lower.program.tensor(view.tensor).elem;
                let (reg, at) = lower.own_element(view, index);
                let wide = if elem.is_float() { Elem::F64 } else { Elem::I64 };
                lower.converted(Val::Reg(reg, at), elem, wide)
            };
            let values = std::iter::once(&own).chain(&others).map(&mut value).collect();
            lower.emit(Op::Probe { probe: probe.clone(), values, guard });
            Ok(())
        })
    }

    /// For each element of `own`, in registers: its address in memory, and the guard of that address's bounds. Elements out of bounds
    /// of `edges` have no address that matters.
    #[allow(clippy::type_complexity)]
    fn each_address(
        &mut self,
        memory: &View,
        at: &[(u32, View)],
        own: &View,
        claims: &[Vec<Along>],
        edges: &[Vec<Along>],
        each: &mut dyn FnMut(&mut Self, (&View, &[Leaf], &[Ix]), Mem, Option<Ix>),
    ) -> Result<()> {
        self.at_tensor(&memory.name);
        let numbers: Vec<View> = at.iter().map(|(_, view)| view.clone()).collect();
        let (numbers, own) = refined(&numbers, own)?;
        let (own_leaves, memory_leaves) = (leaves(&own), leaves(memory));
        let edges: Vec<Along> = edges.iter().flatten().cloned().collect();
        self.loops(&named(extents_of(&own_leaves)), Unroll::Full, &mut |lower, index| {
            let mut indices = Vec::new();
            for ((number, _), view) in at.iter().zip(&numbers) {
                let tensor = lower.program.tensor(view.tensor);
                let (reg, at_register) = lower.own_element(view, index);
                let value = Val::Reg(reg, at_register);
                // Of several indices, one that is out of bounds suffices.
                if let [edges] = claims {
                    lower.claim(&value, edges, view, index, Number::Int(-1));
                }
                let name = lower.program.reads[*number as usize].name.clone();
                let (taken, value) = lower.taken(&name, value, tensor.elem, Scope::Thread);
                lower.emit(taken);
                lower.scope.reads[*number as usize] = Some(value);
                indices.push(value);
            }
            let first = vec![lower.int(0); memory_leaves.len()];
            let guard = lower.guard(memory, &memory_leaves, &first);
            if let Some(guard) = guard.filter(|_| claims.is_empty()) {
                let coordinates = lower.coordinates(&own, &own_leaves, index);
                lower.indexed(indices, guard, &edges, &coordinates);
            }
            let address = lower.address(memory, &memory_leaves, &first);
            each(lower, (&own, &own_leaves, index), address, guard);
            Ok(())
        })
    }
}
