//! Dataflow of coordinates: the coordinates of the user's tensors from which elements come, through copies,
//! shared memory, functions and products. A product must contract one coordinate of both operands, and its
//! sums must be stored to their own coordinates.
//!
//! Coordinates are relative to the tile's origin, which is uniform and which the kernel may choose. Statements
//! that the analysis does not support (instructions of the table, roles, offsets that depend on a loop in
//! another way) are not checked.

mod coordinate_function;
mod coordinate_map;
mod diagnostics;
mod origin;
mod product;
mod store;

use std::collections::{HashMap, HashSet};

use tilewright_layout::Value;

use crate::source::ast::{Level, Name};
use crate::source::diagnostic::Diagnostic;
use crate::thread::Id;
use crate::tile::view::View;
use crate::tile::{Across, How, Multiply, Op, ProductViews, Program, Space, Stmt};
use crate::values::affine::Affine;
use crate::values::flow::{Edit, Forward, end};
use crate::view_elements::{Budget, Elements, Mask, parts};
use coordinate_function::Function;
use coordinate_map::{Access, CoordinateMap};
use origin::{Axis, Coordinates, Origin, Through, combined};
use product::Side;

/// The coordinates that elements come from.
#[derive(Clone, Default, PartialEq)]
struct State {
    /// In registers: for each thread and value.
    registers: HashMap<Id, Origin<Function>>,
    /// In shared memory: for each element.
    shared: HashMap<Id, Origin<CoordinateMap>>,
}

/// The join of two states: the facts of both paths.
fn join<F: Clone + PartialEq>(one: &mut HashMap<Id, Origin<F>>, other: &HashMap<Id, Origin<F>>) {
    for (id, origin) in other {
        let known = one.entry(*id).or_insert(Origin::Any);
        *known = known.join(origin);
    }
}

/// The findings in a program, as its author wrote it.
pub(super) fn find(program: &Program, levels: &[(Name, Level)], budget: &mut Budget) -> Vec<Diagnostic> {
    let mut program = program.clone();
    program.number();
    let mut sources = Sources {
        program: &program,
        levels,
        threads: program.threads().max(1),
        budget,
        reported: HashSet::new(),
        findings: Vec::new(),
        followed: HashSet::new(),
        roles: 0,
    };
    end(&mut sources, &program, &program.body, State::default());
    sources.findings
}

/// The analysis.
struct Sources<'p, 'b> {
    program: &'p Program,
    levels: &'p [(Name, Level)],
    threads: u32,
    budget: &'b mut Budget,
    /// Statements that have been reported.
    reported: HashSet<Id>,
    findings: Vec<Diagnostic>,
    /// Accumulators of products of whole tiles, whose coordinates the tiles state; see [`Op::Flow`].
    followed: HashSet<Id>,
    /// Statements around this one in which groups run at the same time.
    roles: u32,
}

impl Forward<Program> for Sources<'_, '_> {
    type State = State;

    fn join(mut one: State, other: &State) -> State {
        join(&mut one.registers, &other.registers);
        join(&mut one.shared, &other.shared);
        one
    }

