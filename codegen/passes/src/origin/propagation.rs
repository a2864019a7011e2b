//! Propagation of edges and coordinates through functions, products and shared memory.

use tilewright_layout::Value;

use super::Origins;
use super::out_of_bounds::{Coordinate, Coordinates, OutOfBounds, State, along, taken_over, union};
use crate::thread::{Bin, Id, Un};
use crate::tile::elements::Edge;
use crate::tile::pair::align;
use crate::tile::view::View;
use crate::tile::{Expr, ProductViews, Space};
use crate::values::affine::{Affine, Coord};
use crate::values::elem::Elem;
use crate::values::typing::Types;

impl Origins<'_> {
    /// The analysis of the result of the elementwise function of a statement.
    pub(super) fn mapped(
        &mut self,
        stmt: Id,
        ins: &[View],
        to: &View,
        value: &Expr,
        state: &State,
    ) -> OutOfBounds {
        let mut one = |view: &View| {
            // Coordinates within the tile are not read.
            if self.program.is_coordinates(view.tensor) {
                return OutOfBounds { age: self.loops.len(), ..OutOfBounds::NONE };
            }
            let known = self.read(view, to, Some(0.0), state);
            let at = if view.is_one_element() { None } else { known.at };
            OutOfBounds { at, ..known }
        };
        let known: Vec<OutOfBounds> = ins.iter().map(&mut one).collect();
        let age = known.iter().map(|of| of.age).min().unwrap_or(self.loops.len());
        let at = if reads_coordinates(value) { first_known(&known, to) } else { agreed(&known, to, stmt) };
        let all: Option<Vec<Vec<Edge>>> = known.iter().map(|of| of.edges.clone()).collect();
        let accumulates = |n: u8| {
            let of = ins.get(usize::from(n)).map(|view| view.tensor);
            of.is_some_and(|of| of == to.tensor || self.assigned.contains(&(to.tensor, of)))
        };
        let edges = all.filter(|all| begun_is_covered(&known, all)).map(|all| {
            let has = |n: u8, edge: &Edge| all.get(usize::from(n)).is_some_and(|edges| edges.contains(edge));
            let remains = |edge: &Edge| {
                let number = |n: u8| known[usize::from(n)].contents.filter(|_| has(n, edge));
                let Some(same) = neutral(value, &number).filter(|n| !has(*n, edge)) else { return true };
                // Neutral out-of-bounds elements leave an accumulator unchanged, so it gets no edge from them. An
                // accumulator that has only been filled takes the edge if it is the same in every iteration. Another
                // tile, such as a bias to which rows are added, takes the edge too, unless the whole tile is out of
                // bounds, for example because a number from memory selects it.
                let sum = &known[usize::from(same)];
                let later = |coord: &Coord| matches!(coord, Coord::Var(var) if self.loops.iter().skip(sum.age).any(|of| of == var));
                (!accumulates(same) && edge.differs()) || sum.filled && !edge.moves(&later)
            };
            union(all.clone()).into_iter().filter(remains).collect()
        });
        let if_runs = known.iter().any(OutOfBounds::depends_on_path);
        OutOfBounds { edges, at, age, if_runs, ..OutOfBounds::NONE }
    }

    /// The value of a function where all its inputs are out of bounds. Notes accumulators of functions without one.
    pub(super) fn computed(&mut self, ins: &[View], to: &View, value: &Expr, state: &State) -> Option<f64> {
        let edges: Vec<_> = ins.iter().map(|view| self.edges(view, to, state)).collect();
        let all = union(edges.iter().flatten().cloned().collect());
        // The value of an input wherever one is out of bounds.
        let number = |n: u8| {
            let (view, own) = (&ins[usize::from(n)], edges[usize::from(n)].as_ref()?);
            let outside = !all.is_empty() && all.iter().all(|edge| own.contains(edge));
            let value = match self.program.tensor(view.tensor).space {
                Space::Global { .. } => Some(0.0).filter(|_| view.nearest.is_empty()),
                _ => state.get(&view.tensor).and_then(OutOfBounds::value),
            };
            value.filter(|_| outside)
        };
        let elems: Vec<Elem> = ins.iter().map(|view| self.program.tensor(view.tensor).elem).collect();
        let types = Types { ins: &elems, scalars: &self.program.scalars };
        let leaf = |part: &Expr| if let Expr::In(n) = part { number(*n) } else { None };
        let computed = types.evaluated(value, &leaf).filter(|x| !x.is_nan());
        // The operand that is added to an accumulator, if its out-of-bounds elements have an unknown value.
        let is_function = |view: &View| {
            let known = state.get(&view.tensor);
            let outside = |of: &OutOfBounds| of.edges.as_ref().is_some_and(|edges| !edges.is_empty());
            view.tensor != to.tensor && known.is_some_and(|of| of.filled_with().is_none() && outside(of))
        };
        if ins.iter().any(|view| view.tensor == to.tensor) && ins.iter().any(is_function) {
            self.added.insert(to.tensor);
        }
        computed
    }

    /// The analysis of an accumulator after a product: its rows have the edges of rows of `a`, its
    /// columns the edges of rows of `b`. Out-of-bounds elements along K have been filled, and count with
    /// that value.
    pub(super) fn multiplied(&mut self, views: ProductViews<'_>, opaque: bool, state: &mut State) {
        let ProductViews { a, b, acc } = views;
        let before = state.get(&acc.tensor).cloned().unwrap_or(OutOfBounds::NONE);
        let sides = [(a, 0), (b, 1)].map(|(view, onto)| {
            let edges = self.edges(view, view, state)?;
            remaining(edges, &|edge| edge.runs_along(1), &|edge| stored(edge.moved(onto), acc))
        });
        let [Some(rows), Some(columns)] = sides else {
            state.insert(acc.tensor, OutOfBounds::UNKNOWN);
            return;
        };
        let all = union(vec![rows, columns]);
        if opaque {
            let clean = all.is_empty() && self.known(a, state).is_none() && self.known(b, state).is_none();
            if !clean {
                state.insert(acc.tensor, OutOfBounds::UNKNOWN);
            }
            return;
        }
        let mut first = |view: &View, onto| {
            let first = self.at(view, view, state).into_iter().flatten().next();
            let first = first.unwrap_or(Coordinate::Unknown(None));
            first.and_then(|at| (!at.runs_along(1)).then(|| at.moved(onto)))
        };
        let at = vec![first(a, 0), first(b, 1)];
        let at = Some(self.stored(at, acc));
        let covered = before.begun.is_none()
            || before.edges.as_ref().is_some_and(|edges| edges.iter().all(|edge| all.contains(edge)));
        let edges = before.edges.filter(|_| covered).map(|edges| union(vec![edges, all.clone()]));
        let contents = before.contents.filter(|_| all.is_empty());
        state.insert(acc.tensor, OutOfBounds { edges, contents, at, age: before.age, ..OutOfBounds::NONE });
    }

    /// The coordinates of a view's elements, along each mode of the target.
    pub(super) fn at(&mut self, view: &View, to: &View, state: &State) -> Option<Coordinates> {
        let Ok(pair) = align(view, to) else { return Some(Vec::new()) };
        let view = pair.from;
        let tensor = self.program.tensor(view.tensor);
        if matches!(tensor.space, Space::Global { .. }) {
            let extents: Vec<Value> = tensor.plain().leaves().map(|leaf| leaf.0).collect();
            let one = |mode: usize| {
                let of = tensor_mode(&view, mode)?;
                let name = format!("{}_{of}", view.name);
                Some(Edge::new(name, view.base[of].clone(), along(&view, of), *extents.get(of)?))
            };
            return Some((0..view.rank()).map(|mode| one(mode).into()).collect());
        }
        let known = state.get(&view.tensor)?.at.as_ref()?;
        let one = |mode: usize| {
            let mut all = shown(&view, mode).into_iter().map(|of| known.get(of));
            let first = all.next()??;
            // Modes of the tensor that one mode of the view joins are one coordinate.
            let same = all.all(|at| at == Some(first));
            same.then(|| first.clone().and_then(|edge| taken_over(edge, &view)))
        };
        Some((0..view.rank()).map(|mode| one(mode).unwrap_or(Coordinate::Unknown(None))).collect())
    }

    /// Coordinates of the modes of a view, as coordinates of its tensor's modes.
    pub(super) fn stored(&self, at: Coordinates, to: &View) -> Coordinates {
        let rank = self.program.tensor(to.tensor).rank();
        let mut all = vec![Coordinate::Unknown(None); rank];
        for (mode, at) in at.into_iter().enumerate().take(to.rank()) {
            let at = at.and_then(|at| stored(at, to));
            for index in shown(to, mode).into_iter().filter(|index| *index < rank) {
                all[index] = at.clone();
            }
        }
        all
    }
}

