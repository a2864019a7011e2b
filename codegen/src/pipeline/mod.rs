//! Software pipelining of loops with multistage shared memory. An iteration copies tiles from global to
//! shared memory and works on them; expanded, copies of later iterations are in flight while one works:
//!
//! ```text
//! for k in pipelined(0..n, stages = 3) {      copies of iteration 0; commit
//!     copy(ga[(_, _, k)], sa);                copies of iteration 1; commit
//!     gemm(sa, …);                            for k in 0..n {
//! }                                               wait until at most 1 group is in flight; barrier
//!                                                 if k + 2 < n { copies of iteration k + 2 }; commit
//!                                                 gemm(sa[(_, _, k % 3)], …)
//!                                             }
//! ```
//!
//! Each shared tensor that the loop fills gets a mode for its slots. The barrier ensures both that other
//! threads' copies have landed and that they no longer read the slot that is filled next. Groups are
//! committed on every path, so their count identifies the iteration in flight.
//!
//! Where an iteration is one product, whose k-steps can come in any order, and tiles do not divide K, the
//! partial K tile comes first: only the copies in the prologue then depend on where K ends.
//!
//! Copies through registers are split: their loads are issued early, and their stores come late. Many of them beside
//! fragments that are loaded ahead would not fit in registers, so they are loaded and stored in batches, and the
//! fragments of a tile are loaded ahead within that tile only.
//!
//! A pipelined loop may also copy from shared memory to registers: fragments of the next k-step are loaded
//! while those of this one are multiplied. Inside a loop that copies the tiles, both are one pipeline; see
//! `steps`.

mod fragments;
mod reads;
mod steps;

use std::borrow::Cow;

use tilewright_layout::{Composed, Layout, Tiler, Tuple, Value};

use crate::affine::{Affine, Coord};
use crate::ast::Span;
use crate::diagnostic::Diagnostic;
use crate::problem::{Problem, Result};
use crate::thread::{Id, Unroll};
use crate::tile::{Ahead, How, LaunchRule, Op, Past, Program, Space, Stmt, Tensor};
use crate::view::{At, View};
use fragments::Product;
use steps::Steps;

/// More stages than this hide no more latency.
const MOST_STAGES: u32 = 16;

/// Elements of a thread in flight through registers, beside accumulators and fragments.
const IN_FLIGHT: i64 = 32;
/// Elements of a batch, if there are more: addresses of 64 bits take registers as well.
const BATCH: i64 = 16;

/// The program with its pipelined loops expanded.
pub fn expand(program: &Program) -> std::result::Result<Cow<'_, Program>, Diagnostic> {
    let mut buffers = Vec::new();
    for stmt in &program.body {
        find(program, stmt, &mut buffers)?;
    }
    if buffers.is_empty() {
        return Ok(Cow::Borrowed(program));
    }
    for stmt in &program.body {
        alone(program, stmt, &buffers, &[])?;
    }
    let mut slots: Vec<(Id, i64)> = Vec::new();
    for (id, stages) in &buffers {
        match slots.iter_mut().find(|(known, _)| known == id) {
            Some((_, most)) => *most = (*most).max(*stages),
            None => slots.push((*id, *stages)),
        }
    }
    slots.retain(|(_, stages)| *stages > 1);
    let mut written = program.clone();
    for (id, stages) in &slots {
        let tensor = &mut written.tensors[*id as usize];
        let slots = match tensor.space {
            Space::Registers { .. } => steps::with_slots(&tensor.layout, *stages),
            _ => with_slots(&tensor.layout, *stages),
        };
        tensor.layout = slots.map_err(|problem| problem.at(tensor.span))?;
    }
    let body = without_annotations(std::mem::take(&mut written.body));
    let mut write = Write { program: written, slots, used: Vec::new() };
    let body = write.body(body, false)?;
    write.program.body = body;
    Ok(Cow::Owned(write.program))
}

