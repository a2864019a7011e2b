//! Mutations that text cannot express: changes of a tile program that keep it valid.

use tilewright_codegen::Elem;
use tilewright_codegen::affine::{Affine, Coord};
use tilewright_codegen::condition::Test;
use tilewright_codegen::thread::{Bin, Id, Unroll};
use tilewright_codegen::tile::{Across, Ahead, Expr, How, Op, Past, Program, Space, Split, Stmt, Submodes};
use tilewright_layout::Value;

use crate::random::Random;

/// One change. Statements are counted in program order, each before those inside it.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A reduction across a warp goes across this many lanes.
    Lanes(usize, Across),
    /// A swizzle of all thread numbers.
    Swizzled((u32, u32, i32)),
    /// A copy by another mechanism.
    How(usize, How),
    /// A copy with another fill.
    Filled(usize, f64),
    /// A loop, unrolled.
    Unrolled(usize, Unroll),
    /// A statement under a condition on coordinates.
    If(usize, Affine, Value),
    /// A statement under a condition on a scalar, and perhaps in its other arm.
    When(usize, Expr, bool),
    /// A function that adds a coordinate of an input.
    Coordinate(usize, u8, u8),
    /// The source of a copy is clamped along a mode.
    Clamped(usize, usize),
    /// A loop replaced by single iterations, some of them out of range.
    Steps(usize, Vec<(i64, Past)>),
    /// An early exit of a loop, before the statement at this position of its body.
    Leave(usize, usize, i64, i64),
    /// Blocks in clusters; the source of a copy depends on the rank, with this stride along a mode.
    Cluster(usize, usize, i64, [u32; 3]),
    /// A permutation of the modes of all views of a statement.
    Permuted(usize, Vec<usize>),
}

/// Removes facts that a front end derived from the whole program, which may be false for a changed one.
pub fn drop_claims(program: &mut Program) {
    for stmt in &mut program.body {
        stmt.each_mut(&mut |stmt| {
            if let Op::Pipelined { ahead: Ahead { split: split @ Split::Threads, .. }, .. } = &mut stmt.op {
                *split = Split::Whole;
            }
        });
    }
}

impl Change {
    /// Applies it. A change that no longer fits the program has no effect.
    pub fn apply(&self, program: &mut Program) {
        match self {
            Change::Swizzled(parts) => return swizzle(program, *parts),
            Change::Cluster(_, _, _, cluster) => {
                program.cluster = *cluster;
                program.arch = program.arch.max(90);
            }
            _ => {}
        }
        let (vars, mut left) = (program.vars.clone(), self.position());
        let elems: Vec<_> = program.tensors.iter().map(|tensor| tensor.elem).collect();
        let mut body = std::mem::take(&mut program.body);
        at(&mut body, &mut left, &mut |list, position| {
            let extent = |var: Id| vars.get(var as usize).and_then(|var| var.extent()?.int());
            self.change(list, position, &extent, &elems);
        });
        program.body = body;
    }

    /// The same for a statement that moved forward by this much.
    pub fn earlier(&self, by: usize) -> Change {
        let mut moved = self.clone();
        match &mut moved {
            Change::Swizzled(_) => {}
            Change::Lanes(at, _)
            | Change::How(at, _)
            | Change::Filled(at, _)
            | Change::Unrolled(at, _)
            | Change::If(at, ..)
            | Change::When(at, ..)
            | Change::Coordinate(at, ..)
            | Change::Clamped(at, _)
            | Change::Steps(at, _)
            | Change::Leave(at, ..)
            | Change::Cluster(at, ..)
            | Change::Permuted(at, _) => *at = at.saturating_sub(by),
        }
        moved
    }

    fn position(&self) -> usize {
        match self {
            Change::Swizzled(_) => usize::MAX,
            Change::Lanes(at, _)
            | Change::How(at, _)
            | Change::Filled(at, _)
            | Change::Unrolled(at, _)
            | Change::If(at, ..)
            | Change::When(at, ..)
            | Change::Coordinate(at, ..)
            | Change::Clamped(at, _)
            | Change::Steps(at, _)
            | Change::Leave(at, ..)
            | Change::Cluster(at, ..)
            | Change::Permuted(at, _) => *at,
        }
    }

