//! Updates of memory that threads or blocks share: atomic read-modify-writes, elements that threads wait for, flags that blocks
//! signal and wait for, and cluster barriers.

use super::Lower;
use super::numbering::{extents_of, named};
use crate::source::problem::Result;
use crate::thread::{Change, Cmp, Frag, MemoryOrder, Op, Scope, Stmt, Unroll, Val};
use crate::tile::pair::align;
use crate::tile::view::View;
use crate::tile::view::leaf::leaves;
use crate::tile::{Space, Update};
use crate::values::affine::Affine;
use crate::values::number::{self, Number};

impl Lower<'_> {
    /// Updates each element of `to` with the corresponding element of `from`; out-of-bounds elements are
    /// skipped.
    pub(super) fn atomic(&mut self, from: &View, to: &View, update: &Update) -> Result<()> {
        let program = self.program;
        let (source, target) = (program.tensor(from.tensor), program.tensor(to.tensor));
        self.at_tensor(&target.name);
        let pair = align(from, to)?;
        let (from_leaves, to_leaves) = (leaves(&pair.from), leaves(&pair.to));
        let beside = |view: &Option<View>| match view {
            Some(view) => align(view, to).map(|pair| Some((leaves(&pair.from), pair.from))),
            None => Ok(None),
        };
        let (old, expected) = (beside(&update.old)?, beside(&update.expected)?);
        let verb = Change::ALL.iter().find(|row| row.1 == update.with).map_or("", |row| row.0);
        self.comment(match update.with {
            Change::Await => format!("waits for {}, {}", to.name, pair.to.shape()),
            _ => format!("{} <- {} of {}, {}", to.name, verb, from.name, pair.to.shape()),
        });
        let in_registers = matches!(source.space, Space::Registers { .. });
        let reg = match in_registers {
            true => self.storage[from.tensor as usize],
            false => self.scratch(&to.name, source.elem, 1),
        };
        let walked = named(extents_of(&to_leaves));
        // Loads of several elements are in flight together before a thread waits for one of them.
        let several = pair.to.layout.size() != Ok(1);
        let looks = update.with == Change::Await && !update.order.acquires() && several;
        if let Some((leaves, view)) = old.as_ref().filter(|_| looks) {
            let least = Number::Int(number::range(target.elem).0);
            self.loops(&walked, Unroll::Full, &mut |lower, at| {
                let guard = lower.guard(&pair.to, &to_leaves, at);
                let to = lower.address(&pair.to, &to_leaves, at);
                let at = lower.register_index(view, leaves, at);
                let old = Some(Frag { reg: lower.storage[view.tensor as usize], at, len: 1 });
                let (value, order, scope) = (Val::Lit(least, target.elem), update.order, update.scope);
                let (op, expected) = (Change::Await, None);
                lower.emit(Op::Atomic { to, op, value, guard, order, scope, old, expected });
                Ok(())
            })?;
        }
        self.loops(&walked, Unroll::Full, &mut |lower, at| {
            let mut guard = lower.guard(&pair.to, &to_leaves, at);
            let address = lower.address(&pair.to, &to_leaves, at);
            let index = match in_registers {
                true => lower.register_index(&pair.from, &from_leaves, at),
                false => {
                    let zero = lower.int(0);
                    let inside = lower.guard(&pair.from, &from_leaves, at);
                    let from = lower.address(&pair.from, &from_leaves, at);
                    let to = Frag { reg, at: zero, len: 1 };
                    // The others are loaded as 0, which changes minima, maxima and replaced elements, but no sum.
                    if !matches!(update.with, Change::Add | Change::Sub | Change::Or | Change::Xor) {
                        guard = match (guard, inside) {
                            (Some(a), Some(b)) => Some(lower.exprs().all(a, b)),
                            (one, other) => one.or(other),
                        };
                    }
                    lower.emit(Op::Load { to, from, guard: inside, fill: 0.0.into(), volatile_at: None });
                    zero
                }
            };
            let value = lower.converted(Val::Reg(reg, index), source.elem, target.elem);
            let old = old.as_ref().map(|(leaves, view)| Frag {
                reg: lower.storage[view.tensor as usize],
                at: lower.register_index(view, leaves, at),
                len: 1,
            });
            let expected = expected.as_ref().map(|(leaves, view)| {
                let at = lower.register_index(view, leaves, at);
                Val::Reg(lower.storage[view.tensor as usize], at)
            });
            let (order, scope) = (update.order, update.scope);
            let missing = old.filter(|_| looks).map(|old| {
                let seen = Val::Reg(old.reg, old.at);
                Val::Cmp(Cmp::Lt, Box::new(seen), Box::new(value.clone()))
            });
            let op = Op::Atomic { to: address, op: update.with, value, guard, order, scope, old, expected };
            let site = lower.scope.site;
            lower.emit(match missing {
                Some(cond) => Op::If { cond, then: vec![Stmt { site, op }], other: Vec::new() },
                None => op,
            });
            Ok(())
        })
    }

    /// One thread updates a flag, after a barrier of the group: other blocks see what the group did before. Or one thread
    /// waits for a flag, and the group waits for that thread at a barrier.
    pub(super) fn flag(&mut self, flag: &View, op: Change, value: &Affine) -> Result<()> {
        let all = leaves(flag);
        let first = vec![self.int(0); all.len()];
        let guard = self.guard(flag, &all, &first);
        let to = self.address(flag, &all, &first);
        let value = Val::Int(self.affine(value), self.program.tensor(flag.tensor).elem);
        let waits = op == Change::Await;
        let order = if waits { MemoryOrder::Acquire } else { MemoryOrder::Release };
        let (scope, old, expected) = (Scope::Grid, None, None);
        if !waits {
            self.meet(self.scope.by);
        }
        self.elect(vec![Op::Atomic { to, op, value, guard, order, scope, old, expected }]);
        if waits {
            self.meet(self.scope.by);
        }
        Ok(())
    }

    /// A barrier of all threads of the cluster. A block may be a cluster by itself.
    pub(super) fn meet_cluster(&mut self) {
        if self.program.cluster == [1; 3] {
            return self.meet(0);
        }
        let bar = self.bar_of_cluster();
        self.emit(Op::sync(bar));
    }
}