/// Statements that make code. Coordinates are followed before loops are lowered.
fn without_annotations(mut body: Vec<Stmt>) -> Vec<Stmt> {
    body.retain(|stmt| !matches!(stmt.op, Op::Follows { .. } | Op::Holds { .. }));
    for stmt in &mut body {
        for inner in stmt.bodies_mut() {
            *inner = without_annotations(std::mem::take(inner));
        }
    }
    body
}

/// A shared layout with a last mode for its slots. A slot is a multiple of the swizzle's period, and aligned
/// for wide accesses.
///
/// ```
/// use tilewright_codegen::pipeline::with_slots;
/// use tilewright_layout::layout;
/// let tile = layout!((128, 8) : (1, 129));
/// assert_eq!(with_slots(&tile.into(), 3)?.to_string(), "(128,8,3):(1,129,1032)");
/// # Ok::<(), tilewright_codegen::problem::Problem>(())
/// ```
pub fn with_slots(tile: &Composed, stages: i64) -> Result<Composed> {
    let swizzle = tile.swizzle();
    let block = (1i64 << (swizzle.base() + swizzle.bits() + swizzle.shift().unsigned_abs())).max(4);
    let apart = (tile.cosize()? + block - 1) / block * block;
    Ok(tile.map(|layout| {
        let slot = Layout::new(stages, apart)?;
        Layout::from_modes(layout.modes().chain([slot]))
    })?)
}

/// What a pipelined loop fetches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// Tiles, from global to shared memory.
    Tiles,
    /// Fragments, from shared memory to registers.
    Fragments,
}

impl Level {
    /// What the loop of this body fetches: tiles, unless it copies none.
    fn of(program: &Program, body: &[Stmt]) -> Level {
        let copies = |level| body.iter().any(|stmt| fetches(program, stmt, level));
        match !copies(Level::Tiles) && copies(Level::Fragments) {
            true => Level::Fragments,
            false => Level::Tiles,
        }
    }

    /// Does a copy fetch that?
    fn takes(self, program: &Program, [from, to]: [&View; 2], how: &How) -> bool {
        match (self, program.tensor(from.tensor).space, program.tensor(to.tensor).space) {
            (Level::Tiles, Space::Global { .. }, Space::Shared { .. }) => {
                matches!(how, How::Derive | How::Async | How::Staged)
            }
            (Level::Fragments, Space::Shared { .. }, Space::Registers { .. }) => {
                !matches!(how, How::Async | How::Staged)
            }
            _ => false,
        }
    }
}

/// Does this statement only copy what a loop of this level fetches?
fn fetches(program: &Program, stmt: &Stmt, level: Level) -> bool {
    match &stmt.op {
        Op::Copy { from, to, how, token: None, .. } => level.takes(program, [from, to], how),
        Op::For { body, .. } => !body.is_empty() && body.iter().all(|stmt| fetches(program, stmt, level)),
        Op::If { then, other, .. } | Op::When { then, other, .. } => {
            then.len() + other.len() > 0 && then.iter().chain(other).all(|stmt| fetches(program, stmt, level))
        }
        _ => false,
    }
}

/// The tensors that a loop's body fetches.
fn fetched(program: &Program, body: &[Stmt], level: Level) -> Vec<Id> {
    let mut all = Vec::new();
    for stmt in body.iter().filter(|stmt| fetches(program, stmt, level)) {
        stmt.each(&mut |stmt| all.extend(stmt.writes().into_iter().map(|to| to.tensor)));
    }
    all
}

/// Why no loop can be pipelined like this.
pub(crate) fn unfit(ahead: &Ahead) -> Option<Problem> {
    let Ahead { stages, fragments, .. } = *ahead;
    let message = match (stages, fragments) {
        (1, 2) => {
            "`fragments = 2` loads across the barrier between two iterations, and needs two stages".into()
        }
        (_, 0 | 3..) => format!("a pipelined loop has 1 or 2 fragments, and this one {fragments}"),
        _ if !(1..=MOST_STAGES).contains(&stages) => {
            let problem = Problem::new(format!(
                "a pipelined loop has 1 to {MOST_STAGES} stages, and this one {stages}"
            ));
            return Some(problem.help("write stages = 3: more only take shared memory"));
        }
        _ => return None,
    };
    Some(Problem::new(message).help("write stages = 3, fragments = 2"))
}