    fn change(
        &self,
        list: &mut Vec<Stmt>,
        position: usize,
        extent: &dyn Fn(Id) -> Option<i64>,
        elems: &[Elem],
    ) {
        let stmt = &mut list[position];
        let (span, by) = (stmt.span, stmt.by);
        match (self, &mut stmt.op) {
            (Change::Lanes(_, lanes), Op::Reduce { across: across @ Across::Warp(_), .. }) => {
                *across = *lanes;
            }
            (Change::How(_, new), Op::Copy { how, .. }) => *how = *new,
            (Change::Filled(_, new), Op::Copy { fill, .. }) => *fill = (*new).into(),
            (Change::Unrolled(_, new), Op::For { unroll, .. }) => *unroll = *new,
            (Change::Coordinate(_, input, mode), Op::Map { ins, to, value }) => {
                let known =
                    ins.get(usize::from(*input)).is_some_and(|view| usize::from(*mode) < view.base.len());
                if known {
                    let coordinate = Expr::Coord(*input, *mode).cast(elems[to.tensor as usize]);
                    *value = Expr::Bin(Bin::Add, Box::new(value.clone()), Box::new(coordinate));
                }
            }
            (Change::Clamped(_, mode), Op::Copy { from, .. }) if *mode < from.base.len() => {
                *from = from.clone().clamped(*mode);
            }
            (Change::Cluster(_, mode, by, _), Op::Copy { from, .. }) if *mode < from.base.len() => {
                if let Some(moved) = from.base[*mode].plus(&Coord::ClusterRank.into(), *by) {
                    from.base[*mode] = moved;
                }
            }
            (Change::If(_, left, right), _) => {
                let then = vec![stmt.clone()];
                let op = Op::If { test: Test::less(left.clone(), *right), then, other: Vec::new() };
                *stmt = Stmt::new(span, by, op);
            }
            (Change::When(_, cond, both), _) => {
                let then = vec![stmt.clone()];
                let other = if *both { then.clone() } else { Vec::new() };
                *stmt = Stmt::new(span, by, Op::If { test: Test::IsTrue(cond.clone()), then, other });
            }
            (Change::Steps(_, iterations), Op::For { var, body, .. }) if extent(*var).is_some() => {
                let (var, body) = (*var, body.clone());
                let one = |(at, past): &(i64, Past)| {
                    let op = Op::Step { var, at: (*at).into(), past: *past, body: body.clone() };
                    Stmt::new(span, by, op)
                };
                let all: Vec<Stmt> = iterations.iter().map(one).collect();
                list.splice(position..=position, all);
            }
            (Change::Leave(_, before, more, end), Op::For { var, body, .. }) if *before <= body.len() => {
                if let Some(left) = Affine::from(Coord::Var(*var)).plus(&(*more).into(), 1) {
                    let op = Op::Leave { of: *var, test: Test::less(left, *end).negated() };
                    body.insert(*before, Stmt::new(span, by, op));
                }
            }
            (Change::Permuted(_, order), _) => {
                for view in stmt.views_mut() {
                    if let Ok(permuted) = view.permute(order) {
                        *view = permuted;
                    }
                }
            }
            _ => {}
        }
    }
}

/// Finds the statement with this number.
fn at(list: &mut Vec<Stmt>, left: &mut usize, visit: &mut dyn FnMut(&mut Vec<Stmt>, usize)) -> bool {
    for position in 0..list.len() {
        if *left == 0 {
            visit(list, position);
            return true;
        }
        *left -= 1;
        if list[position].bodies_mut().into_iter().any(|body| at(body, left, visit)) {
            return true;
        }
    }
    false
}

fn swizzle(program: &mut Program, parts: (u32, u32, i32)) {
    let (this, by) = (Coord::Thread(0), Coord::Swizzled(0, parts));
    for stmt in &mut program.body {
        stmt.each_mut(&mut |stmt| {
            for view in stmt.views_mut() {
                for base in &mut view.base {
                    *base = base.replaced(&this, &by);
                }
                for (origin, _) in view.limits.iter_mut().flatten() {
                    *origin = origin.replaced(&this, &by);
                }
            }
        });
    }
}

/// A statement of a program, and its context.
struct Site<'p> {
    stmt: &'p Stmt,
    /// Loop variables around it.
    vars: Vec<Id>,
    /// Is it inside a pipelined loop?
    ahead: bool,
    /// Was its target written before?
    again: bool,
}