    fn pass(&mut self, stmt: &Stmt, state: &mut State) -> Edit<Stmt> {
        self.roles += u32::from(matches!(stmt.op, Op::Roles(_)));
        match &stmt.op {
            // Elements that concurrent groups write are not followed.
            _ if self.roles > 0 => Self::forget(&stmt.writes(), state),
            Op::Copy { how: How::Atom(_), .. } => Self::forget(&stmt.writes(), state),
            Op::Copy { from, to, .. } | Op::Atomic { from, to, .. } => {
                let what = self.read(from, state);
                let what = if self.counts(from) == self.counts(to) { what } else { Origin::Unknown };
                self.write(stmt, to, what, state);
            }
            // A loaded element belongs to the coordinates of its index.
            Op::Gather { at, to, .. } => {
                let ins: Vec<_> = at.iter().map(|(_, view)| self.read(view, state)).collect();
                let what = combined(&ins, self.threads, self.budget);
                self.write(stmt, to, what, state);
            }
            Op::Map { ins, to, value } => {
                let counts = self.counts(to);
                let ins: Vec<Origin<Function>> = ins
                    .iter()
                    .enumerate()
                    .filter(|(n, _)| value.reads(*n as u8))
                    .map(|(_, view)| match self.counts(view) == counts {
                        true => self.read(view, state),
                        false => Origin::Unknown,
                    })
                    .collect();
                let what = combined(&ins, self.threads, self.budget);
                self.write(stmt, to, what, state);
            }
            Op::Gemm { acc, how: Multiply::Atom(_), .. } if self.followed.contains(&acc.tensor) => {}
            Op::Gemm { how: Multiply::Atom(_), .. } => Self::forget(&stmt.writes(), state),
            // One thread's fragments do not show which coordinates of the sums are combined.
            Op::Flow { a, acc, .. }
                if matches!(self.program.tensor(a.tensor).space, Space::Registers { .. }) =>
            {
                self.followed.insert(acc.tensor);
                self.write(stmt, acc, Origin::Unknown, state);
            }
            Op::Gemm { a, b, acc, .. } | Op::Flow { a, b, acc } => {
                if matches!(stmt.op, Op::Flow { .. }) {
                    self.followed.insert(acc.tensor);
                }
                let sums = self.product(stmt, ProductViews { a, b, acc }, state);
                let before = self.read(acc, state);
                let what = combined(&[before, sums], self.threads, self.budget);
                self.write(stmt, acc, what, state);
            }
            Op::Fold { from, to, across, .. } => {
                // Entries are chosen together: each has the origins of all.
                let mut parts: Vec<_> =
                    from.iter().zip(to).map(|(from, to)| self.reduced(from, to, *across, state)).collect();
                parts.extend(to.iter().map(|to| self.read(to, state)));
                let what = combined(&parts, self.threads, self.budget);
                for to in to {
                    self.write(stmt, to, what.clone(), state);
                }
            }
            Op::Scan { from, to, carry, .. } => {
                // Each result belongs to the coordinate of its own element.
                let parts: Vec<_> = from.iter().map(|view| self.read(view, state)).collect();
                let what = combined(&parts, self.threads, self.budget);
                for to in to {
                    self.write(stmt, to, what.clone(), state);
                }
                for carry in carry {
                    self.write(stmt, carry, Origin::Any, state);
                }
            }
            // Nor are other elements.
            _ => Self::forget(&stmt.writes(), state),
        }
        Edit::Keep
    }

    fn after(&mut self, stmt: &Stmt, _state: &mut State) {
        self.roles -= u32::from(matches!(stmt.op, Op::Roles(_)));
    }
}

impl Sources<'_, '_> {
    /// Nothing is known of these tensors.
    fn forget(written: &[&View], state: &mut State) {
        for to in written {
            state.registers.insert(to.tensor, Origin::Unknown);
            state.shared.insert(to.tensor, Origin::Unknown);
        }
    }

    fn elements(&mut self, view: &View) -> Option<Elements> {
        Elements::of(view, self.budget)
    }

    /// How many elements along each mode; `None` if that is not known.
    fn counts(&mut self, view: &View) -> Option<Vec<usize>> {
        self.elements(view).map(|elements| elements.counts)
    }

    /// The coordinates of a view's elements.
    fn read(&mut self, view: &View, state: &State) -> Origin<Function> {
        let Some(elements) = self.elements(view) else { return Origin::Unknown };
        let tensor = self.program.tensor(view.tensor);
        let origin = match tensor.space {
            Space::Global { .. } => {
                Some(Origin::Known(Coordinates { axes: self.axes(view, &elements), sums: false }))
            }
            Space::Registers { .. } => state.registers.get(&view.tensor).map(|origin| {
                origin.and_then(|known| {
                    let which = registers(view, tensor, &elements)?;
                    Some(known.each(|at| Some(at.pick(&which))))
                })
            }),
            Space::Shared { .. } => state.shared.get(&view.tensor).map(|origin| {
                origin.and_then(|known| {
                    let access = Access::new(view, tensor, &elements, self.threads, self.budget)?;
                    Some(known.each(|map| access.read(map, self.budget)))
                })
            }),
        };
        origin.unwrap_or_default()
    }

    /// The coordinates of a view of global memory.
    fn axes(&self, view: &View, elements: &Elements) -> Vec<Axis<Function>> {
        let all = self.program.tensor(view.tensor).plain().leaves().enumerate();
        let all = all.filter(|(_, (extent, _))| *extent != Value::Int(1));
        all.map(|(mode, (extent, _))| {
            let at = parts(&view.base[mode]).map(|(thread, ..)| Function::new(thread, &elements.along[mode]));
            Axis { extent, of: (view.tensor, mode), through: Through::of(view), at }
        })
        .collect()
    }