/// Checks the pipelined loops of a statement and lists what they fill, with the number of stages.
fn find(program: &Program, stmt: &Stmt, found: &mut Vec<(Id, i64)>) -> std::result::Result<(), Diagnostic> {
    if let Op::Pipelined { ahead: ahead @ Ahead { stages, .. }, body, .. } = &stmt.op {
        if let Some(problem) = unfit(ahead) {
            return Err(problem.at(stmt.span));
        }
        let buffers = fetched(program, body, Level::of(program, body));
        if buffers.is_empty() {
            let problem = Problem::new("this pipelined loop copies nothing from global to shared memory");
            return Err(problem.help("write a plain loop, or copy its tiles in its body").at(stmt.span));
        }
        check(program, body, &buffers, *stages).map_err(|(problem, span)| problem.at(span))?;
        if Level::of(program, body) == Level::Fragments {
            steps::unfit(program, stmt).map_or(Ok(()), |problem| Err(problem.at(stmt.span)))?;
        }
        found.extend(buffers.iter().map(|id| (*id, i64::from(*stages))));
    }
    stmt.bodies().into_iter().flatten().try_for_each(|stmt| find(program, stmt, found))
}

/// Checks that the copies of this body can be issued ahead of its other statements.
fn check(
    program: &Program,
    body: &[Stmt],
    buffers: &[Id],
    stages: u32,
) -> std::result::Result<(), (Problem, Span)> {
    let name = |view: &View| &program.tensor(view.tensor).name;
    let mut refusal: Option<(Problem, Span)> = None;
    let mut refuse = |problem: Problem, span: Span| {
        refusal.get_or_insert((problem, span));
    };
    let level = Level::of(program, body);
    for (place, stmt) in body.iter().enumerate() {
        let ahead = fetches(program, stmt, level);
        stmt.each(&mut |inner| match &inner.op {
            Op::Copy { from, to, .. } if ahead => {
                let (source, target) = (program.tensor(from.tensor), program.tensor(to.tensor));
                if source.elem != target.elem && level == Level::Tiles {
                    let problem = Problem::new(format!(
                        "`{}` holds {} and `{}` holds {}: a copy in flight cannot convert",
                        source.name, source.elem, target.name, target.elem
                    ));
                    let help = format!("make `{}` of {}, and convert where it is read", target.name, source.elem);
                    refuse(problem.help(help), inner.span);
                }
                let mut written = false;
                body.iter().for_each(|other| {
                    other.each(&mut |s| written |= s.writes().into_iter().any(|to| to.tensor == from.tensor));
                });
                if written && stages > 1 {
                    let problem = Problem::new(format!(
                        "`{}` is written in the loop that fetches it: copies of later iterations run ahead",
                        source.name
                    ));
                    refuse(problem.help("write a plain loop"), inner.span);
                }
            }
            Op::WaitCopies { .. } | Op::CommitCopies if level == Level::Tiles => {
                let problem = Problem::new("a pipelined loop waits for its copies by itself");
                refuse(problem.help("leave the wait out"), inner.span);
            }
            _ => {
                let written = inner.writes().into_iter().find(|to| buffers.contains(&to.tensor) && !ahead);
                if let Some(to) = written {
                    let problem = Problem::new(format!(
                        "`{}` is filled by the copies of a pipelined loop, and written here as well",
                        name(to)
                    ));
                    refuse(problem.help("use another tensor for it"), inner.span);
                }
                let later = fetched(program, &body[place..], level);
                if let Some(from) = inner.reads().into_iter().find(|from| later.contains(&from.tensor)) {
                    let problem = Problem::new(format!(
                        "`{}` is read here before the copy that fills it: an iteration sees only its own copies",
                        name(from)
                    ));
                    refuse(problem.help("copy first, then read"), inner.span);
                }
            }
        });
    }
    refusal.map_or_else(|| reads::check(program, body), Err)
}