fn sites(program: &Program) -> Vec<Site<'_>> {
    fn walk<'p>(body: &'p [Stmt], vars: &[Id], ahead: bool, seen: &mut Vec<Id>, to: &mut Vec<Site<'p>>) {
        for stmt in body {
            let again = stmt.writes().into_iter().any(|view| seen.contains(&view.tensor));
            to.push(Site { stmt, vars: vars.to_vec(), ahead, again });
            seen.extend(stmt.writes().into_iter().map(|view| view.tensor));
            let mut inner = vars.to_vec();
            let runs_ahead = matches!(stmt.op, Op::Pipelined { .. });
            if let Op::For { var, .. } | Op::Pipelined { var, .. } = &stmt.op {
                inner.push(*var);
            }
            for body in stmt.bodies() {
                walk(body, &inner, ahead || runs_ahead, seen, to);
            }
        }
    }
    let mut all = Vec::new();
    walk(&program.body, &[], false, &mut Vec::new(), &mut all);
    all
}

/// Changes for a program.
pub fn draw(program: &Program, random: &mut Random) -> Vec<Change> {
    let sites = sites(program);
    if sites.is_empty() {
        return Vec::new();
    }
    let mut all = Vec::new();
    for _ in 0..random.weighted(&[(4, 1), (4, 2), (2, 3)]) {
        // The first that fits the program, within a few tries.
        let visit = (0..30).find_map(|_| {
            let at = random.below(sites.len());
            one(program, &sites[at], at, random)
        });
        all.extend(visit);
    }
    // Positions refer to the original program, so changes are applied from last to first.
    all.sort_by_key(|change: &Change| std::cmp::Reverse(change.position()));
    all.dedup_by_key(|change| change.position());
    all
}

