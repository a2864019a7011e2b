//! The distribution of each register tile over threads. Known distributions propagate along statements. Where
//! none is known, the largest statement is distributed for coalesced, vectorized accesses to memory.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_layout::{Distribution, Submode, Value};

use super::part::{self, of_registers, seen};
use super::{Width, extents, words};
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result};
use crate::thread::Id;
use crate::tile::view::View;
use crate::tile::visit::preorder;
use crate::tile::whole;
use crate::tile::{Form, Op, Program, Space, Stmt};
use crate::values::elem::Elem;

/// Bytes of a register, the least that cp.async copies.
pub(super) const WORD: i64 = 4;

type Forms = BTreeMap<Id, Distribution>;

/// Chooses the distribution of every tile in registers.
pub(super) fn choose(
    program: &Program,
    body: &[Stmt],
    mut known: Forms,
    width: Width,
) -> std::result::Result<Forms, Diagnostic> {
    let cooperate = |stmt: &&Stmt| whole::is_cooperative(program, stmt.by, &stmt.op);
    let stmts: Vec<&Stmt> = preorder(body).filter(cooperate).collect();
    // The threads that have a tile: the threads of the statements on it.
    let threads = |id: Id| {
        let uses = |stmt: &&&Stmt| whole::views(&stmt.op).iter().any(|view| view.tensor == id);
        let by = stmts.iter().find(uses).map_or(0, |stmt| stmt.by);
        i64::from(program.groups[by as usize].threads.max(1))
    };
    for (id, form) in &program.forms {
        let tensor = program.tensor(*id);
        let own = match form {
            // A tile of one element is replicated in all threads.
            Form::Open if tensor.plain().size() == Ok(1) => {
                let all = vec![Submode { extent: threads(*id), mode: 0, step: 0 }];
                Ok(Distribution::new(&tile(program, *id), all, Vec::new()))
            }
            Form::Open => continue,
            Form::Sums(mma) => match tile(program, *id)[..] {
                [m, n] => mma.distribution([m, n]),
                _ => Err(Problem::new(format!("`{}` is not a tile of (M, N)", tensor.name))),
            },
        };
        known.insert(*id, own.map_err(|problem| problem.at(tensor.span))?);
    }
    let reduced = stmts.iter().filter(|stmt| matches!(stmt.op, Op::Fold { .. }));
    let reduced = reduced.flat_map(|stmt| stmt.writes()).map(|to| to.tensor).collect();
    let mut indexed = BTreeMap::<Id, BTreeSet<usize>>::new();
    for view in stmts.iter().flat_map(|stmt| whole::views(&stmt.op)) {
        if program.forms.contains_key(&view.tensor) {
            let modes = part::indexed(view, &tile(program, view.tensor));
            indexed.entry(view.tensor).or_default().extend(modes);
        }
    }
    share(&mut indexed, program, &stmts);
    let unpacks = stmts.iter().any(|stmt| whole::unpacks(&stmt.op).is_some());
    let mut choice = Choice { program, width, forms: known, reduced, indexed };
    loop {
        let mut changed = true;
        while changed {
            changed = false;
            for stmt in &stmts {
                let outcome = choice.follow(stmt);
                changed |= outcome.map_err(|problem| super::blamed(program, stmt, problem))?;
            }
        }
        // The largest first: smaller statements mostly follow from it.
        let open = |stmt: &&&Stmt| choice.settles(stmt);
        let first = |stmt: &&&Stmt| (if unpacks { choice.urgency(stmt) } else { 0 }, choice.size(stmt));
        let Some(largest) = stmts.iter().filter(open).max_by_key(first) else { break };
        if !choice.begin(largest).map_err(|problem| super::blamed(program, largest, problem))? {
            break;
        }
    }
    let multiplies = |stmt: &&&Stmt| matches!(&stmt.op, Op::Gemm { .. });
    let operands: BTreeSet<Id> =
        stmts.iter().filter(multiplies).flat_map(|stmt| stmt.reads()).map(|view| view.tensor).collect();
    for stmt in stmts.iter().filter(|stmt| whole::unpacks(&stmt.op).is_some()) {
        let Op::Copy { from, to, .. } = &stmt.op else { continue };
        let known = choice.forms.get(&to.tensor).filter(|known| words::of_words(known).is_some());
        let form = match known {
            Some(known) if operands.contains(&to.tensor) => known.clone(),
            Some(known) => words::in_memory_order(program, from, known),
            None => words::spread(&tile(program, to.tensor), threads(to.tensor)),
        };
        choice.forms.insert(to.tensor, form);
    }
    // Tiles that no statement uses.
    for id in program.forms.keys().filter(|id| !choice.forms.contains_key(id)).collect::<Vec<_>>() {
        let extents = tile(program, *id);
        let order: Vec<usize> = (0..extents.len()).rev().collect();
        choice.forms.insert(*id, Distribution::spread(&extents, &order, 1, threads(*id)));
    }
    Ok(choice.forms)
}

