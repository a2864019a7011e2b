//! Loops over k-steps whose copies load fragments from shared memory to registers: software pipelining one
//! level down. With two slots of registers (double buffering) the fragments of the next k-step are loaded
//! while those of this one are multiplied.
//!
//! On its own, a loop runs ahead within itself. If it is all that an iteration over tiles does, both loops
//! are one pipeline over all k-steps of all tiles: the first fragments of the next tile are loaded before the
//! last k-step of this one, so that no tile begins with the latency of shared memory.
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
//! The same holds for the slots of a ring that other threads fill: a slot is released as soon as its last fragments
//! have been loaded, and the first ones of the next slot are loaded before the last k-step of this one.
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

use super::{Level, Write, fetched, fetches};
use crate::affine::{Affine, Coord};
use crate::problem::{Problem, Result};
use crate::thread::{Id, Unroll};
use crate::tile::{Ahead, Op, Past, Program, Stmt, Var};

/// Slots of registers.
const SLOTS: i64 = 2;

/// A loop over k-steps.
pub(super) struct Steps {
    var: Id,
    count: i64,
    /// Loads of fragments.
    loads: Vec<Stmt>,
    /// The statements that use them.
    work: Vec<Stmt>,
    /// The span and the group for new statements.
    like: Stmt,
    ahead: bool,
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
    let Op::Pipelined { var, ahead: Ahead { stages, fragments, .. }, .. } = &stmt.op else { return None };
    let of = &program.vars[*var as usize];
    if !matches!(of.extent(), Some(Value::Int(1..))) {
        let (name, extent) = (&of.name, crate::verify::text(program, &of.to));
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
        let Op::Pipelined { var, ahead, body } = &stmt.op else { return Ok(None) };
        if Level::of(program, body) != Level::Fragments {
            return Ok(None);
        }
        let Some(Value::Int(count)) = program.vars[*var as usize].extent() else { return Ok(None) };
        let registers = fetched(program, body, Level::Fragments);
        let mut body = body.clone();
        if ahead.stages > 1 {
            let slot = Affine::from(Coord::Var(*var)).digit(1, Some(SLOTS));
            for stmt in &mut body {
                stmt.each_mut(&mut |stmt| {
                    for view in stmt.views_mut().into_iter().filter(|view| registers.contains(&view.tensor)) {
                        view.base.push(slot.clone());
                        view.limits.push(None);
                    }
                });
            }
        }
        let (loads, work): (Vec<Stmt>, Vec<Stmt>) =
            body.into_iter().partition(|stmt| fetches(program, stmt, Level::Fragments));
        let like = Stmt { op: Op::Sync, ..stmt.clone() };
        // Edges and coordinates of elements are found per statement in terms of the loop's variable, which k-steps that
        // are written out replace.
        let mut follows = false;
        work.iter().for_each(|stmt| stmt.each(&mut |stmt| follows |= stmt.needs_coordinates()));
        Ok(Some(Steps { var: *var, count, loads, work, like, ahead: ahead.stages > 1 && !follows }))
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
        let set = |at: &mut Affine| -> Result<()> {
            *at = at.with(&this, step).ok_or_else(|| Problem::new("a coordinate passes 63 bits"))?;
            Ok(())
        };
        let mut done = Ok(());
        for stmt in &mut body {
            stmt.each_mut(&mut |stmt| {
                let mut one = || -> Result<()> {
                    let mut far = Ok(());
                    stmt.each_integer_mut(&mut |at| {
                        if far.is_ok() {
                            far = set(at);
                        }
                    });
                    far?;
                    for view in stmt.views_mut() {
                        view.base.iter_mut().try_for_each(set)?;
                        view.limits.iter_mut().flatten().try_for_each(|(origin, _)| set(origin))?;
                    }
                    Ok(())
                };
                if let Err(problem) = one() {
                    done = Err(problem);
                }
            });
        }
        done.map(|()| body)
    }

    /// The k-steps below `last`: each loads the next one's fragments and does its own work. The first also
    /// does `others`, in between.
    fn up_to(&self, write: &mut Write, last: i64, others: Vec<Stmt>) -> Result<Vec<Stmt>> {
        let one = |at: Affine, others: Vec<Stmt>| -> Result<Vec<Stmt>> {
            let next = at.plus(&1.into(), 1).unwrap_or_default();
            Ok([self.at(&self.loads, &next)?, others, self.at(&self.work, &at)?].concat())
        };
        // The first is peeled off the loop if it has `others`.
        let mut first = i64::from(!others.is_empty()).min(last);
        let mut body = if first > 0 { one(0.into(), others)? } else { Vec::new() };
        if last - first == 1 {
            body.extend(one(first.into(), Vec::new())?);
            first = last;
        }
        if last > first {
            let name = write.program.vars[self.var as usize].name.clone();
            let var = write.var(&name, Value::Int(last - first));
            let at = Affine::from(Coord::Var(var)).plus(&first.into(), 1).unwrap_or_default();
            let repeated = one(at, Vec::new())?;
            // Unrolled: registers have no addresses.
            body.push(self.statement(Op::For { var, unroll: Unroll::Full, body: repeated }));
        }
        Ok(body)
    }

