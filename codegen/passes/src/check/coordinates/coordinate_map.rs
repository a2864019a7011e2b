//! The origin of a shared tensor's elements: a coordinate as a function of the element, inferred from the
//! threads that write it.

use std::collections::HashMap;
use std::rc::Rc;

use super::coordinate_function::{Function, Start};
use crate::tile::Tensor;
use crate::tile::view::View;
use crate::values::affine::{Affine, Coord};
use crate::view_elements::{Budget, Elements, Mask, for_each_thread, parts};

/// From an element of a shared tensor to a coordinate, up to a constant.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum CoordinateMap {
    /// The stride of the coordinate along each mode; `None` along a mode in which no copy varies, such as the
    /// slot.
    Steps(Vec<Option<i64>>),
    /// A table, leftmost mode fastest; modes along which copies do not vary are left out.
    Listed(Rc<Table>),
}

/// Coordinates of elements.
#[derive(PartialEq, Debug)]
pub(super) struct Table {
    /// Extents of the modes, 1 for modes that are left out.
    extents: Vec<i64>,
    /// For each mode, whether it is left out.
    still: Vec<bool>,
    at: Vec<Option<i64>>,
}

/// A view of a shared tensor, taken apart.
pub(super) struct Access<'v> {
    elements: &'v Elements,
    /// For each mode: the thread's contribution.
    thread: Vec<Affine>,
    /// For each mode: the uniform contribution, where it is a number.
    fixed: Vec<Option<i64>>,
    extents: Vec<i64>,
    mask: Mask,
    threads: u32,
}

