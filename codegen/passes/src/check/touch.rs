//! The elements of a shared tensor, or of a tensor in global memory, that each thread of the first block accesses.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use tilewright_layout::{Layout, Value};

use super::races::Env;
use crate::thread::Id;
use crate::thread::index::gcd;
use crate::tile::view::View;
use crate::tile::view::leaf::leaves;
use crate::tile::visit::preorder;
use crate::tile::{Program, Space, Stmt};
use crate::values::affine::{Affine, Coord};
use crate::view_elements::Budget;

/// No thread.
const NONE: u32 = u32::MAX;
const NO_THREAD: u16 = u16::MAX;

/// The elements of a view, each with the threads that access it: the first in the low half of the number,
/// another in the high half. Two are enough to know that there are several.
#[derive(Debug)]
pub(super) struct Map {
    who: Vec<u32>,
    /// The element of `who[0]`, before the shift.
    low: i64,
    /// Least and greatest coordinate along each mode, before the shift.
    reach: Vec<(i64, i64)>,
}

/// A map and its offset: the part from loop variables is the same for all threads.
#[derive(Clone, Debug)]
pub(super) struct Footprint {
    map: Rc<Map>,
    shift: i64,
    /// The first thread: the map's threads count from it.
    thread: u32,
    /// Elements that all accesses to the tensor have in common, along each mode; see [`Grains`].
    grains: Rc<Grains>,
}

/// An element that two different threads access.
#[derive(Clone, Copy)]
pub(super) struct Clash {
    pub(super) element: i64,
    /// The thread of the earlier access.
    pub(super) earlier: u32,
    pub(super) later: u32,
}

/// The threads that execute a statement.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Actors {
    /// The group that the statement names.
    pub(super) by: Id,
    /// The threads of the group that execute it here.
    pub(super) threads: Range<u32>,
    /// One elected thread of each member executes it.
    pub(super) elected: bool,
}

/// The key of a map: the tensor, the view's layout, each thread's start, and the threads.
#[derive(Clone, PartialEq, Debug)]
struct Key {
    tensor: Id,
    layout: Layout,
    /// The step of each thread along each mode.
    by_thread: Vec<Affine>,
    /// The limit of a ragged partition's tile along each mode: the part of its origin that differs between threads, and
    /// the bound of the distance from there.
    limits: Vec<Option<(Affine, i64)>>,
    /// Counted from the first thread of the map.
    actors: Actors,
}

/// The largest aligned blocks of a tensor that every view contains whole or not at all: elements of one block need no
/// distinction.
#[derive(Debug)]
struct Grains {
    /// For each mode the extent of a block, and how many blocks there are.
    modes: Vec<(i64, i64)>,
}

/// Maps that have been made.
pub(super) struct Maps<'p, 'b> {
    program: &'p Program,
    budget: &'b mut Budget,
    known: Vec<(Key, Option<Rc<Map>>)>,
    injective: HashMap<Id, bool>,
    grains: HashMap<Id, Option<Rc<Grains>>>,
}

/// Evaluations for each view of global memory.
const FOR_GLOBAL: u32 = 4_096;

const TOO_MANY: &str = "it has too many elements to look at while compiling";
const OUTSIDE: &str = "a view reaches outside of it";

/// Is a coordinate far outside of every shared tensor? It is not computed with.
fn is_far(at: i64) -> bool {
    const FAR: u64 = 1 << 37;
    at.unsigned_abs() > FAR
}

impl<'p, 'b> Maps<'p, 'b> {
    pub(super) fn new(program: &'p Program, budget: &'b mut Budget) -> Maps<'p, 'b> {
        Maps { program, budget, known: Vec::new(), injective: HashMap::new(), grains: HashMap::new() }
    }