    /// The loop on its own.
    pub(super) fn alone(&self, write: &mut Write) -> Result<Vec<Stmt>> {
        if !self.ahead || self.count == 1 {
            let body = [&self.loads[..], &self.work[..]].concat();
            return Ok(vec![self.statement(Op::For { var: self.var, unroll: Unroll::Full, body })]);
        }
        let last = self.count - 1;
        let first = self.at(&self.loads, &0.into())?;
        let middle = self.up_to(write, last, Vec::new())?;
        Ok([first, middle, self.at(&self.work, &last.into())?].concat())
    }

    /// An iteration of the loop over tiles whose variable is `var`: k-steps with the next one's fragments
    /// always loaded ahead. `early` are copies of a later tile, `late` their shared stores, `wait` makes the
    /// next tile visible.
    pub(super) fn iteration(
        &self,
        write: &mut Write,
        var: Id,
        [early, late, wait]: [Vec<Stmt>; 3],
    ) -> Result<Vec<Stmt>> {
        let last = self.count - 1;
        let next = Affine::from(Coord::Var(var)).plus(&1.into(), 1).unwrap_or_default();
        let body = self.up_to(write, last, early)?;
        let first = self.first(write, var, next)?;
        Ok([body, late, wait, vec![first], self.at(&self.work, &last.into())?].concat())
    }

    /// Loads the first fragments of tile `at`, clamped to the last one.
    pub(super) fn first(&self, write: &mut Write, var: Id, at: Affine) -> Result<Stmt> {
        self.first_after(write, var, at, (Past::Last, Vec::new()))
    }

    /// The same after other statements.
    fn first_after(
        &self,
        write: &mut Write,
        var: Id,
        at: Affine,
        (past, before): (Past, Vec<Stmt>),
    ) -> Result<Stmt> {
        let Var { name, to, .. } = &write.program.vars[var as usize];
        let (name, to) = (format!("{name}_next"), to.clone());
        let next = write.var(&name, to);
        let mut body = [before, self.at(&self.loads, &0.into())?].concat();
        for view in body.iter_mut().flat_map(Stmt::views_mut) {
            for base in &mut view.base {
                *base = base.replaced(&Coord::Var(var), &Coord::Var(next));
            }
        }
        Ok(self.statement(Op::Step { var: next, at, past, body }))
    }

    /// A loop over slots of a ring whose iterations multiply one slot each.
    fn over_slots(&self, write: &mut Write, var: Id, slot: &Slot, looped: &Stmt) -> Result<Vec<Stmt>> {
        let last = self.count - 1;
        let next = Affine::from(Coord::Var(var)).plus(&1.into(), 1).unwrap_or_default();
        let mut body = self.up_to(write, last - 1, Vec::new())?;
        body.extend(self.at(&self.loads, &last.into())?);
        body.extend(slot.done.clone());
        body.extend(self.at(&self.work, &(last - 1).into())?);
        let first =
            |write: &mut Write, at| self.first_after(write, var, at, (Past::Skip, vec![slot.full.clone()]));
        body.push(first(write, next)?);
        body.extend(self.at(&self.work, &last.into())?);
        let before = first(write, 0.into())?;
        Ok(vec![before, Stmt { op: Op::For { var, unroll: Unroll::No, body }, ..looped.clone() }])
    }
}

/// What a loop over slots of a ring does around a product: it waits until the slot is full, and releases it.
struct Slot {
    full: Stmt,
    done: Vec<Stmt>,
}

/// The loop of a statement whose iterations wait for a slot of a ring, multiply it, and release it, with fragments loaded
/// ahead across slots; `None` if it is another one.
pub(super) fn over_ring(write: &mut Write, stmt: &Stmt) -> Result<Option<Vec<Stmt>>> {
    let Op::For { var, unroll: Unroll::No, body } = &stmt.op else { return Ok(None) };
    let [full, product, release, advance] = &body[..] else { return Ok(None) };
    let Some(steps) = Steps::of(&write.program, product)?.filter(Steps::fill_both_slots) else {
        return Ok(None);
    };
    match (&full.op, &release.op, &advance.op) {
        (Op::Await { ring, .. }, Op::Release { ring: released, .. }, Op::Advance { ring: advanced })
            if ring == released && ring == advanced =>
        {
            let slot = Slot { full: full.clone(), done: vec![release.clone(), advance.clone()] };
            steps.over_slots(write, *var, &slot, stmt).map(Some)
        }
        _ => Ok(None),
    }
}
