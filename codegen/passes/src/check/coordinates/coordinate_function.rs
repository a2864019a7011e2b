//! A coordinate as a function of (thread, value), and the equality of two such functions.
//!
//! The tile's origin is uniform and left out: functions are compared up to a constant.

use std::rc::Rc;

use crate::tile::Across;
use crate::values::affine::Affine;
use crate::view_elements::{Budget, Mask, for_each_thread};

/// The contributions of the values, `None` for values that were never written, which equal everything.
pub(super) type Row = Vec<Option<i64>>;

/// The contribution of the thread.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Start {
    /// Digits of its index are added.
    Terms(Affine),
    /// A number for each thread is added.
    Listed(Rc<[i64]>),
    /// Each thread has one of the rows.
    Rows(Rc<[usize]>),
}

/// From (thread, value) to a coordinate.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Function {
    pub(super) start: Start,
    /// A single row, unless threads have their own.
    pub(super) rows: Rc<Vec<Row>>,
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
        Function::sum(Start::Terms(thread), values.iter().map(|at| Some(*at)).collect())
    }

    /// The sum of the thread's and the value's contributions.
    pub(super) fn sum(start: Start, values: Row) -> Function {
        Function { start, rows: Rc::new(vec![values]) }
    }

    /// From tables: a sum where it is one.
    pub(super) fn listed(class: Vec<usize>, rows: Vec<Row>) -> Function {
        let starts: Option<Vec<i64>> = rows.iter().map(|row| row.first().copied().flatten()).collect();
        if let Some(starts) = starts.filter(|starts| !starts.is_empty()) {
            let from_first =
                |row: &Row, start: i64| -> Row { row.iter().map(|at| Some((*at)? - start)).collect() };
            let values = from_first(&rows[0], starts[0]);
            let is_sum = |(row, start): (&Row, &i64)| from_first(row, *start) == values;
            if values.iter().all(Option::is_some) && rows.iter().zip(&starts).all(is_sum) {
                let start = Start::Listed(class.iter().map(|class| starts[*class]).collect());
                return Function::sum(start, values);
            }
        }
        Function { start: Start::Rows(class.into()), rows: Rc::new(rows) }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.first().map_or(0, Vec::len)
    }

    /// The row to whose values the thread's contribution is added, if all threads have the same one.
    pub(super) fn values(&self) -> Option<&Row> {
        if let Start::Rows(_) = self.start { None } else { self.rows.first() }
    }

    /// Reorders the values; `None` for a function that is undetermined.
    pub(super) fn pick(&self, which: &[Option<usize>]) -> Function {
        let row =
            |row: &Row| which.iter().map(|at| at.and_then(|at| row.get(at).copied().flatten())).collect();
        Function { start: self.start.clone(), rows: Rc::new(self.rows.iter().map(row).collect()) }
    }

    /// Does each value have the coordinate of its representative?
    pub(super) fn folds(&self, onto: &[usize]) -> bool {
        let row = |row: &Row| {
            row.iter().zip(onto).all(|(x, at)| match (x, row.get(*at).copied().flatten()) {
                (Some(x), Some(y)) => *x == y,
                _ => true,
            })
        };
        self.rows.iter().all(row)
    }

    /// Is it constant?
    pub(super) fn is_constant(&self) -> bool {
        let starts_alike = match &self.start {
            Start::Terms(terms) => terms.terms.is_empty(),
            Start::Listed(starts) => starts.iter().all(|at| *at == starts[0]),
            Start::Rows(_) => true,
        };
        let mut all = self.rows.iter().flatten().flatten();
        let first = all.next();
        starts_alike && all.all(|at| Some(at) == first)
    }

    /// Is it uniform in each group of threads? `None` if the budget runs out.
    pub(super) fn same_in_groups(&self, of: Across, threads: u32, budget: &mut Budget) -> Option<bool> {
        if matches!(&self.start, Start::Terms(terms) if terms.terms.is_empty()) {
            return Some(true);
        }
        let list = self.start.list(threads, budget)?;
        Some((0..list.len()).all(|thread| list[thread] == list[of.first(thread as u32) as usize]))
    }

    /// The function, prepared for many evaluations.
    pub(super) fn lists(&self, threads: u32, budget: &mut Budget) -> Option<Lists<'_>> {
        Some(Lists { starts: self.start.list(threads, budget)?, function: self })
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
        let is_sum = |of: &Function| of.values().is_some_and(|values| values.iter().all(Option::is_some));
        let sums = mask.is_empty() && is_sum(self) && is_sum(other);
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
        if self.values().is_none() || other.values().is_none() {
            return false;
        }
        let mut list = |of: &Function| of.start.list(threads, budget);
        self.start == other.start
            || list(self)
                .zip(list(other))
                .is_some_and(|(x, y)| x.iter().zip(&y).all(|(x0, y0)| x0 - x[0] == y0 - y[0]))
    }
}

impl Start {
    /// The number, or the row, of each thread.
    fn list(&self, threads: u32, budget: &mut Budget) -> Option<Vec<i64>> {
        match self {
            Start::Terms(terms) => for_each_thread(terms, threads, budget),
            Start::Listed(list) => Some(list.to_vec()),
            Start::Rows(rows) => Some(rows.iter().map(|row| *row as i64).collect()),
        }
    }
}

/// A function prepared for many evaluations.
pub(super) struct Lists<'f> {
    starts: Vec<i64>,
    function: &'f Function,
}

impl Lists<'_> {
    pub(super) fn at(&self, thread: u32, value: usize) -> Option<i64> {
        let start = *self.starts.get(thread as usize)?;
        match self.function.values() {
            Some(values) => Some(start + values[value]?),
            None => self.function.rows[start as usize][value],
        }
    }
}
