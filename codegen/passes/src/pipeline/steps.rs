//! Loops over k-steps whose copies load fragments from shared memory to registers: software pipelining one
//! level down. With two slots of registers (double buffering) the fragments of the next k-step are loaded
//! while this one's are multiplied.
//!
//! A single loop loads ahead within itself. If an iteration over tiles consists of this loop, both loops are one
//! pipeline over all k-steps of all tiles: the first fragments of the next tile are loaded before the last k-step
//! of this tile, so that no tile begins with the latency of shared memory.
//!
//! ```text
//! for k in pipelined(0..n, stages = 3) {          wait; barrier; fa[0] <- k-step 0 of tile 0
//!     copy(ga[(_, _, k)], sa);                    for k in 0..n {
//!     for kk in pipelined(0..4, stages = 2) {         fa[1] <- k-step 1
//!         copy(sa[(_, kk)], fa);                      copies of tile k + 2; commit
//!         gemm(fa, …);                                gemm(fa[0])
//!     }                                               for kk in 0..2 {
//! }                                                       fa[kk % 2] <- k-step kk + 2
//!                                                         gemm(fa[(kk + 1) % 2])
//!                                                     }
//!                                                     wait; barrier; fa[0] <- k-step 0 of tile k + 1
//!                                                     gemm(fa[1])
//!                                                 }
//! ```
//!
//! The slots of a ring that other threads fill are treated in the same way: a slot is released as soon as its last fragments
//! have been loaded, and the first fragments of the next slot are loaded before the last k-step of this slot.
//!
//! ```text
//! for k in 0..n {                                 await the slot; fa[0] <- k-step 0
//!     await a slot of the ring                    for k in 0..n {
//!     for kk in pipelined(0..4, stages = 2) {         for kk in 0..2 {
//!         copy(s[(_, kk, slot)], fa);                     fa[(kk + 1) % 2] <- k-step kk + 1
//!         gemm(fa, …);                                    gemm(fa[kk % 2])
//!     }                                               }
//!     release the slot; advance                       fa[1] <- k-step 3
//! }                                                   release the slot; advance
//!                                                     gemm(fa[0])
//!                                                     if k + 1 < n { await the slot; fa[0] <- k-step 0 }
//!                                                     gemm(fa[1])
//!                                                 }
//! ```

use tilewright_layout::{Composed, Layout, Value};

use super::fetches::{Fetches, Level};
use super::schedule::{Schedule, Slot};
use crate::source::problem::{Problem, Result};
use crate::thread::{Id, Unroll};
use crate::tile::visit::{self, preorder};
use crate::tile::{Ahead, Op, Past, Program, Stmt};
use crate::values::affine::{Affine, Coord};
use crate::values::condition::Test;

/// Slots of registers.
pub(super) const SLOTS: i64 = 2;

/// A loop over k-steps.
pub(super) struct Steps {
    pub(super) var: Id,
    pub(super) count: i64,
    /// Loads of fragments.
    pub(super) loads: Vec<Stmt>,
    /// The statements that use them.
    pub(super) work: Vec<Stmt>,
    /// The span and the group for new statements.
    pub(super) like: Stmt,
    pub(super) ahead: bool,
    /// Is the loop over tiles left at the end of K, and where?
    pub(super) exit: Option<Exit>,
}

/// A register tensor with a last mode for its slots, one after the other.
pub(super) fn with_slots(tensor: &Composed, slots: i64) -> Result<Composed> {
    let apart = tensor.cosize()?;
    Ok(tensor.map(|layout| {
        let slot = Layout::new(slots, apart)?;
        Layout::from_modes(layout.modes().chain([slot]))
    })?)
}

/// Why a loop cannot pipeline fragments.
pub(super) fn unfit(program: &Program, stmt: &Stmt) -> Option<Problem> {
    let Op::For { var, ahead: Some(Ahead { stages, fragments, .. }), .. } = &stmt.op else { return None };
    let of = &program.vars[*var as usize];
    if !matches!(of.extent(), Some(Value::Int(1..))) {
        let (name, extent) = (&of.name, crate::tile::verify::text(program, &of.to));
        let extent = extent.trim_matches('`');
        let message = format!(
            "`{name}` runs over {extent} k-steps, and registers are indexed by numbers that are known while compiling"
        );
        return Some(
            Problem::new(message).help("pipeline a loop of known length, such as that over a tile's k-steps"),
        );
    }
    if *fragments > 1 || i64::from(*stages) > SLOTS {
        let message = format!(
            "this loop loads fragments from shared memory to registers, which takes 1 or {SLOTS} stages, and it has {stages} stages and {fragments} fragments"
        );
        return Some(Problem::new(message).help(format!("write stages = {SLOTS}")));
    }
    None
}