fn one(program: &Program, site: &Site<'_>, at: usize, random: &mut Random) -> Option<Change> {
    let space = |tensor: Id| program.tensor(tensor).space;
    let is_global = |tensor: Id| matches!(space(tensor), Space::Global { .. });
    let is_shared = |tensor: Id| matches!(space(tensor), Space::Shared { .. });
    let threads = program.threads();
    let roll = random.below(14);
    Some(match (roll, &site.stmt.op) {
        // There are few of them.
        (0..12, Op::Reduce { across: Across::Warp(_), .. }) => {
            let submodes =
                |submodes: &[(i64, i64)]| Submodes::new(submodes).map_or(Across::Thread, Across::Submodes);
            let mut all = [1, 2, 4, 8, 16].map(Across::Warp).to_vec();
            all.extend([&[(2, 16)][..], &[(4, 8)], &[(2, 1), (2, 8)], &[(8, 2)]].map(submodes));
            if threads.is_multiple_of(64) {
                all.extend(
                    [&[(2, 32)][..], &[(64, 1)], &[(4, 4), (2, 32)], &[(2, 16), (2, 32)]].map(submodes),
                );
            }
            Change::Lanes(at, random.pick(&all))
        }
        (0, _) if threads.is_multiple_of(4) && random.chance(30) => {
            let bits = random.within(1, 2) as u32;
            let (base, shift) = (random.below(2) as u32, bits as i32);
            let reach = 1 << (bits + base + bits);
            if !threads.is_multiple_of(reach) {
                return None;
            }
            Change::Swizzled((bits, base, if random.chance(25) { -shift } else { shift }))
        }
        (3, Op::Copy { from, to, .. }) if is_global(from.tensor) && !is_shared(to.tensor) => {
            // Some plain copies are realigned: the draws of earlier seeds do not change.
            match random.pick(&[How::Here, How::Plain, How::Staged]) {
                How::Plain if at % 2 == 1 => Change::How(at, How::Realigned),
                how => Change::How(at, how),
            }
        }
        (4, Op::Copy { from, to, how: How::Derive, .. })
            if is_global(from.tensor) && is_shared(to.tensor) =>
        {
            Change::How(at, How::Async)
        }
        (5, Op::Copy { from, to, .. }) if is_global(from.tensor) && !is_shared(to.tensor) => {
            Change::Filled(at, random.pick(&[1.0, 2.0, 3.0]))
        }
        (2..=6, Op::For { var, .. }) => {
            let extent = program.vars[*var as usize].extent().and_then(|n| n.int());
            let full = extent.is_some_and(|n| n <= 4) && random.chance(20);
            Change::Unrolled(at, if full { Unroll::Full } else { Unroll::By(random.pick(&[2, 3, 4])) })
        }
        (7, op) if movable(site, op, &is_shared) => {
            let mut coords: Vec<Coord> = (0..3)
                .filter(|&axis| program.grid[usize::from(axis)].is_some_and(|n| n != Value::Int(1)))
                .map(Coord::Block)
                .collect();
            coords.extend(site.vars.iter().map(|&var| Coord::Var(var)));
            if coords.is_empty() {
                return None;
            }
            let of = Affine::from(random.pick(&coords));
            let of = match random.below(3) {
                0 => of.submode(1, Some(2)),
                1 => of.plus(&random.within(-2, 1).into(), 1)?,
                _ => of,
            };
            Change::If(at, of, Value::Int(random.within(0, 2)))
        }
        (8, op) if movable(site, op, &is_shared) => {
            // Numbers of 16 bits are no conditions of CUDA C yet.
            let scalars = program.scalars.iter().enumerate();
            let conditions = scalars.filter(|(_, scalar)| scalar.elem.bytes() != 2);
            let conditions: Vec<Id> = conditions.map(|(id, _)| id as Id).collect();
            if conditions.is_empty() {
                return None;
            }
            Change::When(at, Expr::Scalar(random.pick(&conditions)), random.chance(30))
        }
        (9, Op::Map { ins, to, .. }) if !ins.is_empty() => {
            let elem = program.tensor(to.tensor).elem;
            let input = random.below(ins.len());
            if elem.bytes() < 4 {
                return None;
            }
            Change::Coordinate(at, input as u8, random.below(ins[input].base.len()) as u8)
        }
        (10, Op::Copy { from, .. }) if is_global(from.tensor) => {
            Change::Clamped(at, random.below(from.base.len()))
        }
        (11, Op::For { var, body, .. }) => {
            let extent = program.vars[*var as usize].extent().and_then(|n| n.int()).filter(|&n| n <= 4)?;
            if body.len() > 12 {
                return None;
            }
            let past = |random: &mut Random, iteration: i64| match iteration < extent {
                true => random.pick(&[Past::Skip, Past::Last, Past::Anyway, Past::Inside]),
                false => random.pick(&[Past::Skip, Past::Last]),
            };
            let iterations = random.within(1, extent + 1);
            Change::Steps(at, (0..iterations).map(|iteration| (iteration, past(random, iteration))).collect())
        }
        (12, Op::For { body, .. }) if !site.ahead => {
            // Not between a copy and its wait.
            let waits = body.iter().any(|stmt| matches!(stmt.op, Op::WaitCopies { .. }));
            let before = if waits { 0 } else { random.below(body.len() + 1) };
            Change::Leave(at, before, random.within(-1, 1), random.within(0, 3))
        }
        (13, Op::Copy { from, .. }) if is_global(from.tensor) => {
            let cluster = random.pick(&[[2, 1, 1], [2, 1, 1], [1, 2, 1]]);
            if program.cluster != [1; 3] {
                return None;
            }
            let mode = random.below(from.base.len());
            let by = random.pick(&[1, 2, -1, 16]);
            Change::Cluster(at, mode, by, cluster)
        }
        (0 | 1, Op::Copy { to, .. } | Op::Map { to, .. }) if to.rank() > 1 => {
            let order: Vec<usize> = (0..to.rank()).collect();
            let all = site.stmt.reads();
            if all.iter().any(|view| view.rank() != to.rank()) {
                return None;
            }
            Change::Permuted(at, random.shuffled(&order))
        }
        _ => return None,
    })
}

/// Can a statement be omitted without an uninitialised read?
fn movable(site: &Site<'_>, op: &Op, is_shared: &dyn Fn(Id) -> bool) -> bool {
    let [to, ..] = site.stmt.writes()[..] else { return false };
    if is_shared(to.tensor) {
        return false;
    }
    match op {
        Op::Copy { .. } | Op::Map { .. } => site.again,
        Op::Gemm { .. } | Op::Reduce { .. } | Op::Fold { .. } | Op::Scan { .. } => true,
        _ => false,
    }
}