/// The edges of elements that are combined along some coordinates, without these coordinates' own edges. `None` if one is not known:
/// a result may be out of bounds in some parts of what is combined alone.
pub(super) fn remaining(
    edges: Vec<Edge>,
    is_combined: &dyn Fn(&Edge) -> bool,
    left: &dyn Fn(Edge) -> Option<Edge>,
) -> Option<Vec<Edge>> {
    let others = edges.into_iter().filter(|edge| !is_combined(edge));
    let results = others.filter_map(|edge| match edge.part.iter().any(is_combined) {
        true => edge.differs().then_some(None),
        false => Some(left(edge)),
    });
    results.collect()
}

/// An edge of a view's modes, as an edge of its tensor's modes.
pub(super) fn stored(edge: Edge, to: &View) -> Option<Edge> {
    edge.try_map(&|edge| stored_coordinate(edge, to))
}

/// The same of one coordinate.
fn stored_coordinate(edge: Edge, to: &View) -> Option<Edge> {
    let mut modes = vec![Vec::new(); to.base.len()];
    for (mode, submodes) in edge.modes.iter().enumerate() {
        let still = submodes.iter().all(|(extent, step)| *extent == 1 || *step == 0);
        let indices = shown(to, mode);
        match indices[..] {
            [index] => modes[index] = submodes.clone(),
            _ if submodes.len() == indices.len() => {
                indices.into_iter().zip(submodes).for_each(|(index, submode)| modes[index] = vec![*submode]);
            }
            _ if still => {}
            _ => return None,
        }
    }
    Some(Edge { modes, ..edge })
}

