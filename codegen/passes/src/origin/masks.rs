//! Masks: the edges that reductions, scans and scatters leave out. Products must not combine elements past the end of K.

use super::Origins;
use super::out_of_bounds::{CombinedOver, Coordinate, OutOfBounds, State, apart, taken_over, union};
use super::past_k::End;
use super::propagation::shown;
use crate::source::problem::{Problem, Result};
use crate::thread::Id;
use crate::tile::elements::{Along, Edge};
use crate::tile::view::View;
use crate::tile::visit::preorder;
use crate::tile::{Expr, Op, ProductViews, Program, Space, Stmt};
use crate::values::elem::Elem;
use crate::values::lanes::Lanes;
use crate::values::number::{self, Number};
use crate::values::semiring::Semiring;

/// The remedy for sums of products.
const ZERO: &str = "set them to 0 in both: `map(x, |x, at| if at.1 < K { exp(x) } else { 0.0 })`; or use tiles that divide K";

/// The remedy for operands of other products that no copy has filled.
const COPIED: &str =
    "copy operands from global memory to the tile that is multiplied, or use tiles that divide K";

impl Origins<'_> {
    /// A product whose elements past the end of K must not change the result.
    pub(super) fn check_product(
        &mut self,
        stmt: &Stmt,
        ProductViews { a, b, acc }: ProductViews<'_>,
        with: Semiring,
        state: &State,
    ) {
        let kept = self.is_neutral_product([a, b], with, self.program.tensor(acc.tensor).elem, state);
        if with != Semiring::SUMS || [a, b].iter().any(|view| self.operands.contains(&view.tensor)) {
            return self.mask(stmt, kept.map(|()| Vec::new()));
        }
        match kept {
            Ok(()) => _ = self.refused.remove(&stmt.id),
            Err(why) => _ = self.refused.insert(stmt.id, why.at(stmt.span)),
        }
    }

    /// The edges whose out-of-bounds elements a reduction or scan replaces by the identity.
    pub(super) fn mask_of_tuples(
        &self,
        from: &[View],
        identity: &[Number],
        function: &str,
        state: &State,
    ) -> Result<Vec<Edge>> {
        let known = |view: &View| state.get(&view.tensor).cloned().unwrap_or(OutOfBounds::NONE);
        let known: Vec<OutOfBounds> = from.iter().map(known).collect();
        // A tuple leaves the result unchanged if all of its entries do: where one tensor ends, another may continue.
        let are = |contents: fn(&OutOfBounds) -> Option<f64>| {
            known.iter().zip(identity).all(|(known, identity)| contents(known) == Some(identity.to_f64()))
        };
        if known.iter().all(OutOfBounds::is_none) || are(|known| known.contents) {
            return Ok(Vec::new());
        }
        let are_begun = are(|known| known.begun);
        let edges = |known: OutOfBounds| known.edges.filter(|_| known.begun.is_none() || are_begun);
        let all: Option<Vec<Vec<Edge>>> = known.into_iter().map(edges).collect();
        let edges = all
            .map(union)
            .ok_or_else(|| self.unknown(from, function, &self.identity(from, identity), state))?;
        agreeing_edges(&from[0].name, edges)
    }

    /// The coordinates that a function reads; an error if one of them is not known.
    pub(super) fn coordinates_read(&self, value: &Expr, at: &[Coordinate]) -> Result<Vec<Option<Edge>>> {
        let known = |mode: u8| at.get(usize::from(mode)).and_then(Coordinate::known);
        let is_missing = |mode: &u8| value.any(&|part| *part == Expr::At(*mode)) && known(*mode).is_none();
        match (0..=u8::MAX).find(is_missing) {
            Some(mode) => Err(no_coordinate(self.program, mode, at.get(usize::from(mode)))),
            None => Ok(at.iter().map(|at| at.known().cloned()).collect()),
        }
    }

    /// The edges of a ballot or match.
    pub(super) fn mask_of_lanes(&mut self, from: &View, how: &Lanes, state: &State) -> Result<Vec<Edge>> {
        let all = std::slice::from_ref(from);
        let edges = self.all_edges(all, state);
        let value = if *how == Lanes::Ballot { "false" } else { "0" };
        let edges = edges.ok_or_else(|| self.unknown(all, how.name(), value, state))?;
        agreeing_edges(&from.name, edges)
    }

    /// The edges of a scatter's elements: of the values and of their coordinates.
    pub(super) fn mask_of_scatter(&mut self, from: &[View], to: &View, state: &State) -> Result<Vec<Edge>> {
        self.all_edges(from, state).filter(|edges| !are_apart(edges)).ok_or_else(|| {
            Problem::new(format!(
                "it is not known which of the elements that this stores to `{}` are out of bounds, so they cannot be left out",
                to.name
            ))
            .help("give them an index out of bounds, such as -1, and declare it: scatter(…, out_of_bounds = -1)")
        })
    }

    /// The edges of elements that are checked or printed, as far as they are known.
    pub(super) fn mask_of_probe(&mut self, of: &View, state: &State) -> Vec<Edge> {
        let edges = self.all_edges(std::slice::from_ref(of), state);
        edges.filter(|edges| !are_apart(edges)).unwrap_or_default()
    }

    /// The edges of all of these tensors, if they are known.
    fn all_edges(&mut self, from: &[View], state: &State) -> Option<Vec<Edge>> {
        let one = |view: &View| {
            let begun = state.get(&view.tensor).is_some_and(|of| of.begun.is_some());
            self.known(view, state).edges.filter(|_| !begun)
        };
        from.iter().map(one).collect::<Option<Vec<_>>>().map(union)
    }

    /// Refuses a product whose result depends on elements past the end of K.
    fn is_neutral_product(
        &mut self,
        operands: [&View; 2],
        with: Semiring,
        elem: Elem,
        state: &State,
    ) -> Result<()> {
        let mut ends: [Vec<End>; 2] = Default::default();
        for (view, ends) in operands.into_iter().zip(&mut ends) {
            *ends = match self.edges(view, view, state) {
                Some(edges) => edges.into_iter().filter_map(|edge| self.end_along_k(edge)).collect(),
                // Sums of elements from several iterations correspond to no coordinate.
                None if with == Semiring::SUMS => Vec::new(),
                None => vec![End::UNKNOWN],
            };
        }
        for (side, other) in [(0, 1), (1, 0)] {
            for end in &ends[side] {
                let ends_too = ends[other].iter().any(|other| end.is_together_with(other));
                self.is_neutral_past(end, (!ends_too).then_some(side), operands, with, elem, state)?;
            }
        }
        Ok(())
    }

    /// Where an edge ends K, the second mode of an operand.
    fn end_along_k(&self, edge: Edge) -> Option<End> {
        if !edge.runs_along(1) {
            return edge.parts_along(1).then_some(End::UNKNOWN);
        }
        let before = !edge.only_above && self.program.range(&edge.base).lo < 0;
        let along_k = Edge {
            end: self.program.canonical(edge.end),
            modes: edge.modes.get(1).cloned().into_iter().collect(),
            ..edge
        };
        Some(End { size: Some(edge.end), before, edge: Some(along_k) })
    }

    /// `meets`: the operand that ends here, if the other one may have elements there.
    fn is_neutral_past(
        &self,
        end: &End,
        meets: Option<usize>,
        operands: [&View; 2],
        with: Semiring,
        elem: Elem,
        state: &State,
    ) -> Result<()> {
        let fills = with.fills(elem).unwrap_or_default();
        let mut contents = [None; 2];
        for ((view, fill), contents) in operands.into_iter().zip(fills).zip(&mut contents) {
            *contents = match self.program.tensor(view.tensor).space {
                Space::Global { .. } => Some(Number::from(fill).value(self.program.tensor(view.tensor).elem)),
                Space::Shared { .. } | Space::Registers { .. } => state
                    .get(&view.tensor)
                    .and_then(|known| known.contents)
                    .or_else(|| self.writers.value(view, end)),
            };
        }
        let names = operands.map(|view| &view.name);
        let sums = with == Semiring::SUMS;
        match contents {
            [Some(x), Some(y)] if with.is_neutral(x, y, elem) => {
                // Sums of products have the values that the operands' functions have there.
                let meets = meets.filter(|side| !sums && !with.absorbs([x, y][*side], elem));
                meets.map_or(Ok(()), |side| Err(meets_elements(names[side], names[1 - side], [x, y][side])))
            }
            // Products of 0 and finite numbers are 0.
            [Some(0.0), None] | [None, Some(0.0)] if sums => Ok(()),
            [Some(x), Some(y)] => Err(Problem::new(format!(
                "out-of-bounds elements along K are {1} in `{0}` and {3} in `{2}`, which changes the result; {4} and {5} would not",
                names[0],
                shown_as(x),
                names[1],
                shown_as(y),
                shown_as(fills[0]),
                shown_as(fills[1])
            ))
            .help(if sums { ZERO.to_owned() } else { self.other_fills(operands, fills, state) })),
            [x, _] => Err(Problem::new(format!(
                "the elements of `{}` that are out of bounds along K are not known, and this product would combine them",
                names[usize::from(x.is_some())]
            ))
            .help(if sums { ZERO } else { COPIED })),
        }
    }

    /// The remedy if operands do not have these values past the end of K.
    fn other_fills(&self, operands: [&View; 2], fills: [f64; 2], state: &State) -> String {
        let elem = |view: &View| self.program.tensor(view.tensor).elem;
        let lacks = |(view, fill): &(&View, f64)| Number::from(*fill).value(elem(view)) != *fill;
        match operands.into_iter().zip(fills).find(lacks) {
            Some((view, fill)) => format!(
                "{} has no {}: convert `{}` to a type that has it, as in copy(map(x, |x| x as i32), s), or use tiles that divide K",
                elem(view),
                shown_as(fill),
                view.name
            ),
            None if operands.iter().any(|view| self.is_computed(view, state)) => COPIED.into(),
            None => "leave out `fill`: it follows from the product's operations; copy operands of another product to \
                     tiles of their own"
                .into(),
        }
    }

    /// Is it a tile on chip whose out-of-bounds elements no copy has set?
    fn is_computed(&self, view: &View, state: &State) -> bool {
        let is_global = matches!(self.program.tensor(view.tensor).space, Space::Global { .. });
        !is_global && state.get(&view.tensor).and_then(|known| known.contents).is_none()
    }

    /// Keeps the coordinates of elements of these tiles, which are combined along some modes and across threads, for a claim
    /// about elements that are out of bounds there. Along other modes they must be in bounds: other results are not stored.
    pub(super) fn claim(&mut self, stmt: &Stmt, from: &[View], combined: CombinedOver<'_>, state: &State) {
        let one = |view: &View| self.along_all(view, combined, state).unwrap_or_default();
        let all = from.iter().map(one).collect();
        self.put(stmt, Ok(all), |elements, all| elements.claims = all);
    }

    /// The coordinates of a tile's elements; `None` if one is not known along a mode that is not combined.
    fn along_all(&self, view: &View, combined: CombinedOver<'_>, state: &State) -> Option<Vec<Along>> {
        let known = state.get(&view.tensor)?.at.as_ref()?;
        let mut all: Vec<Along> = Vec::new();
        for mode in 0..view.rank() {
            for of in shown(view, mode) {
                let at = match known.get(of) {
                    Some(Coordinate::At(at) | Coordinate::Mixed(at, _)) => Some(at),
                    _ => None,
                };
                let Some(at) = at.filter(|at| !self.program.zero.is_some_and(|size| at.mentions(size)))
                else {
                    if (combined.modes)(mode) { continue } else { return None }
                };
                let seen = taken_over(at.clone(), view)?;
                let runs = (0..view.rank()).any(|mode| (combined.modes)(mode) && seen.runs_along(mode));
                let combined = runs || combined.across.iter().any(|across| apart(&seen.base, *across));
                if !all.iter().any(|known| known.edge == *at) {
                    all.push(Along { edge: at.clone(), combined });
                }
            }
        }
        Some(all)
    }

    /// Refuses a claim that out-of-bounds elements have these values where they have others.
    pub(super) fn claimed(
        &mut self,
        stmt: &Stmt,
        from: &[View],
        values: &[Number],
        combined: CombinedOver<'_>,
        state: &State,
    ) -> Result<Vec<Edge>> {
        self.claim(stmt, from, combined, state);
        for (view, claim) in from.iter().zip(values) {
            let elem = self.program.tensor(view.tensor).elem;
            let edges = |of: &OutOfBounds| of.edges.as_ref().is_some_and(|edges| !edges.is_empty());
            let Some(known) = state.get(&view.tensor).filter(|of| edges(of) && of.begun.is_none()) else {
                continue;
            };
            let Some(value) = known.value() else { continue };
            let claim = claim.value(elem);
            if number::differ(value, claim) {
                let shown = |x: f64| Number::from(x).written_as(elem);
                let name = &view.name;
                return Err(Problem::new(format!(
                    "out-of-bounds elements of `{name}` are {}, but `out_of_bounds` declares {}",
                    shown(value),
                    shown(claim)
                ))
                .help(
                    "remove `out_of_bounds`: these elements are known, and the reduction leaves them out",
                ));
            }
        }
        Ok(Vec::new())
    }

    /// The statement that adds elements which may differ from the identity.
    fn accumulated(&self, from: &[View]) -> String {
        let added = from.iter().find(|view| self.added.contains(&view.tensor));
        added.map_or_else(String::new, |view| {
            format!(": a loop adds elements to `{}`, and their out-of-bounds values are not known", view.name)
        })
    }

    /// An identity as it is written, one number for each tensor.
    fn identity(&self, from: &[View], numbers: &[Number]) -> String {
        let elem = |view: &View| self.program.tensor(view.tensor).elem;
        let all: Vec<String> =
            from.iter().zip(numbers).map(|(view, number)| number.written_as(elem(view))).collect();
        match &all[..] {
            [only] => only.clone(),
            all => format!("({})", all.join(", ")),
        }
    }

    /// The error where it is unknown which elements are out of bounds, with the identity.
    fn unknown(&self, from: &[View], function: &str, fill: &str, state: &State) -> Problem {
        let claim = format!(
            "set out-of-bounds elements, and declare their value: {function}(x, out_of_bounds = {fill})"
        );
        let is_idle = |view: &&View| state.get(&view.tensor).is_some_and(OutOfBounds::depends_on_path);
        match from.iter().find(is_idle) {
            Some(view) => Problem::new(format!(
                "`{}` is set only in a loop or `if` that may not run: it is not known which of its elements are out of bounds, so they cannot be left out",
                view.name
            ))
            .help(format!("reduce in the loop, and combine the results; or {claim}")),
            None => Problem::new(format!(
                "it is not known which elements of `{}` are out of bounds, so they cannot be left out{}",
                from[0].name,
                self.accumulated(from)
            ))
            .help(format!("reduce elements in the iteration that copied them from global memory; or copy them to registers first, filled with the identity, copy(x, piece, fill = {fill}); or {claim}")),
        }
    }
}