    fn write(&mut self, stmt: &Stmt, to: &View, what: Origin<Function>, state: &mut State) {
        let tensor = self.program.tensor(to.tensor);
        // An unknown origin needs no elements.
        let elements = if what == Origin::Unknown { None } else { self.elements(to) };
        let Some(elements) = elements else { return Self::forget(&[to], state) };
        match tensor.space {
            Space::Global { .. } => {
                if let Origin::Known(coordinates) = &what {
                    self.judge(stmt, to, &elements, coordinates);
                }
            }
            Space::Registers { .. } => {
                let known = state.registers.entry(to.tensor).or_default();
                *known = in_registers(to, tensor, &elements, &what, known);
            }
            Space::Shared { .. } => {
                let known = state.shared.entry(to.tensor).or_default();
                *known = self.in_shared(to, &elements, &what, known);
            }
        }
    }

    /// A shared tensor after a write: earlier knowledge remains valid unless all of the tensor is written.
    fn in_shared(
        &mut self,
        to: &View,
        elements: &Elements,
        what: &Origin<Function>,
        before: &Origin<CoordinateMap>,
    ) -> Origin<CoordinateMap> {
        let tensor = self.program.tensor(to.tensor);
        let Some(access) = Access::new(to, tensor, elements, self.threads, self.budget) else {
            return Origin::Unknown;
        };
        let written = what.and_then(|known| Some(known.each(|at| access.written(at, self.budget))));
        let joined = before.join(&written);
        match joined == written || !access.covers(self.budget) {
            true => joined,
            false => written,
        }
    }

    /// The coordinates of a product's sums.
    fn product(&mut self, stmt: &Stmt, views: ProductViews<'_>, state: &State) -> Origin<Function> {
        let ProductViews { a, b, acc } = views;
        let mut side = |view| match (self.read(view, state), self.elements(view)) {
            (Origin::Known(coordinates), Some(elements)) => Some(Side { view, elements, coordinates }),
            _ => None,
        };
        let (Some(a), Some(b)) = (side(a), side(b)) else { return Origin::Unknown };
        let rank = |side: &Side<'_>| side.elements.counts.len() == 2;
        if !rank(&a) || !rank(&b) {
            return Origin::Unknown;
        }
        match product::contracted(&a, &b, self.threads, self.budget) {
            Ok(summed) => {
                if summed.is_empty() && self.reported.insert(stmt.id) {
                    let apart = product::apart(self.program, &a, &b);
                    self.findings
                        .extend(apart.and_then(|apart| {
                            diagnostics::two_sizes(self.program, self.levels, stmt, apart)
                        }));
                }
                let counts = vec![a.elements.counts[0], b.elements.counts[0]];
                match self.counts(acc) == Some(counts) {
                    true => Origin::Known(product::sums(&a, &b, &summed)),
                    false => Origin::Unknown,
                }
            }
            Err(mismatch) => {
                if self.reported.insert(stmt.id) {
                    self.findings.push(diagnostics::product(self.program, stmt, &a, &b, &mismatch));
                }
                Origin::Unknown
            }
        }
    }

    /// The coordinates of reduced elements.
    fn reduced(&mut self, from: &View, to: &View, across: Across, state: &State) -> Origin<Function> {
        let (whole, part) = (self.counts(from), self.counts(to));
        let (coordinates, whole, part) = match (self.read(from, state), whole, part) {
            (Origin::Known(coordinates), Some(whole), Some(part)) => (coordinates, whole, part),
            (Origin::Any, ..) => return Origin::Any,
            _ => return Origin::Unknown,
        };
        // For each element its representative, and the first element of each result.
        let (mut onto, mut first) = (Vec::new(), Vec::new());
        for element in 0..whole.iter().product::<usize>() {
            let (mut rest, mut step, mut at) = (element, 1, 0);
            for (count, kept) in whole.iter().zip(&part) {
                at += if kept == count { rest % count * step } else { 0 };
                rest /= count;
                step *= count;
            }
            onto.push(at);
            if at == element {
                first.push(Some(element));
            }
        }
        let mut axes = Vec::new();
        for axis in &coordinates.axes {
            let kept = match &axis.at {
                Some(at) => {
                    let alike = across == Across::Thread
                        || at.same_in_groups(across, self.threads, self.budget) == Some(true);
                    alike && at.folds(&onto)
                }
                None => true,
            };
            if kept {
                axes.push(Axis { at: axis.at.as_ref().map(|at| at.pick(&first)), ..axis.clone() });
            }
        }
        Origin::Known(Coordinates { axes, sums: coordinates.sums })
    }

