//! A coordinate as a function of (thread, value), and the equality of two such functions.
//!
//! The tile's origin is uniform and left out: functions are compared up to a constant.

use std::rc::Rc;

use super::super::Budget;
use super::view_elements::{Mask, for_each_thread};
use crate::tile::Across;
use crate::values::affine::Affine;

/// The thread's contribution.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Start {
    /// Digits of its index.
    Terms(Affine),
    /// A number for each thread.
    Listed(Rc<[i64]>),
}

/// From (thread, value) to a coordinate. A value that was never written is `None` and equals everything.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Function {
    /// The sum of the thread's and the value's contributions.
    Sum {
        /// The thread's contribution.
        start: Start,
        /// The value's contribution.
        values: Vec<Option<i64>>,
    },
    /// Anything else: threads of a class have the same values.
    Listed {
        /// The class of each thread.
        class: Rc<[usize]>,
        /// For each class, each value.
        values: Rc<Vec<Vec<Option<i64>>>>,
    },
}

/// Where two functions differ: a thread and a value, and both results there, relative to a point where both
/// are 0.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Witness {
    pub(super) thread: u32,
    pub(super) value: usize,
    pub(super) ours: i64,
    pub(super) theirs: i64,
}

/// The outcome of a comparison.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Verdict {
    Same,
    Differ(Witness),
    /// The budget ran out.
    Undecided,
}

impl Function {
    /// A function of the thread's digits and the elements of a view.
    pub(super) fn new(thread: Affine, values: &[i64]) -> Function {
        let values = values.iter().map(|at| Some(*at)).collect();
        Function::Sum { start: Start::Terms(thread), values }
    }