/// Tiles whose elements a statement combines have one distribution, so each thread has all elements of all of them along the modes
/// at which any is indexed.
fn share(indexed: &mut BTreeMap<Id, BTreeSet<usize>>, program: &Program, stmts: &[&Stmt]) {
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for stmt in stmts {
            let views = match &stmt.op {
                Op::Gemm { .. } => continue,
                Op::Fold { from, .. } => from.iter().collect(),
                op => whole::views(op),
            };
            let shown: Vec<(Id, Vec<Option<usize>>)> = views
                .iter()
                .filter(|view| program.forms.contains_key(&view.tensor))
                .filter_map(|view| Some((view.tensor, part::shown(view).ok()?)))
                .collect();
            let of_tile = |(tile, shown): &(Id, Vec<Option<usize>>)| {
                let known = indexed.get(tile)?;
                let is_indexed = |of: &Option<usize>| of.is_some_and(|of| known.contains(&of));
                Some((0..shown.len()).filter(|&mode| is_indexed(&shown[mode])).collect::<Vec<_>>())
            };
            let modes: BTreeSet<usize> = shown.iter().filter_map(of_tile).flatten().collect();
            for (tile, shown) in shown {
                for mode in modes.iter().filter_map(|mode| *shown.get(*mode)?) {
                    changed |= indexed.entry(tile).or_default().insert(mode);
                }
            }
        }
    }
}

struct Choice<'p> {
    program: &'p Program,
    width: Width,
    forms: Forms,
    /// Results of reductions: their distributions are derived from the combined tiles alone.
    reduced: BTreeSet<Id>,
    /// The modes of tiles that statements index: each thread has all elements along them.
    indexed: BTreeMap<Id, BTreeSet<usize>>,
}