    /// The elements of a view in this environment, by the threads that access them; or why they are not known.
    pub(super) fn footprint(
        &mut self,
        view: &View,
        env: &Env,
        actors: &Actors,
    ) -> Result<Footprint, &'static str> {
        let tensor = self.program.tensor(view.tensor);
        // Elements of global memory that a kernel writes never overlap: a launch checks their strides.
        let global = matches!(tensor.space, Space::Global { .. });
        let injective = *self
            .injective
            .entry(view.tensor)
            .or_insert_with(|| global || tensor.layout.is_injective() == Some(true));
        if !injective {
            return Err("several of its elements have the same offset");
        }
        let unknown = |coord: &Coord| {
            !matches!(
                coord,
                Coord::Var(_)
                    | Coord::Phase(_)
                    | Coord::Thread(_)
                    | Coord::Member(_)
                    | Coord::Swizzled(..)
                    | Coord::Submode { .. }
                    | Coord::Two(..)
            )
        };
        if view.base.iter().any(|base| base.any(&|coord| matches!(coord, Coord::Loaded { .. }))) {
            return Err("data says which of its elements are touched");
        }
        let mixed = |(coord, _): &(Coord, i64)| {
            let all = Affine::from(coord.clone());
            all.any(&unknown) && (matches!(coord, Coord::Two(..)) || all.per_thread())
        };
        if view.base.iter().flat_map(|base| &base.terms).any(mixed) {
            return Err("sizes or blocks say which of its elements are touched");
        }
        let program = self.program;
        let grains =
            self.grains.entry(view.tensor).or_insert_with(|| Grains::of(program, view.tensor).map(Rc::new));
        let grains = Rc::clone(grains.as_ref().ok_or("its size is not known")?);
        let (mut shift, mut step) = (0, 1);
        let (mut by_thread, mut limits, mut moved) = (Vec::new(), Vec::new(), Vec::new());
        for (((grain, count), base), limit) in grains.modes.iter().zip(&view.base).zip(&view.limits) {
            let (mine, all) = split(self.program, base, env).ok_or(OUTSIDE)?;
            let limit = match limit {
                Some((origin, extent)) => {
                    let (of_thread, common) = split(self.program, origin, env).ok_or(OUTSIDE)?;
                    Some((of_thread, common.saturating_add(*extent).saturating_sub(all)))
                }
                None => None,
            };
            if is_far(all) || limit.as_ref().is_some_and(|(_, end)| is_far(*end)) {
                return Err(OUTSIDE);
            }
            shift += all / grain * step;
            limits.push(limit);
            by_thread.push(mine);
            moved.push(all);
            step *= count;
        }
        // Members of a family differ in their first thread only.
        let first = crate::check::races::first_of_member(self.program, actors);
        let threads = actors.threads.start - first..actors.threads.end - first;
        let foreign =
            |coord: &Coord| matches!(coord, Coord::Thread(of) | Coord::Member(of) if *of != actors.by);
        let origins = limits.iter().flatten().map(|(origin, _)| origin);
        let (first, threads) = match by_thread.iter().chain(origins).any(|base| base.any(&foreign)) {
            true => (0, actors.threads.clone()),
            false => (first, threads),
        };
        let actors = Actors { threads, ..actors.clone() };
        let key = Key { tensor: view.tensor, layout: view.layout.clone(), by_thread, limits, actors };
        let map = match self.known.iter().find(|(known, _)| *known == key) {
            Some((_, map)) => map.clone(),
            None => {
                // Shared memory comes first.
                let left = self.budget.left;
                if global {
                    self.budget.left = left.min(FOR_GLOBAL);
                }
                let kept = left - self.budget.left;
                let map = self.map(&key, &grains, first).map(Rc::new);
                self.budget.left += kept;
                self.known.push((key, map.clone()));
                map
            }
        };
        let map = map.ok_or(TOO_MANY)?;
        for ((reach, moved), (grain, count)) in map.reach.iter().zip(&moved).zip(&grains.modes) {
            if reach.0 + moved < 0 || reach.1 + moved >= grain * count {
                return Err(OUTSIDE);
            }
        }
        Ok(Footprint { map, shift, thread: first, grains })
    }

    /// The threads that access a view: of those that access the same elements two are enough, and one of another warp.
    fn distinct_threads(&self, Key { by_thread, actors, .. }: &Key) -> Vec<u32> {
        let Range { start, end } = actors.threads;
        match (actors.elected, by_thread.iter().all(|base| base.terms.is_empty())) {
            (true, _) => elected(self.program, actors).collect(),
            (false, true) => [start, start + 1, end - 1].into_iter().filter(|thread| *thread < end).collect(),
            (false, false) => (start..end).collect(),
        }
    }

    /// The map of a view; threads count from `first`.
    fn map(&mut self, view: &Key, grains: &Grains, first: u32) -> Option<Map> {
        let base = &view.by_thread;
        let mut reach = vec![(i64::MAX, i64::MIN); base.len()];
        let mut ends: Vec<i64> =
            view.limits.iter().map(|limit| if limit.is_some() { i64::MIN } else { i64::MAX }).collect();
        let threads = self.distinct_threads(view);
        if !self.budget.take(threads.len()) {
            return None;
        }
        // Threads have few distinct starts, and distances from there to the ends of tiles: each is looked at once.
        let mut starts: Vec<(i64, Vec<i64>, u32)> = Vec::new();
        let mut known: HashMap<(i64, Vec<i64>), usize> = HashMap::new();
        for thread in threads {
            let of = |affine: &Affine| affine.eval(&|coord| of_thread(self.program, coord, thread + first));
            let (mut start, mut step, mut room) = (0, 1, Vec::new());
            for (mode, (base, (grain, count))) in base.iter().zip(&grains.modes).enumerate() {
                let at = of(base);
                if is_far(at) {
                    return None;
                }
                reach[mode] = (reach[mode].0.min(at), reach[mode].1.max(at));
                start += at.div_euclid(*grain) * step;
                step *= count;
                if let Some((origin, extent)) = &view.limits[mode] {
                    let end = of(origin).saturating_add(*extent);
                    if is_far(end) {
                        return None;
                    }
                    ends[mode] = ends[mode].max(end);
                    room.push(end - at);
                }
            }
            let class = *known.entry((start, room.clone())).or_insert(starts.len());
            match starts.get_mut(class) {
                Some((.., who)) => *who = both(*who, alone(thread)),
                None => starts.push((start, room, alone(thread))),
            }
        }
        let steps: Vec<i64> = grains.steps();
        let mut offsets = vec![0i64];
        // How far each of them is along the modes whose tiles end.
        let limited: Vec<usize> = (0..base.len()).filter(|mode| view.limits[*mode].is_some()).collect();
        let mut along = vec![vec![0i64]; limited.len()];
        for (extent, stride) in view.layout.leaves() {
            let Value::Int(extent) = extent else { return None };
            let Value::Basis { times, path } = stride else { continue };
            let mode = usize::from(path.steps()[0]);
            let far = (extent - 1) * times;
            reach[mode] = (reach[mode].0 + far.min(0), reach[mode].1 + far.max(0));
            // Elements of one block are one.
            let grain = grains.modes[mode].0;
            let (extent, times) = match times.abs() < grain && times != 0 {
                true => ((extent * times.abs() / grain).max(1), times.signum()),
                false => (extent, times / grain),
            };
            if extent.saturating_mul(offsets.len() as i64) > i64::from(self.budget.left) {
                return None;
            }
            let repeat = |all: &mut Vec<i64>, by: i64| {
                let count = all.len();
                for copy in 1..extent {
                    (0..count).for_each(|at| all.push(all[at] + copy * by));
                }
            };
            repeat(&mut offsets, times * steps[mode]);
            for (of, along) in limited.iter().zip(&mut along) {
                repeat(along, if *of == mode { times * grain } else { 0 });
            }
        }
        if !self.budget.take(starts.len() * offsets.len()) {
            return None;
        }
        let (least, most) = (offsets.iter().min()?, offsets.iter().max()?);
        let low = starts.iter().map(|start| start.0).min()? + least;
        let high = starts.iter().map(|start| start.0).max()? + most;
        // Far more memory than elements: a view that leaves its tensor.
        if high - low > 1 << 20 {
            return None;
        }
        for ((_, most), end) in reach.iter_mut().zip(ends) {
            *most = (*most).min(end - 1);
        }
        let mut map = Map { who: vec![NONE; (high - low + 1) as usize], low, reach };
        for (start, room, who) in starts {
            for (at, offset) in offsets.iter().enumerate() {
                if along.iter().zip(&room).any(|(far, room)| far[at] >= *room) {
                    continue;
                }
                let element = (start + offset - low) as usize;
                let known = map.who[element];
                map.who[element] = if known == NONE { who } else { both(known, who) };
            }
        }
        Some(map)
    }
}