/// The error where one operand ends and the other may go on: the first one's value there does not absorb elements.
fn meets_elements(ends: &str, goes_on: &str, value: f64) -> Problem {
    Problem::new(format!(
        "along K, `{ends}` may end where `{goes_on}` still has elements, and {} combined with an element changes the result",
        shown_as(value)
    ))
    .help("give both extents one name, or declare that they are equal: assert(K == L); or use tiles that divide them")
}

/// Edges of one coordinate, unless elements are computed from several coordinates along it: at the edge, one may be in
/// bounds and another out of bounds.
fn agreeing_edges(name: &str, edges: Vec<Edge>) -> Result<Vec<Edge>> {
    if !are_apart(&edges) {
        return Ok(edges);
    }
    Err(Problem::new(format!(
        "`{name}` is computed from a tile and from the same tile shifted, so it is not known which of its elements are out of bounds"
    ))
    .help("set those that are out of bounds, and combine all: `let t = map((x, near), |x, near, at| if at.0 < N { near - x } else { 0.0 })`, then sum(t, out_of_bounds = 0.0)"))
}

/// Are some of these edges the same at several places?
fn are_apart(edges: &[Edge]) -> bool {
    edges.iter().any(|one| edges.iter().any(|other| one.is_shifted(other)))
}

/// The error where a function reads a coordinate that is unknown, with the statement that has left none.
fn no_coordinate(program: &Program, mode: u8, at: Option<&Coordinate>) -> Problem {
    let words = |by: &Id| {
        let stmt = preorder(&program.body).find(|stmt| stmt.id == *by);
        stmt.map_or_else(String::new, |stmt| match &stmt.op {
            Op::For { var, .. } | Op::Step { var, .. } => {
                format!("the loop over `{}`", program.vars[*var as usize].name)
            }
            _ => stmt.words(),
        })
    };
    let why = match at {
        Some(Coordinate::Mixed(_, by)) => {
            format!(": {} combines elements of different coordinates", words(by))
        }
        Some(Coordinate::Unknown(Some(by))) => format!(": {} leaves them unknown", words(by)),
        _ => String::new(),
    };
    Problem::new(format!(
        "it is not known which coordinates elements have along mode {mode} here, so `at.{mode}` has no value{why}"
    ))
    .help("pass a tile of the intended tensor as well, which the closure does not read: (x, tile_of_y) and |x, _, at| …; coordinates within a tile are iota((64, 32), 0)")
}

/// A value in a message.
fn shown_as(x: f64) -> String {
    match x.is_infinite() {
        true => format!("{}∞", if x < 0.0 { "-" } else { "" }),
        false => format!("{x:?}"),
    }
}
