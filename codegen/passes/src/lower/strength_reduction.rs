//! Strength reduction of induction variables: indices that are affine in a loop's variable, such as where the
//! next tile begins. Instead of a multiplication in each iteration, a variable is initialised before the loop
//! and incremented at the end of each iteration.

use super::Lower;
use crate::thread::index::{Int, Ix};
use crate::thread::{Id, Op, Stmt, Val};

/// A loop.
#[derive(Default)]
pub(super) struct Loop {
    /// Variables from this id on are named inside.
    first: Id,
    /// Induction variables, with their first value and their step.
    pub(super) inductions: Vec<(Id, Induction)>,
}

/// An affine function of the iteration: its value in the first one, its step, and whether computing it takes
/// a multiplication.
#[derive(Clone, Copy)]
pub(super) struct Induction {
    pub(super) start: Ix,
    pub(super) step: Ix,
    multiplies: bool,
}

impl Lower<'_> {
    /// Reduces indices in the body of a loop, given its variable and where that begins. Returns the
    /// statements that initialise them before the loop.
    pub(super) fn reduce_strength(&mut self, var: Id, start: Ix, body: &mut Vec<Stmt>) -> Vec<Stmt> {
        let (mut looped, mut before) = (self.looped(var, start), Vec::new());
        self.reduce_names(&mut looped, body, &mut before);
        for stmt in body {
            if let Op::If { cond: Val::Int(cond, _), then, other } = &mut stmt.op
                && other.is_empty()
                && self.remains_false(&looped, *cond)
            {
                self.reduce_names(&mut looped, then, &mut before);
            }
        }
        before
    }

    /// The loop over a variable that begins at `start`.
    pub(super) fn looped(&mut self, var: Id, start: Ix) -> Loop {
        let induction = Induction { start, step: self.int(1), multiplies: false };
        Loop { first: var, inductions: vec![(var, induction)] }
    }

    /// Reduces the names of one list of statements that runs in every iteration, or in the first iterations.
    fn reduce_names(&mut self, looped: &mut Loop, list: &mut Vec<Stmt>, before: &mut Vec<Stmt>) {
        let mut after = Vec::new();
        list.retain(|stmt| {
            let Op::Let(id, value) = stmt.op else { return true };
            // A loop inside changes it: it begins anew in each iteration of this one.
            if self.kernel.vars[id as usize].mutable {
                return true;
            }
            let Some(induction) = self.induction(looped, value) else { return true };
            looped.inductions.push((id, induction));
            if !induction.multiplies || self.kernel.vars[id as usize].wide {
                return true;
            }
            self.kernel.vars[id as usize].mutable = true;
            before.push(Stmt { site: stmt.site, op: Op::Let(id, induction.start) });
            let known = self.kernel.exprs.get(value).clone();
            let now = self.exprs().leaf(Int::Var(id), known.lo, known.hi, known.multiple, known.same_for);
            let next = self.exprs().add(now, induction.step);
            // One iteration past the last, the offset is one tile out of bounds; facts about offsets include that.
            for part in [induction.start, induction.step, next] {
                self.exprs().assume(part, i64::from(i32::MIN), i64::from(i32::MAX));
            }
            after.push(Stmt { site: stmt.site, op: Op::Set(id, next) });
            false
        });
        list.extend(after);
    }

    /// Does a condition that is false stay false in all later iterations?
    fn remains_false(&mut self, looped: &Loop, cond: Ix) -> bool {
        let Int::Lt(left, right) = self.kernel.exprs.get(cond).int else { return false };
        match (self.induction(looped, left), self.induction(looped, right)) {
            (Some(left), Some(right)) => {
                self.kernel.exprs.get(left.step).lo >= 0 && self.kernel.exprs.constant(right.step) == Some(0)
            }
            _ => false,
        }
    }

    /// An expression as an affine function of the iteration, if it is one.
    pub(super) fn induction(&mut self, looped: &Loop, at: Ix) -> Option<Induction> {
        let zero = self.int(0);
        let invariant = Induction { start: at, step: zero, multiplies: false };
        let int = self.kernel.exprs.get(at).int.clone();
        if let Int::Var(id) = int {
            let changes = self.kernel.vars[id as usize].mutable;
            let outside = !changes && (id < looped.first || self.named.iter().any(|(_, named)| *named == id));
            let known =
                looped.inductions.iter().find(|(known, _)| *known == id).map(|(_, induction)| *induction);
            return known.or(outside.then_some(invariant));
        }
        let parts = int.parts();
        // The constants in a product have names in its operands.
        let names: Vec<_> =
            parts.iter().flat_map(|&part| self.kernel.exprs.get(part).names.clone()).collect();
        let parts = parts.into_iter().map(|part| self.induction(looped, part)).collect::<Option<Vec<_>>>()?;
        let is_invariant = |induction: &Induction| self.kernel.exprs.constant(induction.step) == Some(0);
        if parts.iter().all(is_invariant) {
            return Some(invariant);
        }
        let (&[a, b], false) = (&parts[..], matches!(int, Int::Mul(..)) && !parts.iter().any(is_invariant))
        else {
            return None;
        };
        let (a_is_invariant, multiplies) = (is_invariant(&a), a.multiplies || b.multiplies);
        let e = self.exprs();
        Some(match int {
            Int::Add(..) => {
                Induction { start: e.add(a.start, b.start), step: e.add(a.step, b.step), multiplies }
            }
            Int::Sub(..) => {
                Induction { start: e.sub(a.start, b.start), step: e.sub(a.step, b.step), multiplies }
            }
            Int::Mul(..) => {
                let step = if a_is_invariant { e.mul(a.start, b.step) } else { e.mul(a.step, b.start) };
                let start = e.mul(a.start, b.start);
                for name in names {
                    e.name_stride(start, &name);
                    e.name_stride(step, &name);
                }
                Induction { start, step, multiplies: true }
            }
            _ => return None,
        })
    }
}