/// The edge of the whole tensor, from the edge of a view of one of `threads` threads: the elements must run along the
/// tensor's modes as the view does.
pub(super) fn of_whole(edge: &Edge, view: &View, sizes: &[i64], threads: i64) -> Option<Edge> {
    edge.clone().try_map(&|edge| coordinate_of_whole(&edge, view, sizes, threads))
}

/// The same of one coordinate.
fn coordinate_of_whole(edge: &Edge, view: &View, sizes: &[i64], threads: i64) -> Option<Edge> {
    let submodes: Vec<Vec<Vec<(i64, i64)>>> = (0..sizes.len()).map(|mode| along(view, mode)).collect();
    // Searches the subset of the tensor's modes that have stride 1 along the coordinate.
    (0..1usize << sizes.len().min(6)).find_map(|subset| {
        let chosen: Vec<usize> = (0..sizes.len()).filter(|mode| subset >> mode & 1 == 1).collect();
        let base =
            chosen.iter().try_fold(edge.base.clone(), |base, &mode| base.plus(&view.base[mode], -1))?;
        let step = |index: usize, submode: usize| -> i64 {
            chosen
                .iter()
                .filter_map(|&mode| submodes[mode].get(index)?.get(submode))
                .map(|submode| submode.1)
                .sum()
        };
        let alike = edge.modes.iter().enumerate().all(|(index, own)| {
            own.iter()
                .enumerate()
                .all(|(submode, (extent, own))| *extent == 1 || *own == step(index, submode))
        });
        let modes = (0..sizes.len()).map(|mode| match chosen.contains(&mode) {
            true => vec![(sizes[mode], 1)],
            false => Vec::new(),
        });
        let base = if alike { of_storing_threads(base, view, threads)? } else { return None };
        Some(Edge { base, modes: modes.collect(), ..edge.clone() })
    })
}