/// The extents of a tensor. Extents known at launch have their greatest value, or the number of checked elements.
pub(super) fn extents(program: &Program, tensor: Id) -> Option<Vec<i64>> {
    const MOST: i128 = 3840;
    let tensor = program.tensor(tensor);
    let one = |mode: Layout| match tensor.space {
        Space::Global { .. } => match mode.leaves().next()? {
            (Value::Int(extent), _) => Some(extent),
            (size, _) => i64::try_from(program.range(&size.into()).hi.min(MOST)).ok(),
        },
        _ => mode.size().ok(),
    };
    tensor.plain().modes().map(one).collect()
}

impl Grains {
    /// The grains of a tensor; `None` if its size is not known.
    fn of(program: &Program, tensor: Id) -> Option<Grains> {
        let mut modes = extents(program, tensor)?;
        let whole = modes.clone();
        for view in preorder(&program.body).flat_map(Stmt::accesses).filter(|view| view.tensor == tensor) {
            for (mode, grain) in modes.iter_mut().enumerate() {
                *grain = gcd(*grain, of_view(view, mode));
            }
        }
        Some(Grains { modes: modes.iter().zip(whole).map(|(&grain, all)| (grain, all / grain)).collect() })
    }

    /// The distance of blocks along each mode, when blocks are counted.
    fn steps(&self) -> Vec<i64> {
        let step = |step: &mut i64, (_, count): &(i64, i64)| Some(std::mem::replace(step, *step * count));
        self.modes.iter().scan(1, step).collect()
    }