/// Checks that what a pipelined loop fills is used in such loops only.
fn alone(
    program: &Program,
    stmt: &Stmt,
    buffers: &[(Id, i64)],
    inside: &[Id],
) -> std::result::Result<(), Diagnostic> {
    let views = stmt.reads().into_iter().chain(stmt.writes());
    for view in views.filter(|view| buffers.iter().any(|(id, _)| *id == view.tensor)) {
        if !inside.contains(&view.tensor) {
            let name = &program.tensor(view.tensor).name;
            let problem =
                Problem::new(format!("`{name}` is filled by a pipelined loop, and used outside of it"));
            return Err(problem.help("use another shared tensor here").at(stmt.span));
        }
    }
    let inside = match &stmt.op {
        Op::Pipelined { body, .. } => [inside, &fetched(program, body, Level::of(program, body))].concat(),
        _ => inside.to_vec(),
    };
    stmt.bodies().into_iter().flatten().try_for_each(|stmt| alone(program, stmt, buffers, &inside))
}

/// Expands pipelined loops.
struct Write {
    program: Program,
    /// Tensors with a mode for slots, and how many.
    slots: Vec<(Id, i64)>,
    /// Tensors that an earlier loop has used.
    used: Vec<Id>,
}

impl Write {
    fn body(&mut self, body: Vec<Stmt>, looped: bool) -> std::result::Result<Vec<Stmt>, Diagnostic> {
        let mut all = Vec::new();
        for mut stmt in body {
            // With one block for each tile there is no next tile.
            let persistent = self.program.launch == LaunchRule::Persistent;
            let loops =
                matches!(stmt.op, Op::For { .. }) || (persistent && matches!(stmt.op, Op::Tiles { .. }));
            if let Some(steps) = Steps::of(&self.program, &stmt).map_err(|problem| problem.at(stmt.span))? {
                all.extend(steps.alone(self).map_err(|problem| problem.at(stmt.span))?);
                continue;
            }
            if let Some(ring) = steps::over_ring(self, &stmt).map_err(|problem| problem.at(stmt.span))? {
                all.extend(ring);
                continue;
            }
            if let Op::Pipelined { var, ahead, body } = stmt.op {
                all.extend(self.pipelined(var, ahead, body, looped, (stmt.span, stmt.by))?);
                continue;
            }
            for inner in stmt.bodies_mut() {
                *inner = self.body(std::mem::take(inner), looped || loops)?;
            }
            all.push(stmt);
        }
        Ok(all)
    }