impl Steps {
    /// The loop of a statement, if it is one that loads fragments.
    pub(super) fn of(program: &Program, stmt: &Stmt) -> Result<Option<Steps>> {
        let Op::For { var, ahead: Some(ahead), body, .. } = &stmt.op else { return Ok(None) };
        let fetches = Fetches::of(program, *var, ahead, body);
        if fetches.level != Level::Fragments {
            return Ok(None);
        }
        let Some(Value::Int(count)) = program.vars[*var as usize].extent() else { return Ok(None) };
        let registers = fetches.tensors(body);
        let mut body = body.clone();
        if ahead.stages > 1 {
            let step = Affine::from(Coord::Var(*var));
            visit::each_mut(&mut body, &mut |stmt| {
                for view in stmt.views_mut().into_iter().filter(|view| registers.contains(&view.tensor)) {
                    view.at_slot(&step, SLOTS);
                }
            });
        }
        let (loads, work): (Vec<Stmt>, Vec<Stmt>) = body.into_iter().partition(|stmt| fetches.takes(stmt));
        let like = Stmt { op: Op::Sync, ..stmt.clone() };
        // Edges and coordinates of elements are analysed per statement in terms of the loop's variable, which k-steps
        // that are written out replace.
        let follows = preorder(&work).any(|stmt| stmt.needs_coordinates());
        Ok(Some(Steps {
            var: *var,
            count,
            loads,
            work,
            like,
            ahead: ahead.stages > 1 && !follows,
            exit: None,
        }))
    }

    /// Do the last k-step and the first k-step of the next tile use different slots?
    pub(super) fn fill_both_slots(&self) -> bool {
        self.ahead && self.count % SLOTS == 0
    }

    fn statement(&self, op: Op) -> Stmt {
        Stmt { op, ..self.like.clone() }
    }

    /// Statements of one k-step.
    fn at(&self, body: &[Stmt], step: &Affine) -> Result<Vec<Stmt>> {
        let mut body = body.to_vec();
        let this = Coord::Var(self.var);
        let far = || Problem::new("a coordinate passes 63 bits");
        visit::substitute(&mut body, &this, step).ok_or_else(far)?;
        Ok(body)
    }

    /// The k-steps below `last`: each loads the fragments of the next k-step and does its own work. The first also does
    /// `early` in between, and the last does `late`.
    fn up_to(
        &self,
        schedule: &mut Schedule,
        last: i64,
        early: Vec<Stmt>,
        late: Vec<Stmt>,
    ) -> Result<Vec<Stmt>> {
        let one = |at: Affine, others: Vec<Stmt>| -> Result<Vec<Stmt>> {
            let next = at.plus(&1.into(), 1).unwrap_or_default();
            let mut all = self.at(&self.loads, &next)?;
            all.extend(others);
            all.extend(self.at(&self.work, &at)?);
            if let Some(exit) = &self.exit {
                all.push(self.statement(exit.before(&next)?));
            }
            Ok(all)
        };
        if last == 1 {
            return one(0.into(), [early, late].concat());
        }
        // K-steps with other statements are peeled off the loop.
        let (mut first, end) = (i64::from(!early.is_empty()), last - i64::from(!late.is_empty()));
        let mut body = if first > 0 { one(0.into(), early)? } else { Vec::new() };
        if end - first == 1 {
            body.extend(one(first.into(), Vec::new())?);
            first = end;
        }
        if end > first {
            let name = schedule.program.vars[self.var as usize].name.clone();
            let var = schedule.var(&name, Value::Int(end - first));
            let at = Affine::from(Coord::Var(var)).plus(&first.into(), 1).unwrap_or_default();
            let repeated = one(at, Vec::new())?;
            // Unrolled: registers have no addresses.
            body.push(self.statement(Op::For { var, unroll: Unroll::Full, ahead: None, body: repeated }));
        }
        if end < last {
            body.extend(one(end.into(), late)?);
        }
        Ok(body)
    }

    /// The loop on its own.
    pub(super) fn alone(&self, schedule: &mut Schedule) -> Result<Vec<Stmt>> {
        if !self.ahead || self.count == 1 {
            let body = [&self.loads[..], &self.work[..]].concat();
            return Ok(vec![self.statement(Op::For {
                var: self.var,
                unroll: Unroll::Full,
                ahead: None,
                body,
            })]);
        }
        let last = self.count - 1;
        let first = self.at(&self.loads, &0.into())?;
        let middle = self.up_to(schedule, last, Vec::new(), Vec::new())?;
        Ok([first, middle, self.at(&self.work, &last.into())?].concat())
    }

