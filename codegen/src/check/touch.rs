//! Which threads access which elements of a shared tensor.

use std::collections::HashMap;
use std::rc::Rc;

use tilewright_layout::{Layout, Value};

use super::Budget;
use super::races::Clash;
use crate::affine::{Affine, Coord};
use crate::thread::Id;
use crate::tile::Program;
use crate::view::View;

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

/// A map and its offset: what loop variables contribute is the same for all threads.
#[derive(Clone, Debug)]
pub(super) struct Place {
    map: Rc<Map>,
    shift: i64,
}

/// The key of a map: the tensor, the view's layout, each thread's start.
type Known = (Id, Layout, Vec<Affine>, Option<Rc<Map>>);

/// Maps that have been made.
pub(super) struct Maps<'p, 'b> {
    program: &'p Program,
    budget: &'b mut Budget,
    known: Vec<Known>,
    injective: HashMap<Id, bool>,
}

const TOO_MANY: &str = "it has too many elements to look at while compiling";

impl<'p, 'b> Maps<'p, 'b> {
    pub(super) fn new(program: &'p Program, budget: &'b mut Budget) -> Maps<'p, 'b> {
        Maps { program, budget, known: Vec::new(), injective: HashMap::new() }
    }

    /// The elements of a view for these values of the loop variables; or why they are not known.
    pub(super) fn place(&mut self, view: &View, vars: &[i64]) -> Result<Place, &'static str> {
        let tensor = self.program.tensor(view.tensor);
        let injective =
            *self.injective.entry(view.tensor).or_insert_with(|| tensor.layout.is_injective() == Some(true));
        if !injective {
            return Err("several of its elements lie in one place");
        }
        let unknown = |coord: &Coord| {
            !matches!(
                coord,
                Coord::Var(_) | Coord::Thread(_) | Coord::Swizzled(..) | Coord::Digit { .. } | Coord::Two(..)
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
        let lookup = |coord: &Coord| match coord {
            Coord::Var(var) => vars[*var as usize],
            _ => 0,
        };
        let (mut shift, mut step) = (0, 1);
        let (mut by_thread, mut moved, mut steps, mut extents) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (mode, base) in tensor.plain().modes().zip(&view.base) {
            let extent = mode.size().map_err(|_| "its size is not known")?;
            let (mut mine, mut all) = (Affine::default(), base.constant);
            for (coord, factor) in &base.terms {
                let term = Affine { constant: 0, terms: vec![(coord.clone(), *factor)] };
                match term.per_thread() {
                    true => mine.terms.push((known(coord, vars), *factor)),
                    false => all += term.eval(&lookup),
                }
            }
            shift += all * step;
            by_thread.push(mine);
            moved.push(all);
            steps.push(step);
            extents.push(extent);
            step *= extent;
        }
        let found = self
            .known
            .iter()
            .find(|(id, layout, base, _)| *id == view.tensor && *base == by_thread && *layout == view.layout);
        let map = match found {
            Some((.., map)) => map.clone(),
            None => {
                let map = self.map(view, &by_thread, &steps).map(Rc::new);
                self.known.push((view.tensor, view.layout.clone(), by_thread, map.clone()));
                map
            }
        };
        let map = map.ok_or(TOO_MANY)?;
        let inside = |((reach, moved), extent): ((&(i64, i64), &i64), &i64)| {
            reach.0 + moved >= 0 && reach.1 + moved < *extent
        };
        match map.reach.iter().zip(&moved).zip(&extents).all(inside) {
            true => Ok(Place { map, shift }),
            false => Err("a view reaches outside of it"),
        }
    }

    fn map(&mut self, view: &View, base: &[Affine], steps: &[i64]) -> Option<Map> {
        let threads = self.program.threads().max(1);
        let mut reach = vec![(i64::MAX, i64::MIN); base.len()];
        // Threads have few distinct starts: each is looked at once.
        let mut starts: Vec<(i64, u32)> = Vec::new();
        let mut known: HashMap<i64, usize> = HashMap::new();
        let same = !base.iter().any(Affine::per_thread);
        let looked_at = if same { threads.min(2) } else { threads };
        if !self.budget.take(looked_at as usize) {
            return None;
        }
        for thread in 0..looked_at {
            let mut start = 0;
            for (mode, base) in base.iter().enumerate() {
                let at = base.eval(&|coord| match coord {
                    Coord::Thread(_) => i64::from(thread),
                    _ => 0,
                });
                reach[mode] = (reach[mode].0.min(at), reach[mode].1.max(at));
                start += at * steps[mode];
            }
            let place = *known.entry(start).or_insert(starts.len());
            match starts.get_mut(place) {
                Some((_, who)) => *who = both(*who, alone(thread)),
                None => starts.push((start, alone(thread))),
            }
        }
        let mut offsets = vec![0i64];
        for (extent, stride) in view.layout.leaves() {
            let Value::Int(extent) = extent else { return None };
            let Value::Basis { times, path } = stride else { continue };
            let mode = usize::from(path.steps()[0]);
            let far = (extent - 1) * times;
            reach[mode] = (reach[mode].0 + far.min(0), reach[mode].1 + far.max(0));
            if extent.saturating_mul(offsets.len() as i64) > i64::from(self.budget.left) {
                return None;
            }
            let count = offsets.len();
            for copy in 1..extent {
                for at in 0..count {
                    offsets.push(offsets[at] + copy * times * steps[mode]);
                }
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
        let mut map = Map { who: vec![NONE; (high - low + 1) as usize], low, reach };
        for (start, who) in starts {
            for offset in &offsets {
                let element = (start + offset - low) as usize;
                let known = map.who[element];
                map.who[element] = if known == NONE { who } else { both(known, who) };
            }
        }
        Some(map)
    }
}

/// The coordinate with loop variables replaced by their values.
fn known(coord: &Coord, vars: &[i64]) -> Coord {
    let sum = |of: &Affine| {
        let mut inner = Affine::from(of.constant);
        for (coord, factor) in &of.terms {
            let term = match coord {
                Coord::Var(var) => Affine::from(vars[*var as usize]),
                coord => known(coord, vars).into(),
            };
            inner = inner.plus(&term, *factor).unwrap_or_default();
        }
        inner
    };
    match coord {
        Coord::Digit { of, over, extent } => {
            Coord::Digit { of: Box::new(sum(of)), over: *over, extent: *extent }
        }
        Coord::Two(with, of) => Coord::Two(*with, Box::new(of.each_ref().map(sum))),
        coord => coord.clone(),
    }
}

fn alone(thread: u32) -> u32 {
    thread | u32::from(NO_THREAD) << 16
}

fn halves(who: u32) -> (u16, u16) {
    (who as u16, (who >> 16) as u16)
}

/// Two of the threads of both.
fn both(x: u32, y: u32) -> u32 {
    let ((first, second), (third, fourth)) = (halves(x), halves(y));
    if second != NO_THREAD {
        return x;
    }
    let other = if third == first { fourth } else { third };
    u32::from(first) | u32::from(other) << 16
}

impl Place {
    /// An element of both, with threads of either side.
    fn common(
        x: &Place,
        y: &Place,
        maps: &mut Maps<'_, '_>,
        test: fn(u32, u32) -> Option<(u32, u32)>,
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
                && let Some((first, second)) = test(a, b)
            {
                return Some((at, first, second));
            }
            at += 1;
        }
        None
    }

    /// An element that both access.
    pub(super) fn meet(x: &Place, y: &Place, maps: &mut Maps<'_, '_>) -> Option<Clash> {
        Place::common(x, y, maps, |a, b| Some((u32::from(halves(a).0), u32::from(halves(b).0))))
    }

    /// An element that different threads access.
    pub(super) fn clash(x: &Place, y: &Place, maps: &mut Maps<'_, '_>) -> Option<Clash> {
        Place::common(x, y, maps, |a, b| {
            if a == b && a >> 16 == u32::from(NO_THREAD) {
                return None;
            }
            let ((a, c), (b, d)) = (halves(a), halves(b));
            let pairs = [(a, b), (a, d), (c, b), (c, d)];
            let found = pairs.into_iter().find(|&(x, y)| x != NO_THREAD && y != NO_THREAD && x != y)?;
            Some((u32::from(found.0), u32::from(found.1)))
        })
    }
}
