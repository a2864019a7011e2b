//! How the copies of a pipelined loop fill a slot ahead of its iteration: asynchronously, or through registers, split into
//! loads and stores.

use tilewright_layout::{Layout, Tiler, Tuple, Value};

use super::schedule::Schedule;
use crate::source::problem::{Problem, Result};
use crate::thread::{Id, Unroll};
use crate::tile::view::{At, View};
use crate::tile::visit::each_mut;
use crate::tile::{How, Op, Past, Space, Stmt, Tensor};
use crate::values::affine::{Affine, Coord};

/// Elements of a thread in flight through registers, beside accumulators and fragments.
const IN_FLIGHT: i64 = 32;
/// Elements of a batch, if there are more: addresses of 64 bits take registers as well.
const BATCH: i64 = 16;

/// The copies that fill a slot.
pub(super) struct Fill {
    /// The iteration whose tiles are copied.
    var: Id,
    /// Asynchronous copies, and loads of copies through registers.
    pub(super) issue: Vec<Stmt>,
    /// Shared stores of copies through registers.
    pub(super) land: Vec<Stmt>,
}

impl Fill {
    /// The copies of a loop, for any iteration. If the loop is `crowded`, copies through registers are loaded and stored
    /// in batches.
    pub(super) fn new(
        schedule: &mut Schedule,
        mut copies: Vec<Stmt>,
        var: Id,
        crowded: bool,
    ) -> Result<Fill> {
        let iteration = schedule.var_like(var, "ahead");
        let (this, other) = (Coord::Var(var), Coord::Var(iteration));
        each_mut(&mut copies, &mut |stmt| {
            at_iteration(stmt, &this, &other);
            if let Op::For { var: inner, .. } = stmt.op {
                let inner = &mut schedule.program.vars[inner as usize];
                for end in [&mut inner.from, &mut inner.to] {
                    *end = end.replaced(&this, &other);
                }
            }
        });
        let mut fill = Fill { var: iteration, issue: Vec::new(), land: Vec::new() };
        for stmt in copies {
            fill.add(schedule, stmt, crowded)?;
        }
        Ok(fill)
    }

    /// A part of the copies of iteration `at`, unless it is empty.
    pub(super) fn step(&self, at: &Affine, past: Past, body: &[Stmt]) -> Option<Op> {
        let step = || Op::Step { var: self.var, at: at.clone(), past, body: body.to_vec() };
        (!body.is_empty()).then(step)
    }

    /// Adds a copy. A copy through registers is split into its loads, which are issued early, and its stores to
    /// shared memory, which come late.
    fn add(&mut self, schedule: &mut Schedule, stmt: Stmt, crowded: bool) -> Result<()> {
        let Op::Copy { from, to, how: How::Staged, fill, token } = stmt.op else {
            self.issue.push(stmt);
            return Ok(());
        };
        let tensor = schedule.program.tensor(to.tensor);
        let Some(extents) = to.extents() else {
            let message = format!(
                "`{}` is filled through registers, and its shape {} is known at launch only",
                to.name,
                to.shape()
            );
            return Err(Problem::new(message).help("use a tile whose extents are integers"));
        };
        let copy = |from, to, fill| {
            let op = Op::Copy { from, to, how: How::Plain, fill, token };
            Stmt::new(stmt.span, stmt.by, op)
        };
        if crowded {
            let copy = |from, to| copy(from, to, fill);
            self.issue.push(in_batches(schedule, [&from, &to], &extents, copy)?);
            return Ok(());
        }
        let shape = Tuple::flat(&extents);
        let (name, elem, span) = (format!("{}_in_flight", to.name), tensor.elem, tensor.span);
        let fragment = View::whole(schedule.program.tensors.len() as Id, &name, &shape)?;
        let space = Space::Registers { words: false };
        let layout = Layout::compact(shape)?.into();
        schedule.program.tensors.push(Tensor { name, elem, space, layout, span });
        self.issue.push(copy(from, fragment.clone(), fill));
        self.land.push(copy(fragment, to, 0.0.into()));
        Ok(())
    }
}

/// A copy as a loop over parts of a few elements, along the longest run of equal steps: adjacent elements, such as a
/// vector's, remain together.
fn in_batches(
    schedule: &mut Schedule,
    both: [&View; 2],
    extents: &[i64],
    copy: impl FnOnce(View, View) -> Stmt,
) -> Result<Stmt> {
    let all: i64 = extents.iter().product();
    let mut runs = Vec::new();
    for mode in 0..extents.len() {
        let last =
            |view: &View| Ok(view.layout.mode(mode)?.leaves().last().and_then(|(extent, _)| extent.int()));
        let [from, to]: [Result<Option<i64>>; 2] = both.map(last);
        let (from, to) = (from?.unwrap_or(1), to?.unwrap_or(1));
        runs.push((1..=from).rev().find(|n| from % n == 0 && to % n == 0).unwrap_or(1));
    }
    let longest = (0..runs.len()).rev().max_by_key(|&mode| runs[mode]).unwrap_or(0);
    let extent = runs.get(longest).copied().unwrap_or(1);
    let fits = |count: &i64| extent % count == 0 && all / count <= BATCH;
    let count = (1..=extent).find(fits).unwrap_or(extent);
    let var = schedule.var("batch", Value::Int(count));
    let tiler = (0..extents.len()).map(|mode| extents[mode] / if mode == longest { count } else { 1 });
    let tiler = Tiler::Modes(tiler.map(Into::into).collect());
    let at = |mode: usize| if mode == longest { Coord::Var(var).into() } else { Affine::default() };
    let at: Vec<At> = (0..extents.len()).map(|mode| At::Index(at(mode))).collect();
    let [from, to] = both.map(|view| view.tile(&tiler, &at));
    let part = copy(from?, to?);
    let (span, by) = (part.span, part.by);
    Ok(Stmt::new(span, by, Op::For { var, unroll: Unroll::No, ahead: None, body: vec![part] }))
}

/// Do copies through registers have too many elements in flight for fragments loaded ahead to fit beside them?
pub(super) fn crowds(copies: &[Stmt]) -> bool {
    copies.iter().map(in_flight).sum::<i64>() > IN_FLIGHT
}

/// Elements that a copy through registers has in flight in each thread.
fn in_flight(stmt: &Stmt) -> i64 {
    match &stmt.op {
        Op::Copy { to, how: How::Staged, .. } => to.extents().map_or(0, |all| all.iter().product()),
        _ => 0,
    }
}

/// Rewrites a copy of one iteration as a copy of another.
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