    /// The first element of a block.
    fn element(&self, mut block: i64) -> i64 {
        let (mut element, mut step) = (0, 1);
        for (grain, count) in &self.modes {
            element += block % count * grain * step;
            block /= count;
            step *= grain * count;
        }
        element
    }
}

/// The largest block that a view contains whole along a mode of its tensor: the greatest common divisor of its run of
/// consecutive elements and of its offsets.
fn of_view(view: &View, mode: usize) -> i64 {
    let mut steps = leaves(view);
    steps.retain(|leaf| leaf.mode == mode && leaf.extent > 1 && leaf.step != 0);
    steps.sort_unstable_by_key(|leaf| (leaf.step.abs(), leaf.extent));
    let (mut run, mut rest) = (1, 0);
    for leaf in steps {
        let step = leaf.step.abs();
        if step == run && rest == 0 { run *= leaf.extent } else { rest = gcd(rest, step) }
    }
    let Some(base) = view.base.get(mode) else { return 1 };
    let moved = base.terms.iter().fold(base.constant.abs(), |all, (_, factor)| gcd(all, factor.abs()));
    // A tile ends after `extent` elements.
    let moved = view.limits[mode].as_ref().map_or(moved, |(_, extent)| gcd(moved, *extent));
    gcd(gcd(run, rest), moved)
}

/// The part of a number that differs between threads, and the part that is the same for all; `None` if it overflows.
fn split(program: &Program, of: &Affine, env: &Env) -> Option<(Affine, i64)> {
    let known = of.substitute(&|coord| {
        let term = Affine::from(coord.clone());
        (!differs(program, &term, env)).then(|| env.value(program, &term).into())
    })?;
    Some((Affine { constant: 0, terms: known.terms }, known.constant))
}

/// Do threads that run this differ in a number?
fn differs(program: &Program, of: &Affine, env: &Env) -> bool {
    of.per_thread()
        || of.any(&|coord| matches!(coord, Coord::Member(group) if env.member(program, *group).is_none()))
}