    /// The k-steps of each slot that a loop over `var` goes through, with the next one's fragments always loaded ahead,
    /// also across slots: the statements before the loop, and its body.
    pub(super) fn over_slots(
        &self,
        schedule: &mut Schedule,
        var: Id,
        slot: Slot,
    ) -> Result<(Vec<Stmt>, Vec<Stmt>)> {
        let Slot { full, early, late, done, past } = slot;
        let last = self.count - 1;
        let before = self.first(schedule, var, 0.into(), past, &full)?;
        let mut body = self.up_to(schedule, last, early, late)?;
        body.extend(done);
        let next = Affine::from(Coord::Var(var)).plus(&1.into(), 1).unwrap_or_default();
        body.extend(self.first(schedule, var, next, past, &full)?);
        body.extend(self.at(&self.work, &last.into())?);
        Ok((before, body))
    }

    /// Waits until the slot of iteration `at` is full, and loads its first fragments. If these are loaded in every
    /// iteration, unpredicated, the wait is unpredicated too.
    fn first(
        &self,
        schedule: &mut Schedule,
        var: Id,
        at: Affine,
        past: Past,
        full: &Stmt,
    ) -> Result<Vec<Stmt>> {
        let next = schedule.var_like(var, "next");
        let (this, other) = (Coord::Var(var), Coord::Var(next));
        let mut body = self.at(&self.loads, &0.into())?;
        for base in body.iter_mut().flat_map(Stmt::views_mut).flat_map(|view| &mut view.base) {
            *base = base.replaced(&this, &other);
        }
        let mut full = full.clone();
        let is_predicated = past == Past::Skip;
        let slot = if is_predicated { other.into() } else { at.clone() };
        if let Op::Await { phase, .. } = &mut full.op {
            *phase = phase.with(&this, &slot).unwrap_or_default();
        }
        if is_predicated {
            body.insert(0, full);
            return Ok(vec![self.statement(Op::Step { var: next, at, past, body })]);
        }
        Ok(vec![full, self.statement(Op::Step { var: next, at, past, body })])
    }
}

/// An exit test after each k-step of a product: its loop is left at the end of K. The test also keeps the compiler from
/// interleaving k-steps.
pub(super) struct Exit {
    /// The loop over tiles.
    pub(super) of: Id,
    /// Where an iteration's tile begins along K.
    pub(super) begin: Affine,
    /// The distance of k-steps.
    pub(super) apart: i64,
    /// The extent of K.
    pub(super) extent: Value,
}

impl Exit {
    /// Leaves the loop if a k-step begins at the end of K or later.
    fn before(&self, k_step: &Affine) -> Result<Op> {
        let left = self.begin.plus(k_step, self.apart);
        let left = left.ok_or_else(|| Problem::new("a coordinate passes 63 bits"))?;
        Ok(Op::Leave { of: self.of, test: Test::Less(left, self.extent.into()).negated() })
    }
}

/// The loop of a statement whose iterations wait for a slot of a ring, multiply it, and release it, with fragments loaded
/// ahead across slots; `None` if it is another one.
pub(super) fn over_ring(schedule: &mut Schedule, stmt: &Stmt) -> Result<Option<Vec<Stmt>>> {
    let Op::For { var, unroll: Unroll::No, ahead: None, body } = &stmt.op else { return Ok(None) };
    let [full, product, release, advance] = &body[..] else { return Ok(None) };
    let Some(steps) = Steps::of(&schedule.program, product)?.filter(Steps::fill_both_slots) else {
        return Ok(None);
    };
    match (&full.op, &release.op, &advance.op) {
        (Op::Await { ring, .. }, Op::Release { ring: released, .. }, Op::Advance { ring: advanced })
            if ring == released && ring == advanced =>
        {
            let slot = Slot {
                full: full.clone(),
                early: Vec::new(),
                late: vec![release.clone(), advance.clone()],
                done: Vec::new(),
                past: Past::Skip,
            };
            let (before, body) = steps.over_slots(schedule, *var, slot)?;
            let looped = Op::For { var: *var, unroll: Unroll::No, ahead: None, body };
            Ok(Some([before, vec![Stmt { op: looped, ..stmt.clone() }]].concat()))
        }
        _ => Ok(None),
    }
}