impl Choice<'_> {
    fn is_tile(&self, view: &View) -> bool {
        self.program.forms.contains_key(&view.tensor)
    }

    fn is_open(&self, view: &View) -> bool {
        self.is_tile(view) && !self.forms.contains_key(&view.tensor) && !self.reduced.contains(&view.tensor)
    }

    /// Does a statement determine the distribution of an open tile? Products do so for accumulators, and for a left operand
    /// that an instruction takes from registers; other operands follow from the statements that write them.
    fn settles(&self, stmt: &Stmt) -> bool {
        match &stmt.op {
            Op::Gemm { a, acc, .. } => self.is_open(acc) || (self.is_open(a) && self.left(a, acc).is_some()),
            op => whole::views(op).iter().any(|view| self.is_open(view)),
        }
    }

    /// Numbers of four bits are distributed in words, unless a product determines how.
    fn urgency(&self, stmt: &Stmt) -> u32 {
        match &stmt.op {
            Op::Gemm { a, acc, .. } if self.is_open(a) && self.left(a, acc).is_some() => 2,
            op => u32::from(whole::unpacks(op).is_some()),
        }
    }

    /// The distribution of a left operand in registers, as the instruction of some accumulators takes it.
    fn left(&self, a: &View, acc: &View) -> Option<Distribution> {
        let Some(Form::Sums(mma)) = self.program.forms.get(&acc.tensor) else { return None };
        let by_registers = if mma.is_asynchronous() { mma.of_registers()? } else { mma.clone() };
        let extents = extents(a).ok()?;
        // The product reports a shape that does not fit.
        by_registers.left([*extents.first()?, *extents.get(1)?]).ok().flatten()
    }

    /// Elements of a statement, and whether it reads or writes memory.
    fn size(&self, stmt: &Stmt) -> (i64, bool) {
        let views = whole::views(&stmt.op);
        let size = |view: &&View| view.layout.size().unwrap_or(0);
        let memory = views.iter().any(|view| !self.is_tile(view));
        (views.iter().map(size).max().unwrap_or(0), memory)
    }

    /// Propagates a known distribution to the open tiles of a statement. Returns whether there were any.
    fn follow(&mut self, stmt: &Stmt) -> Result<bool> {
        match &stmt.op {
            op if whole::unpacks(op).is_some() => Ok(false),
            Op::Gemm { .. } => Ok(false),
            Op::Scan { from, to, carry, how } => {
                for view in from.iter().chain(to) {
                    let Some(own) = self.forms.get(&view.tensor) else { continue };
                    let Some(all) = seen(view, own)? else { continue };
                    let keep: Vec<bool> =
                        (0..all.tile().len()).map(|mode| !how.modes().contains(&mode)).collect();
                    let any = self.take(&from.iter().chain(to).collect::<Vec<_>>(), &all)?;
                    return Ok(self.take(&carry.iter().collect::<Vec<_>>(), &all.projected(&keep))? || any);
                }
                Ok(false)
            }
            Op::Fold { from, to, .. } => {
                for view in from {
                    let Some(own) = self.forms.get(&view.tensor) else { continue };
                    let Some(all) = seen(view, own)? else { continue };
                    let others = self.take(&from.iter().collect::<Vec<_>>(), &all)?;
                    let rest = all.projected(&kept(view, &to[0])?);
                    return Ok(self.give(&to.iter().collect::<Vec<_>>(), &rest)? || others);
                }
                Ok(false)
            }
            op => {
                let views = whole::views(op);
                for view in views.iter().rev() {
                    let Some(own) = self.forms.get(&view.tensor) else { continue };
                    if let Some(all) = seen(view, own)? {
                        return self.take(&views, &all);
                    }
                }
                Ok(false)
            }
        }
    }

    /// Open tiles of a statement take its distribution.
    fn take(&mut self, views: &[&View], all: &Distribution) -> Result<bool> {
        let open: Vec<&View> = views.iter().copied().filter(|view| self.is_open(view)).collect();
        self.give(&open, all)
    }

    /// Tiles without a distribution get the statement's.
    fn give(&mut self, views: &[&View], all: &Distribution) -> Result<bool> {
        let mut any = false;
        for view in views {
            if self.is_tile(view) && !self.forms.contains_key(&view.tensor) {
                let form = of_registers(view, &tile(self.program, view.tensor), all, None)?;
                self.forms.insert(view.tensor, form);
                any = true;
            }
        }
        Ok(any)
    }

    /// Chooses a distribution for a statement that has none. Returns whether any tile gets it.
    fn begin(&mut self, stmt: &Stmt) -> Result<bool> {
        let views = whole::views(&stmt.op);
        if whole::unpacks(&stmt.op).is_some() {
            let to = stmt.writes()[0];
            let all = words::spread(&tile(self.program, to.tensor), self.threads(stmt.by));
            return self.take(&[to], &all);
        }
        if let Op::Gemm { a, acc, .. } = &stmt.op
            && let Some(left) = self.left(a, acc)
            && !self.is_open(acc)
        {
            return self.take(&[a], &left);
        }
        let combined: Vec<&View> = match &stmt.op {
            Op::Scan { from, .. } | Op::Fold { from, .. } => from.iter().collect(),
            _ => views.clone(),
        };
        let all = match &stmt.op {
            Op::Gemm { acc, .. } => outer(&extents(acc)?, self.threads(stmt.by)),
            _ => {
                let own = self.own_modes(&combined)?;
                spread_but(self.program, &combined, &own, self.threads(stmt.by), self.width)?
            }
        };
        let views: Vec<&View> = match &stmt.op {
            Op::Gemm { acc, .. } => vec![acc],
            Op::Scan { from, to, .. } => from.iter().chain(to).collect(),
            Op::Fold { from, .. } => from.iter().collect(),
            _ => views,
        };
        self.take(&views, &all)
    }

    /// The modes of a statement along which each thread is to have all elements.
    fn own_modes(&self, views: &[&View]) -> Result<Vec<usize>> {
        let mut own = Vec::new();
        for view in views {
            let Some(indexed) = self.indexed.get(&view.tensor).filter(|modes| !modes.is_empty()) else {
                continue;
            };
            let shown = part::shown(view).unwrap_or_default();
            let is_indexed = |mode: &Option<usize>| mode.is_some_and(|mode| indexed.contains(&mode));
            own.extend(shown.iter().enumerate().filter(|(_, mode)| is_indexed(mode)).map(|(mode, _)| mode));
        }
        own.sort_unstable();
        own.dedup();
        Ok(own)
    }

    fn threads(&self, by: Id) -> i64 {
        i64::from(self.program.groups[by as usize].threads.max(1))
    }
}