/// A coordinate of a thread of the block: its index in a group, or the member that it belongs to.
fn of_thread(program: &Program, coord: &Coord, thread: u32) -> i64 {
    let of = |group: Id| {
        let first = program.groups[group as usize].warps.map_or(0, |(first, _)| first * 32);
        (i64::from(thread) - i64::from(first), i64::from(program.threads_of(group).max(1)))
    };
    match coord {
        Coord::Thread(group) => {
            let (thread, threads) = of(*group);
            thread.rem_euclid(threads)
        }
        Coord::Member(group) => {
            let (thread, threads) = of(*group);
            thread.div_euclid(threads).rem_euclid(program.groups[*group as usize].members.max(1).into())
        }
        _ => 0,
    }
}

/// The elected thread of each member, counted as the actors are.
fn elected(program: &Program, actors: &Actors) -> impl Iterator<Item = u32> + use<> {
    let Range { start, end } = actors.threads;
    (start..end).step_by(program.threads_of(actors.by).max(1) as usize)
}

fn alone(thread: u32) -> u32 {
    thread | u32::from(NO_THREAD) << 16
}

fn halves(who: u32) -> (u16, u16) {
    (who as u16, (who >> 16) as u16)
}

/// Two of the threads of both, of different warps if possible.
fn both(x: u32, y: u32) -> u32 {
    let ((first, second), (third, fourth)) = (halves(x), halves(y));
    let apart = |other: u16| other != NO_THREAD && other / 32 != first / 32;
    let other = match [second, third, fourth].into_iter().find(|other| apart(*other)) {
        Some(other) => other,
        None if second != NO_THREAD => second,
        None if third == first => fourth,
        None => third,
    };
    u32::from(first) | u32::from(other) << 16
}

/// A thread that accesses an element, and another one.
type Threads = [Option<u32>; 2];

impl Footprint {
    /// An element of both, with threads of either side.
    fn common(
        x: &Footprint,
        y: &Footprint,
        maps: &mut Maps<'_, '_>,
        test: &dyn Fn(Threads, Threads) -> Option<(u32, u32)>,
    ) -> Option<Clash> {
        let (x_low, y_low) = (x.map.low + x.shift, y.map.low + y.shift);
        let from = x_low.max(y_low);
        let to = (x_low + x.map.who.len() as i64).min(y_low + y.map.who.len() as i64);
        // Comparing is far cheaper than evaluating.
        maps.budget.take(((to - from).max(0) / 16) as usize);
        let mut at = from;
        while at < to {
            let (a, b) = (x.map.who[(at - x_low) as usize], y.map.who[(at - y_low) as usize]);
            if a != NONE
                && b != NONE
                && let Some((earlier, later)) = test(threads(a, x.thread), threads(b, y.thread))
            {
                return Some(Clash { element: x.grains.element(at), earlier, later });
            }
            at += 1;
        }
        None
    }

    /// An element that two threads access.
    pub(super) fn twice(&self) -> Option<Clash> {
        let two = |(at, who): (usize, &u32)| {
            let [first, second] = threads(*who, self.thread);
            let at = self.map.low + self.shift + at as i64;
            (*who != NONE).then_some(())?;
            let (earlier, later) = first.zip(second).filter(|(x, y)| x != y)?;
            Some(Clash { element: self.grains.element(at), earlier, later })
        };
        self.map.who.iter().enumerate().find_map(two)
    }

    /// An element that both access.
    pub(super) fn meet(x: &Footprint, y: &Footprint, maps: &mut Maps<'_, '_>) -> Option<Clash> {
        Footprint::common(x, y, maps, &|a, b| a[0].zip(b[0]))
    }

    /// An element that two unordered threads access, the first one earlier.
    pub(super) fn clash(
        x: &Footprint,
        y: &Footprint,
        maps: &mut Maps<'_, '_>,
        unordered: &dyn Fn(u32, u32) -> bool,
    ) -> Option<Clash> {
        Footprint::common(x, y, maps, &|[a, c], [b, d]| {
            let pairs = [(a, b), (a, d), (c, b), (c, d)];
            pairs.into_iter().filter_map(|(x, y)| x.zip(y)).find(|&(x, y)| unordered(x, y))
        })
    }
}

/// The threads of an element, counted from this one.
fn threads(who: u32, from: u32) -> [Option<u32>; 2] {
    let (first, second) = halves(who);
    [first, second].map(|thread| (thread != NO_THREAD).then_some(u32::from(thread) + from))
}