/// The value of a sum of coordinates, if it is the same in all threads that store an element of this view. Threads with
/// copies of elements of other threads are out of the view's limits.
fn of_storing_threads(sum: Affine, view: &View, threads: i64) -> Option<Affine> {
    if !sum.per_thread() {
        return Some(sum);
    }
    let is_own = |(coord, _): &(Coord, i64)| Affine::from(coord.clone()).per_thread();
    let (own, rest) = sum.terms.into_iter().partition(is_own);
    let (own, rest) = (Affine { constant: 0, terms: own }, Affine { constant: sum.constant, terms: rest });
    let limits: Vec<(&Affine, &Affine, i64)> = view
        .base
        .iter()
        .zip(&view.limits)
        .filter_map(|(base, limit)| limit.as_ref().map(|(origin, extent)| (base, origin, *extent)))
        .collect();
    let other = |coord: &Coord| !matches!(coord, Coord::Thread(_) | Coord::Submode { .. });
    if own.any(&other) || limits.iter().any(|(base, origin, _)| base.any(&other) || origin.any(&other)) {
        return None;
    }
    let at = |of: &Affine, thread: i64| of.eval(&|_| thread);
    let stores = |thread: &i64| {
        limits.iter().all(|(base, origin, extent)| at(base, *thread) < at(origin, *thread) + extent)
    };
    let mut all = (0..threads).filter(stores).map(|thread| at(&own, thread));
    let first = all.next()?;
    all.all(|other| other == first).then(|| rest.plus(&first.into(), 1)).flatten()
}

/// The tensor mode along which a mode of a view runs, if there is exactly one.
fn tensor_mode(view: &View, mode: usize) -> Option<usize> {
    let mut all = shown(view, mode);
    all.dedup();
    if let [one] = all[..] { Some(one) } else { None }
}

/// The modes of the tensor along which the leaves of a mode of a view run.
pub(super) fn shown(view: &View, mode: usize) -> Vec<usize> {
    let Ok(mode) = view.layout.mode(mode) else { return Vec::new() };
    let all = mode.leaves().filter_map(|(_, stride)| match stride {
        Value::Basis { path, .. } => Some(usize::from(path.steps()[0])),
        _ => None,
    });
    all.collect()
}

/// Is it a function of coordinates?
pub(super) fn reads_coordinates(value: &Expr) -> bool {
    value.any(&|part| matches!(part, Expr::At(_)))
}

/// The coordinates that inputs have along a mode.
fn all_along(known: &[OutOfBounds], mode: usize) -> impl Iterator<Item = &Coordinate> {
    known.iter().filter_map(move |of| of.at.as_ref()?.get(mode))
}

/// For each mode the first input's coordinate that is known: an input that is repeated along a mode has none there.
fn first_known(known: &[OutOfBounds], to: &View) -> Option<Coordinates> {
    let one = |mode| {
        let first = || all_along(known, mode).next();
        let at = all_along(known, mode).find(|at| at.known().is_some()).or_else(first);
        at.cloned().unwrap_or(Coordinate::Unknown(None))
    };
    known.iter().any(|of| of.at.is_some()).then(|| (0..to.rank()).map(one).collect())
}

/// For each mode the coordinate of the inputs that have one. It is mixed if they have different ones.
fn agreed(known: &[OutOfBounds], to: &View, stmt: Id) -> Option<Coordinates> {
    let all = first_known(known, to)?;
    let one = |(mode, first): (usize, Coordinate)| {
        let mut mixed = all_along(known, mode).filter(|at| matches!(at, Coordinate::Mixed(..)));
        match (mixed.next(), first) {
            (Some(mixed), _) => mixed.clone(),
            (None, Coordinate::At(edge)) => {
                let mut others = all_along(known, mode).filter_map(Coordinate::known);
                match others.all(|other| other.is_same_coordinate(&edge)) {
                    true => Coordinate::At(edge),
                    false => Coordinate::Mixed(edge, stmt),
                }
            }
            (None, unknown) => unknown,
        }
    };
    Some(all.into_iter().enumerate().map(one).collect())
}