    fn pipelined(
        &mut self,
        var: Id,
        Ahead { stages, fragments, exits, .. }: Ahead,
        body: Vec<Stmt>,
        looped: bool,
        (span, by): (Span, Id),
    ) -> std::result::Result<Vec<Stmt>, Diagnostic> {
        let buffers = fetched(&self.program, &body, Level::Tiles);
        let stmt = |op| Stmt { id: 0, span, by, op };
        let (mut ahead, mut work) = reads::apart(&self.program, body);
        let steps = |write: &Write, work: &[Stmt]| match work {
            [stmt] if stages > 1 => Steps::of(&write.program, stmt).map_err(|problem| problem.at(span)),
            _ => Ok(None),
        };
        let both = steps(self, &work)?.is_some_and(|steps| steps.fill_both_slots());
        // Fragments that are loaded ahead and many elements in flight do not fit in registers together.
        let crowded = both && ahead.iter().map(in_flight).sum::<i64>() > IN_FLIGHT;
        let flat = both && !crowded;
        if !flat {
            work = self.body(work, true)?;
        }
        // A product takes its k-steps in any order. Where tiles do not divide K, the partial one comes first:
        // only the copies in the prologue are predicated then.
        let begin = if fragments == 2 { begin(&self.program, var, &ahead) } else { None };
        if let Some((mode, begin)) = &begin {
            begin_at(&mut ahead, var, *mode, begin);
        }
        let again = buffers.iter().any(|id| self.used.contains(id));
        self.used.extend(&buffers);

        for stmt in work.iter_mut().chain(&mut ahead) {
            self.in_slot(stmt, &buffers, &Coord::Var(var).into(), stages);
        }
        let mut written = Vec::new();
        if again || (looped && stages > 1) {
            // The last iterations of an earlier loop may still be reading.
            written.push(stmt(Op::Sync));
        }
        if stages == 1 {
            ahead.extend([stmt(Op::WaitCopies { pending: 0 }), stmt(Op::Sync)]);
            ahead.append(&mut work);
            ahead.push(stmt(Op::Sync));
            written.push(stmt(Op::For { var, unroll: Unroll::No, body: ahead }));
            return Ok(written);
        }

        let iteration = self.own_iteration(&mut ahead, var);
        let (reads, writes) = self.staged(ahead, crowded).map_err(|problem| problem.at(span))?;
        let step = |at: &Affine, past: Past, body: &[Stmt]| {
            let step = Op::Step { var: iteration, at: at.clone(), past, body: body.to_vec() };
            (!body.is_empty()).then(|| stmt(step))
        };
        // No commit group is in flight if all copies go through registers.
        let mut asynchronous = false;
        for read in &reads {
            read.each(&mut |stmt| asynchronous |= matches!(stmt.op, Op::Copy { how: How::Async, .. }));
        }
        let commit = asynchronous.then(|| stmt(Op::CommitCopies));
        let early = i64::from(stages) - 1;
        for at in 0..early {
            written.extend(step(&at.into(), Past::Skip, &[&reads[..], &writes[..]].concat()));
            written.extend(commit.clone());
        }
        let next = Affine::from(Coord::Var(var)).plus(&early.into(), 1).unwrap_or_default();
        let fetch: Vec<Stmt> = step(&next, Past::Skip, &reads).into_iter().chain(commit).collect();
        // Past the last iteration the registers are stored once more, to a slot that no one reads.
        let late = step(&next, Past::Anyway, &writes);
        let wait = asynchronous.then(|| stmt(Op::WaitCopies { pending: stages - 2 }));
        let wait: Vec<Stmt> = wait.into_iter().chain([stmt(Op::Sync)]).collect();
        let body = if let Some(steps) = steps(self, &work)?.filter(|_| flat) {
            let refused = |problem: Problem| problem.at(span);
            written.extend(wait.clone());
            written.push(steps.first(self, var, 0.into()).map_err(refused)?);
            steps.iteration(self, var, [fetch, late.into_iter().collect(), wait]).map_err(refused)?
        } else if fragments == 2 {
            let refused = |problem: Problem| problem.at(work.first().map_or(span, |stmt| stmt.span));
            let product = Product::of(&mut self.program, &work, exits, begin.map(|(_, begin)| begin))
                .map_err(refused)?;
            written.extend(wait.clone());
            written.push(product.first(self, var, 0.into()).map_err(refused)?);
            product.iteration(self, var, [fetch, late.into_iter().collect(), wait]).map_err(refused)?
        } else {
            wait.into_iter().chain(fetch).chain(work).chain(late).collect()
        };
        written.push(stmt(Op::For { var, unroll: Unroll::No, body }));
        Ok(written)
    }

    /// Accesses to buffers go to the slots of an iteration's tiles.
    fn in_slot(&self, stmt: &mut Stmt, buffers: &[Id], iteration: &Affine, stages: u32) {
        stmt.each_mut(&mut |stmt| {
            for view in stmt.views_mut() {
                if buffers.contains(&view.tensor) && self.slots.iter().any(|(id, _)| *id == view.tensor) {
                    view.base.push(iteration.digit(1, Some(i64::from(stages))));
                    view.limits.push(None);
                }
            }
        });
    }