/// The extents of a tile.
pub(super) fn tile(program: &Program, id: Id) -> Vec<i64> {
    program.tensor(id).plain().modes().map(|mode| mode.size().unwrap_or(1)).collect()
}

/// The modes that a reduction keeps.
pub(super) fn kept(from: &View, to: &View) -> Result<Vec<bool>> {
    let (from, to) = (extents(from)?, extents(to)?);
    Ok(from.iter().zip(&to).map(|(from, to)| from == to).collect())
}

/// Distributes the elements of a statement so that accesses to memory are coalesced and as wide as possible.
pub(super) fn spread(program: &Program, views: &[&View], threads: i64, width: Width) -> Result<Distribution> {
    spread_but(program, views, &[], threads, width)
}

/// The same, where each thread has all elements along some modes.
fn spread_but(
    program: &Program,
    views: &[&View],
    own: &[usize],
    threads: i64,
    width: Width,
) -> Result<Distribution> {
    let mut tile = Vec::new();
    for view in views {
        let own = extents(view)?;
        tile.resize(tile.len().max(own.len()), 1);
        tile.iter_mut().zip(own).for_each(|(all, own)| *all = (*all).max(own));
    }
    let whole = |view: &&&View| view.extents().as_ref() == Some(&tile);
    let space = |view: &View| program.tensor(view.tensor).space;
    let repeats = |view: &View| {
        view.layout.leaves().any(|(extent, stride)| stride == Value::Int(0) && extent != Value::Int(1))
    };
    // Global memory first, since its accesses cost the most, and of it what repeats no elements.
    let mut memory: Vec<&&View> =
        views.iter().filter(whole).filter(|view| !matches!(space(view), Space::Registers { .. })).collect();
    memory.retain(|view| !program.is_coordinates(view.tensor));
    memory.sort_by_key(|view| (!matches!(space(view), Space::Global { .. }), repeats(view)));
    let open = |view: &View| program.open.contains(&view.tensor);
    let matched =
        memory.iter().filter(|view| !open(view)).find_map(|view| Some((contiguous(program, view)?, view)));
    let writes = views.last().is_some_and(|to| matches!(space(to), Space::Global { .. }));
    // Copies to shared memory, which is aligned, store words, also of elements that are loaded one by one.
    let fills = matches!(views, [from, to] if matches!([space(from), space(to)], [Space::Global { .. }, Space::Shared { .. }]));
    let reads = if fills { width.reads.max(WORD) } else { width.reads };
    let widest = |view: &View| (if writes { width.writes } else { reads }) / bytes(program, view);
    let (fast, vector) = match matched {
        Some((mode, view)) if is_clamped(view, mode) => (mode, 1),
        Some((mode, view)) => (mode, widest(view)),
        None => (tile.len().saturating_sub(1), memory.first().map_or(1, |view| widest(view))),
    };
    let all = tile.clone();
    own.iter().for_each(|mode| tile[*mode] = 1);
    // Neighbouring threads then have neighbouring elements of the next mode in memory.
    let next = memory.first().filter(|_| own.contains(&fast)).and_then(|view| nearest(program, view, own));
    let fast = next.unwrap_or(fast);
    let vector = if next.is_some() { 1 } else { vector };
    let size: i64 = tile.iter().product();
    let word = memory.first().filter(|_| fills).map_or(0, |view| WORD / bytes(program, view));
    // Threads of a short copy to shared memory have no element rather than less than cp.async moves.
    let fits = |vector: &i64| {
        let divides = tile.get(fast).is_some_and(|extent| extent % vector == 0);
        divides && (size / vector >= threads || *vector <= word)
    };
    let widths = || (0..5).map(|bit| vector >> bit).filter(|vector| *vector > 1 && fits(vector)).take(2);
    // Half as wide, if each thread then has an equal share.
    let vector = widths().find(|vector| size % (vector * threads) == 0).or(widths().next()).unwrap_or(1);
    let order: Vec<usize> =
        std::iter::once(fast).chain((0..tile.len()).filter(|mode| *mode != fast)).collect();
    let order = if tile.is_empty() { Vec::new() } else { order };
    let spread = Distribution::spread(&tile, &order, vector, threads);
    // One comparison along a mode of a tensor bounds elements along one mode of a tile, with the largest step. Each thread has all
    // elements along others.
    let ragged = |mode: &usize| !own.contains(mode) && spread.reach(*mode) > tile[*mode];
    let along = |view: &View, mode| part::along_one(&view.layout.mode(mode).ok()?);
    let within = |view: &View, one, other| {
        let (one, other) = (along(view, one)?, along(view, other)?);
        Some(one.0 == other.0 && one.1 < other.1)
    };
    let ragged: Vec<usize> = (0..tile.len()).filter(ragged).collect();
    let is_within = |one: &&usize| {
        let outer = |view: &&&View| ragged.iter().any(|other| within(view, **one, *other) == Some(true));
        memory.iter().any(outer)
    };
    if let Some(inner) = ragged.iter().find(is_within) {
        return spread_but(program, views, &[own, &[*inner]].concat(), threads, width);
    }
    if own.is_empty() {
        return Ok(spread);
    }
    let along = |mode: &usize| Submode { extent: all[*mode], mode: *mode, step: 1 };
    let values = own.iter().map(along).chain(spread.value_submodes().iter().copied()).collect();
    // Each thread has all elements along these modes, so the threads along them have replicas.
    let replicated = |of: &Submode| if own.contains(&of.mode) { Submode { step: 0, ..*of } } else { *of };
    Ok(Distribution::new(&all, spread.thread_submodes().iter().map(replicated).collect(), values))
}