/// Where inputs may still be as they were filled: do other inputs have all of their edges?
fn begun_is_covered(known: &[OutOfBounds], edges: &[Vec<Edge>]) -> bool {
    let sure: Vec<&Edge> =
        known.iter().zip(edges).filter(|(of, _)| of.begun.is_none()).flat_map(|(_, edges)| edges).collect();
    known
        .iter()
        .zip(edges)
        .filter(|(of, _)| of.begun.is_some())
        .all(|(_, edges)| edges.iter().all(|edge| sure.contains(&edge)))
}

/// The input that a function returns unchanged if the others have these values.
fn neutral(value: &Expr, number: &dyn Fn(u8) -> Option<f64>) -> Option<u8> {
    let inner = |x: &Expr| neutral(x, number);
    let is = |x: &Expr, wanted: f64| literal(x, number) == Some(wanted);
    let either = |x: &Expr, y: &Expr, wanted: f64| match () {
        () if is(y, wanted) => inner(x),
        () if is(x, wanted) => inner(y),
        () => None,
    };
    match value {
        Expr::In(n) if number(*n).is_none() => Some(*n),
        Expr::Bin(Bin::Add | Bin::Or | Bin::Xor, x, y) => either(x, y, 0.0),
        Expr::Bin(Bin::Sub, x, y) if is(y, 0.0) => inner(x),
        Expr::Bin(Bin::Mul, x, y) => either(x, y, 1.0),
        Expr::Bin(Bin::Max, x, y) => either(x, y, f64::NEG_INFINITY),
        Expr::Bin(Bin::Min, x, y) => either(x, y, f64::INFINITY),
        Expr::Fma(of) if product(&of[0], &of[1], number) == Some(0.0) => inner(&of[2]),
        _ => None,
    }
}

/// The value of arithmetic on inputs of these values, where no step of it rounds.
fn literal(of: &Expr, number: &dyn Fn(u8) -> Option<f64>) -> Option<f64> {
    let of_both = |x: &Expr, y: &Expr| Some((literal(x, number)?, literal(y, number)?));
    match of {
        Expr::In(n) => number(*n),
        Expr::Lit(x) => Some(x.to_f64()),
        Expr::Cast(to, x) => match (&**x, literal(x, number)?) {
            (Expr::Lit(x), _) => Some(x.value(*to)),
            // Conversions keep 0; conversions to floating-point types keep infinities.
            (_, x) => Some(x).filter(|x| *x == 0.0 || (x.is_infinite() && to.is_float())),
        },
        Expr::Un(Un::Neg, x) => literal(x, number).filter(|x| *x == 0.0),
        Expr::Un(Un::Abs, x) => literal(x, number).map(f64::abs),
        Expr::Bin(Bin::Mul, x, y) => product(x, y, number),
        Expr::Bin(Bin::Div, x, y) => of_both(x, y).filter(|(x, y)| *x == 0.0 && *y != 0.0).map(|_| 0.0),
        Expr::Bin(Bin::Add | Bin::Sub, x, y) => of_both(x, y).filter(|both| *both == (0.0, 0.0)).map(|_| 0.0),
        Expr::Bin(Bin::Max, x, y) => of_both(x, y).map(|(x, y)| x.max(y)),
        Expr::Bin(Bin::Min, x, y) => of_both(x, y).map(|(x, y)| x.min(y)),
        _ => None,
    }
}

/// A product with a 0.
fn product(x: &Expr, y: &Expr, number: &dyn Fn(u8) -> Option<f64>) -> Option<f64> {
    let (x, y) = (literal(x, number)?, literal(y, number)?);
    ((x == 0.0 || y == 0.0) && x * y == 0.0).then_some(0.0)
}