    /// Gives copies that run ahead an iteration variable of their own.
    fn own_iteration(&mut self, ahead: &mut [Stmt], var: Id) -> Id {
        let of = &self.program.vars[var as usize];
        let (name, to) = (format!("{}_ahead", of.name), of.to.clone());
        let iteration = self.var(&name, to);
        for fetch in ahead {
            fetch.each_mut(&mut |stmt| {
                at_iteration(stmt, &Coord::Var(var), &Coord::Var(iteration));
                if let Op::For { var: inner, .. } = stmt.op {
                    let inner = &mut self.program.vars[inner as usize];
                    for end in [&mut inner.from, &mut inner.to] {
                        *end = end.replaced(&Coord::Var(var), &Coord::Var(iteration));
                    }
                }
            });
        }
        iteration
    }
}

impl Write {
    /// Splits copies through registers into their loads, which are issued early, and their stores to shared
    /// memory, which come late. If `crowded`, they are loaded and stored in batches instead.
    fn staged(&mut self, fetches: Vec<Stmt>, crowded: bool) -> Result<(Vec<Stmt>, Vec<Stmt>)> {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for stmt in fetches {
            let Op::Copy { from, to, how: How::Staged, fill, token } = stmt.op else {
                reads.push(stmt);
                continue;
            };
            let tensor = self.program.tensor(to.tensor);
            let Some(extents) = to.extents() else {
                let message = format!(
                    "`{}` is filled through registers, and its shape {} is known at launch only",
                    to.name,
                    to.shape()
                );
                return Err(Problem::new(message).help("use a tile whose extents are integers"));
            };
            if crowded {
                let copy = |from, to| {
                    let op = Op::Copy { from, to, how: How::Plain, fill, token };
                    Stmt { id: 0, span: stmt.span, by: stmt.by, op }
                };
                reads.push(self.in_batches([&from, &to], &extents, copy)?);
                continue;
            }
            let shape = Tuple::flat(&extents);
            let (name, elem, span) = (format!("{}_in_flight", to.name), tensor.elem, tensor.span);
            let fragment = View::whole(self.program.tensors.len() as Id, &name, &shape)?;
            let space = Space::Registers { words: false };
            let layout = Layout::compact(shape)?.into();
            self.program.tensors.push(Tensor { name, elem, space, layout, span });
            let copy = |from, to, fill| Op::Copy { from, to, how: How::Plain, fill, token };
            reads.push(Stmt { id: 0, span: stmt.span, by: stmt.by, op: copy(from, fragment.clone(), fill) });
            writes.push(Stmt { id: 0, span: stmt.span, by: stmt.by, op: copy(fragment, to, 0.0.into()) });
        }
        Ok((reads, writes))
    }

    /// A copy as a loop over parts of a few elements, along the longest run of equal steps: what is adjacent to it, such
    /// as the elements of a vector, stays together.
    fn in_batches(
        &mut self,
        both: [&View; 2],
        extents: &[i64],
        copy: impl FnOnce(View, View) -> Stmt,
    ) -> Result<Stmt> {
        let all: i64 = extents.iter().product();
        let mut runs = Vec::new();
        for mode in 0..extents.len() {
            let last = |view: &View| {
                Ok(view.layout.mode(mode)?.leaves().last().and_then(|(extent, _)| extent.int()))
            };
            let [from, to]: [Result<Option<i64>>; 2] = both.map(last);
            let (from, to) = (from?.unwrap_or(1), to?.unwrap_or(1));
            runs.push((1..=from).rev().find(|n| from % n == 0 && to % n == 0).unwrap_or(1));
        }
        let longest = (0..runs.len()).rev().max_by_key(|&mode| runs[mode]).unwrap_or(0);
        let extent = runs.get(longest).copied().unwrap_or(1);
        let fits = |count: &i64| extent % count == 0 && all / count <= BATCH;
        let count = (1..=extent).find(fits).unwrap_or(extent);
        let var = self.var("batch", Value::Int(count));
        let tiler = (0..extents.len()).map(|mode| extents[mode] / if mode == longest { count } else { 1 });
        let tiler = Tiler::Modes(tiler.map(Into::into).collect());
        let at = |mode: usize| if mode == longest { Coord::Var(var).into() } else { Affine::default() };
        let at: Vec<At> = (0..extents.len()).map(|mode| At::Index(at(mode))).collect();
        let [from, to] = both.map(|view| view.tile(&tiler, &at));
        let part = copy(from?, to?);
        let (span, by) = (part.span, part.by);
        Ok(Stmt { id: 0, span, by, op: Op::For { var, unroll: Unroll::No, body: vec![part] } })
    }
}