impl<'v> Access<'v> {
    /// `None` if the view cannot be followed.
    pub(super) fn new(
        view: &View,
        tensor: &Tensor,
        elements: &'v Elements,
        threads: u32,
        budget: &mut Budget,
    ) -> Option<Access<'v>> {
        let (mut thread, mut fixed) = (Vec::new(), Vec::new());
        for base in &view.base {
            let (terms, uniform, constant) = parts(base)?;
            thread.push(terms);
            fixed.push(uniform.terms.is_empty().then_some(constant));
        }
        let mask = Mask::of(view, elements, threads, budget)?;
        Some(Access { elements, thread, fixed, extents: tensor.extents()?, mask, threads })
    }

    fn moves(&self, mode: usize) -> bool {
        !self.thread[mode].terms.is_empty() || self.elements.moves(mode)
    }

    /// A read: the coordinate as a function of thread and value.
    pub(super) fn read(&self, position: &CoordinateMap, budget: &mut Budget) -> Option<Function> {
        match position {
            CoordinateMap::Steps(steps) => {
                let (mut start, mut values) = (Affine::default(), vec![0i64; self.elements.len()]);
                for (mode, step) in steps.iter().enumerate() {
                    let Some(step) = step else {
                        if self.moves(mode) {
                            return None;
                        }
                        continue;
                    };
                    start = start.plus(&self.thread[mode], *step)?;
                    for (value, at) in values.iter_mut().zip(&self.elements.along[mode]) {
                        *value += at * step;
                    }
                }
                Some(Function::new(start, &values))
            }
            CoordinateMap::Listed(table) => {
                let (class, starts) = self.starts(&table.still, budget)?;
                let mut rows = Vec::new();
                for start in starts {
                    if !budget.take(self.elements.len()) {
                        return None;
                    }
                    let row = (0..self.elements.len()).map(|element| {
                        let index = self.elements.index(&start, &table.extents, element);
                        index.and_then(|index| table.at.get(index).copied().flatten())
                    });
                    rows.push(row.collect());
                }
                Some(Function::listed(class, rows))
            }
        }
    }

    /// The inverse of a write: the coordinate of each element.
    pub(super) fn written(&self, what: &Function, budget: &mut Budget) -> Option<CoordinateMap> {
        self.steps(what).map(CoordinateMap::Steps).or_else(|| self.table(what, budget))
    }

    /// Strides along the modes, if each submode of the thread and each value varies along a single mode.
    fn steps(&self, what: &Function) -> Option<Vec<Option<i64>>> {
        let (Start::Terms(start), Some(values)) = (&what.start, what.values()) else { return None };
        let mut moves: Vec<(Vec<i64>, i64)> = Vec::new();
        let mut submodes: Vec<&Coord> = Vec::new();
        for (coord, _) in self.thread.iter().chain([start]).flat_map(|terms| &terms.terms) {
            if !submodes.contains(&coord) {
                submodes.push(coord);
            }
        }
        let factor = |terms: &Affine, submode: &Coord| {
            terms.terms.iter().find(|(coord, _)| coord == submode).map_or(0, |(_, factor)| *factor)
        };
        for submode in submodes {
            moves.push((
                self.thread.iter().map(|terms| factor(terms, submode)).collect(),
                factor(start, submode),
            ));
        }
        let first = (*values.first()?)?;
        for (element, value) in values.iter().enumerate() {
            let Some(value) = value else { continue };
            let by = self.elements.along.iter().map(|along| along[element] - along[0]).collect();
            moves.push((by, value - first));
        }
        let mut steps = vec![None; self.thread.len()];
        for (by, gain) in &moves {
            let mut along = by.iter().enumerate().filter(|(_, by)| **by != 0);
            if let (Some((mode, by)), None) = (along.next(), along.next())
                && steps[mode].is_none()
                && gain % by == 0
            {
                steps[mode] = Some(gain / by);
            }
        }
        let explained = |(by, gain): &(Vec<i64>, i64)| {
            let sum = by.iter().zip(&steps).try_fold(0i64, |sum, (by, step)| match (by, step) {
                (0, _) => Some(sum),
                (by, Some(step)) => Some(sum + by * step),
                (_, None) => None,
            });
            sum == Some(*gain)
        };
        moves.iter().all(explained).then_some(steps)
    }

    fn table(&self, what: &Function, budget: &mut Budget) -> Option<CoordinateMap> {
        let still: Vec<bool> = (0..self.thread.len()).map(|mode| !self.moves(mode)).collect();
        let extents: Vec<i64> =
            self.extents.iter().zip(&still).map(|(n, still)| if *still { 1 } else { *n }).collect();
        let size = usize::try_from(extents.iter().product::<i64>()).ok()?;
        if !budget.take(self.threads as usize * self.elements.len()) || !budget.take(size) {
            return None;
        }
        let (class, starts) = self.starts(&still, budget)?;
        let lists = what.lists(self.threads, budget)?;
        let mut at = vec![None; size];
        for thread in 0..self.threads {
            for element in 0..self.elements.len() {
                if !self.mask.has(thread, element) {
                    continue;
                }
                let Some(coordinate) = lists.at(thread, element) else { continue };
                let position = self.elements.index(&starts[class[thread as usize]], &extents, element)?;
                match at.get_mut(position)? {
                    // Two coordinates collide in one element.
                    Some(known) if *known != coordinate => return None,
                    known => *known = Some(coordinate),
                }
            }
        }
        Some(CoordinateMap::Listed(Rc::new(Table { extents, still, at })))
    }

    /// The distinct starts of threads, and the index of each thread's. Only along modes that count.
    fn starts(&self, still: &[bool], budget: &mut Budget) -> Option<(Vec<usize>, Vec<Vec<i64>>)> {
        let mut along = Vec::new();
        for (mode, still) in still.iter().enumerate() {
            if *still {
                // A table without a mode has no steps along it.
                if self.moves(mode) {
                    return None;
                }
                along.push(vec![0; self.threads as usize]);
                continue;
            }
            let fixed = Affine { constant: self.fixed[mode]?, ..self.thread[mode].clone() };
            along.push(for_each_thread(&fixed, self.threads, budget)?);
        }
        let (mut class, mut starts, mut known) = (Vec::new(), Vec::new(), HashMap::new());
        for thread in 0..self.threads as usize {
            let start: Vec<i64> = along.iter().map(|along| along[thread]).collect();
            let position = *known.entry(start.clone()).or_insert(starts.len());
            if position == starts.len() {
                starts.push(start);
            }
            class.push(position);
        }
        Some((class, starts))
    }

    /// Is every element of the tensor written? For a view whose (thread, value) pairs are injective.
    pub(super) fn covers(&self, budget: &mut Budget) -> bool {
        let still = vec![false; self.thread.len()];
        let Some((_, starts)) = self.starts(&still, budget) else { return false };
        let reached = starts.len() * self.elements.len();
        let size: i64 = self.extents.iter().product();
        if reached < usize::try_from(size).unwrap_or(usize::MAX) || !budget.take(reached) {
            return false;
        }
        let mut seen = vec![false; usize::try_from(size).unwrap_or(0)];
        for start in &starts {
            for element in 0..self.elements.len() {
                if let Some(index) = self.elements.index(start, &self.extents, element) {
                    seen[index] = true;
                }
            }
        }
        seen.into_iter().all(|seen| seen)
    }
}