    /// Are elements stored to the coordinates that they belong to?
    fn judge(&mut self, stmt: &Stmt, to: &View, elements: &Elements, coordinates: &Coordinates<Function>) {
        if self.reported.contains(&stmt.id) {
            return;
        }
        let tensor = self.program.tensor(to.tensor);
        let target: Vec<(Value, Option<Function>)> = tensor
            .plain()
            .leaves()
            .enumerate()
            .map(|(mode, (extent, _))| {
                let thread = parts(&to.base[mode]).map(|(thread, ..)| thread);
                (extent, thread.map(|thread| Function::new(thread, &elements.along[mode])))
            })
            .collect();
        let Some(mask) = Mask::of(to, elements, self.threads, self.budget) else { return };
        let Some(lost) = store::misplaced(coordinates, &target, &mask, self.threads, self.budget) else {
            return;
        };
        let finding = diagnostics::store(
            self.program,
            self.levels,
            stmt,
            &diagnostics::Target { view: to, elements, modes: &target },
            coordinates,
            &lost,
            &mut |x, y| x.starts_like(y, self.threads, self.budget),
        );
        self.reported.insert(stmt.id);
        self.findings.extend(finding);
    }
}

/// The register indices of a view; `None` if they depend on more than the view.
fn registers(view: &View, tensor: &crate::tile::Tensor, elements: &Elements) -> Option<Vec<Option<usize>>> {
    let extents = tensor.extents()?;
    let base: Vec<i64> = view.base.iter().map(Affine::constant).collect::<Option<_>>()?;
    (0..elements.len()).map(|element| elements.index(&base, &extents, element).map(Some)).collect()
}

/// Registers after a write. A partial write is merged with the earlier contents where both have the same form.
fn in_registers(
    to: &View,
    tensor: &crate::tile::Tensor,
    elements: &Elements,
    what: &Origin<Function>,
    before: &Origin<Function>,
) -> Origin<Function> {
    let (Some(which), Some(extents)) = (registers(to, tensor, elements), tensor.extents()) else {
        return Origin::Unknown;
    };
    let size = usize::try_from(extents.iter().product::<i64>()).unwrap_or(0);
    let mut inverse = vec![None; size];
    for (element, position) in which.iter().enumerate() {
        if let Some(position) = position {
            inverse[*position] = Some(element);
        }
    }
    let whole = inverse.iter().all(Option::is_some);
    let written = what.and_then(|known| Some(known.each(|at| Some(at.pick(&inverse)))));
    match (whole, &written, before) {
        (true, ..) | (false, _, Origin::Any) => written,
        (false, Origin::Any, _) => before.clone(),
        (false, Origin::Known(new), Origin::Known(old)) => {
            overlaid(new, old).map_or(Origin::Unknown, Origin::Known)
        }
        _ => Origin::Unknown,
    }
}

/// A partial write: some values replaced by others of the same coordinates.
fn overlaid(new: &Coordinates<Function>, old: &Coordinates<Function>) -> Option<Coordinates<Function>> {
    if new.axes.len() != old.axes.len() {
        return None;
    }
    let axes = new.axes.iter().zip(&old.axes).map(|(new, old)| {
        if (new.extent, new.of) != (old.extent, old.of) {
            return None;
        }
        let at = match (&new.at, &old.at) {
            (Some(new), Some(old)) if new.start == old.start => {
                new.values().zip(old.values()).map(|(values, others)| {
                    let values = values.iter().zip(others).map(|(new, old)| new.or(*old)).collect();
                    Function::sum(new.start.clone(), values)
                })
            }
            _ => None,
        };
        Some(Axis { at, ..new.clone() })
    });
    Some(Coordinates { axes: axes.collect::<Option<_>>()?, sums: new.sums || old.sums })
}