/// Elements that a copy through registers has in flight in each thread.
fn in_flight(stmt: &Stmt) -> i64 {
    match &stmt.op {
        Op::Copy { to, how: How::Staged, .. } => to.extents().map_or(0, |all| all.iter().product()),
        _ => 0,
    }
}

/// Begins at a coordinate of the tensor from which copies fetch, along this mode, whatever the iteration.
fn begin_at(fetches: &mut [Stmt], var: Id, mode: usize, begin: &Coord) {
    for stmt in fetches {
        if let Op::Copy { from, .. } = &mut stmt.op {
            let base = &mut from.base[mode];
            base.terms.retain(|(coord, _)| *coord != Coord::Var(var));
            *base = base.plus(&begin.clone().into(), 1).unwrap_or_default();
        }
    }
}

/// Where every copy fetches the next tile along the same mode of one extent: that mode, and the coordinate at
/// which tiles begin there if the partial tile comes first.
fn begin(program: &Program, var: Id, fetches: &[Stmt]) -> Option<(usize, Coord)> {
    let iteration = Coord::Var(var);
    let one = |stmt: &Stmt| {
        let Op::Copy { from, .. } = &stmt.op else { return None };
        let moves = |mode: &usize| from.base[*mode].any(&|coord| *coord == iteration);
        let mut moved = (0..from.base.len()).filter(moves);
        let (Some(mode), None) = (moved.next(), moved.next()) else { return None };
        let extent = program.tensor(from.tensor).plain().leaves().nth(mode)?.0;
        let Value::Sym { times: 1, of, over: 1 } = extent else { return None };
        let base = &from.base[mode];
        let (_, tile) = *base.terms.iter().find(|(coord, _)| *coord == iteration)?;
        // All of the tile is copied: the other terms of the coordinate must be the digits of a position in
        // it.
        let digits =
            base.terms.iter().filter(|(coord, _)| *coord != iteration).map(|(coord, by)| match coord {
                Coord::Digit { extent, .. } => extent.map(|n| (*by, n)),
                _ => None,
            });
        let steps = from.layout.leaves().filter_map(|(extent, step)| match step {
            Value::Basis { times, path } if usize::from(path.steps()[0]) == mode => {
                Some(extent.int().map(|n| (times, n)))
            }
            _ => None,
        });
        let mut digits: Vec<(i64, i64)> = digits.chain(steps).collect::<Option<_>>()?;
        digits.retain(|(_, n)| *n > 1);
        digits.sort_unstable();
        let place = |below: i64, &(by, n): &(i64, i64)| (by == below).then(|| below.checked_mul(n)).flatten();
        let all = base.constant == 0 && digits.iter().try_fold(1, place) == Some(tile);
        let covers = extent.ceil_div(tile) == program.vars[var as usize].extent();
        let whole = from.limits.get(mode).is_none_or(Option::is_none);
        let begin = Coord::Begin { iteration: Box::new(iteration.clone().into()), of, tile };
        (all && covers && whole).then_some((mode, begin))
    };
    let mut all = fetches.iter().map(one);
    let first = all.next()??;
    all.all(|next| next.as_ref() == Some(&first)).then_some(first)
}

/// Rewrites a copy of one iteration as that of another.
fn at_iteration(stmt: &mut Stmt, this: &Coord, iteration: &Coord) {
    if let Op::Copy { how: how @ How::Derive, .. } = &mut stmt.op {
        *how = How::Async;
    }
    stmt.each_integer_mut(&mut |at| *at = at.replaced(this, iteration));
    for view in stmt.views_mut() {
        for base in &mut view.base {
            *base = base.replaced(this, iteration);
        }
        for (origin, _) in view.limits.iter_mut().flatten() {
            *origin = origin.replaced(this, iteration);
        }
    }
}