    /// From tables: a sum where it is one.
    pub(super) fn listed(class: Vec<usize>, values: Vec<Vec<Option<i64>>>) -> Function {
        let first = values.first().and_then(|row| row.first().copied().flatten());
        let starts: Option<Vec<i64>> = values.iter().map(|row| row.first().copied().flatten()).collect();
        if let (Some(first), Some(starts)) = (first, starts) {
            let whole = |(row, start): (&Vec<Option<i64>>, &i64)| {
                row.iter().zip(&values[0]).all(|(x, y)| match (x, y) {
                    (Some(x), Some(y)) => x - start == y - first,
                    _ => false,
                })
            };
            if values.iter().zip(&starts).all(whole) {
                let start = Start::Listed(class.iter().map(|class| starts[*class]).collect());
                let values = values[0].iter().map(|at| at.map(|at| at - first)).collect();
                return Function::Sum { start, values };
            }
        }
        Function::Listed { class: class.into(), values: values.into() }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Function::Sum { values, .. } => values.len(),
            Function::Listed { values, .. } => values.first().map_or(0, Vec::len),
        }
    }

    /// Reorders the values; `None` for a function that is undetermined.
    pub(super) fn pick(&self, which: &[Option<usize>]) -> Function {
        let row = |row: &Vec<Option<i64>>| -> Vec<Option<i64>> {
            which.iter().map(|at| at.and_then(|at| row.get(at).copied().flatten())).collect()
        };
        match self {
            Function::Sum { start, values } => Function::Sum { start: start.clone(), values: row(values) },
            Function::Listed { class, values } => {
                Function::Listed { class: class.clone(), values: Rc::new(values.iter().map(row).collect()) }
            }
        }
    }

    /// Does each value have the coordinate of its representative?
    pub(super) fn folds(&self, onto: &[usize]) -> bool {
        let row = |row: &Vec<Option<i64>>| {
            row.iter().zip(onto).all(|(x, at)| match (x, row.get(*at).copied().flatten()) {
                (Some(x), Some(y)) => *x == y,
                _ => true,
            })
        };
        match self {
            Function::Sum { values, .. } => row(values),
            Function::Listed { values, .. } => values.iter().all(row),
        }
    }

    /// Is it independent of the value?
    pub(super) fn same_for_values(&self) -> bool {
        self.folds(&vec![0; self.len()])
    }

    /// Is it constant?
    pub(super) fn is_constant(&self) -> bool {
        match self {
            Function::Sum { start: Start::Terms(terms), .. } => {
                terms.terms.is_empty() && self.same_for_values()
            }
            Function::Sum { start: Start::Listed(starts), .. } => {
                starts.iter().all(|at| *at == starts[0]) && self.same_for_values()
            }
            Function::Listed { values, .. } => {
                let mut all = values.iter().flatten().flatten();
                let first = all.next();
                all.all(|at| Some(at) == first)
            }
        }
    }

    /// Is it uniform in each group of threads? `None` if the budget runs out.
    pub(super) fn same_in_groups(&self, of: Across, threads: u32, budget: &mut Budget) -> Option<bool> {
        let first = |thread: usize| of.first(thread as u32) as usize;
        let alike = |list: &[i64]| list.iter().enumerate().all(|(thread, at)| *at == list[first(thread)]);
        match self {
            Function::Sum { start: Start::Terms(terms), .. } if terms.terms.is_empty() => Some(true),
            Function::Sum { start, .. } => Some(alike(&start.list(threads, budget)?)),
            Function::Listed { class, .. } => {
                let classes: Vec<i64> = class.iter().map(|class| *class as i64).collect();
                Some(alike(&classes))
            }
        }
    }

    /// The coordinates of each thread, as a function of thread and value.
    pub(super) fn lists(&self, threads: u32, budget: &mut Budget) -> Option<Lists<'_>> {
        Some(match self {
            Function::Sum { start, values } => Lists::Sum(start.list(threads, budget)?, values),
            Function::Listed { class, values } => Lists::Rows(class, values),
        })
    }

    /// Are both functions equal up to a constant? Only where the mask has elements.
    pub(super) fn compare(
        &self,
        other: &Function,
        mask: &Mask,
        threads: u32,
        budget: &mut Budget,
    ) -> Verdict {
        if self == other {
            return Verdict::Same;
        }
        let values = self.len().min(other.len());
        let whole = |values: &[Option<i64>]| values.iter().all(Option::is_some);
        let sums = match (self, other) {
            (Function::Sum { values, .. }, Function::Sum { values: others, .. }) => {
                mask.is_empty() && whole(values) && whole(others)
            }
            _ => false,
        };
        let (Some(ours), Some(theirs)) = (self.lists(threads, budget), other.lists(threads, budget)) else {
            return Verdict::Undecided;
        };
        // Two sums differ in the thread's contribution, or in the value's.
        let places: Box<dyn Iterator<Item = (u32, usize)>> = match sums {
            true => Box::new((0..threads).map(|t| (t, 0)).chain((0..values).map(|v| (0, v)))),
            false => Box::new((0..threads).flat_map(|t| (0..values).map(move |v| (t, v)))),
        };
        if !sums && !budget.take(threads as usize * values) {
            return Verdict::Undecided;
        }
        let mut first: Option<(i64, i64)> = None;
        for (thread, value) in places.filter(|(thread, value)| mask.has(*thread, *value)) {
            let (Some(x), Some(y)) = (ours.at(thread, value), theirs.at(thread, value)) else { continue };
            let (x0, y0) = *first.get_or_insert((x, y));
            if x - x0 != y - y0 {
                return Verdict::Differ(Witness { thread, value, ours: x - x0, theirs: y - y0 });
            }
        }
        Verdict::Same
    }

    /// Are the thread's contributions equal up to a constant?
    pub(super) fn starts_like(&self, other: &Function, threads: u32, budget: &mut Budget) -> bool {
        let (Function::Sum { start, .. }, Function::Sum { start: other, .. }) = (self, other) else {
            return false;
        };
        let lists = |budget: &mut Budget| Some((start.list(threads, budget)?, other.list(threads, budget)?));
        start == other
            || lists(budget).is_some_and(|(x, y)| x.iter().zip(&y).all(|(x0, y0)| x0 - x[0] == y0 - y[0]))
    }
}

impl Start {
    fn list(&self, threads: u32, budget: &mut Budget) -> Option<Vec<i64>> {
        match self {
            Start::Terms(terms) => for_each_thread(terms, threads, budget),
            Start::Listed(list) => Some(list.to_vec()),
        }
    }
}

/// A function prepared for many evaluations.
pub(super) enum Lists<'f> {
    Sum(Vec<i64>, &'f [Option<i64>]),
    Rows(&'f [usize], &'f [Vec<Option<i64>>]),
}

impl Lists<'_> {
    pub(super) fn at(&self, thread: u32, value: usize) -> Option<i64> {
        match self {
            Lists::Sum(starts, values) => Some(starts.get(thread as usize)? + values[value]?),
            Lists::Rows(class, rows) => rows[*class.get(thread as usize)?][value],
        }
    }
}