fn bytes(program: &Program, view: &View) -> i64 {
    let elem: Elem = program.tensor(view.tensor).elem;
    i64::from(elem.bytes())
}

/// May a view exceed its tensor along a mode, where elements are clamped one by one?
fn is_clamped(view: &View, mode: usize) -> bool {
    let along = view.layout.mode(mode).ok().and_then(|mode| mode.leaves().next());
    matches!(along, Some((_, Value::Basis { path, .. }))
        if view.nearest.contains(&usize::from(path.steps()[0]))
            && view.base[usize::from(path.steps()[0])].constant != 0)
}

/// The mode along which a view is contiguous in memory.
pub(crate) fn contiguous(program: &Program, view: &View) -> Option<usize> {
    let layout = program.tensor(view.tensor).plain();
    let mut all = view.layout.modes().enumerate().filter(|(_, mode)| {
        let Some((extent, Value::Basis { times: 1, path })) = mode.leaves().next() else { return false };
        let along = layout.mode(usize::from(path.steps()[0])).ok();
        let first = along.and_then(|along| along.leaves().next());
        extent != Value::Int(1) && matches!(first, Some((_, Value::Int(1))))
    });
    all.next().map(|(mode, _)| mode)
}

/// The mode of a view with the least stride in memory, of modes that are not excluded.
fn nearest(program: &Program, view: &View, excluded: &[usize]) -> Option<usize> {
    let layout = program.tensor(view.tensor).plain();
    let modes = view.layout.modes().enumerate().filter(|(mode, _)| !excluded.contains(mode));
    let strides = modes.filter_map(|(mode, own)| {
        let (_, Value::Basis { times, path }) = own.leaves().next()? else { return None };
        let along = layout.mode(usize::from(path.steps()[0])).ok()?;
        let (_, stride) = along.leaves().next()?;
        Some((stride.int()?.checked_mul(times)?, mode))
    });
    strides.min().map(|(_, mode)| mode)
}

/// The accumulators of a product on CUDA cores, distributed in parts as square as possible.
fn outer(tile: &[i64], threads: i64) -> Distribution {
    let [m, n] = tile[..] else { return Distribution::spread(tile, &[0], 1, threads) };
    // Threads along M and N, with the fewest elements of both operands for each thread.
    let cost = |over: &i64| {
        let (rows, columns) = ((m + over - 1) / over, (n * over + threads - 1) / threads);
        (rows * columns, rows + columns)
    };
    let over = (1..=threads).filter(|over| threads % over == 0).min_by_key(cost).unwrap_or(1);
    let submode = |extent, mode, step| Submode { extent, mode, step };
    let rest = |extent: i64, over: i64| (extent + over - 1) / over;
    let columns = threads / over;
    Distribution::new(
        tile,
        vec![submode(over, 0, 1), submode(columns, 1, 1)],
        vec![submode(rest(m, over), 0, over), submode(rest(n, columns), 1, columns)],
    )
}
