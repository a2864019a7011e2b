//! The happens-before order: a vector clock for each stream, with the last operation of every other stream
//! that it knows to be finished.

use std::collections::BTreeMap;

/// An operation: its stream, and its index there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) stream: usize,
    pub(crate) number: u64,
}

/// For each stream, the last operation that has happened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock(BTreeMap<usize, u64>);

impl Clock {
    pub(crate) fn covers(&self, point: Point) -> bool {
        self.0.get(&point.stream).is_some_and(|&number| point.number <= number)
    }

    pub(crate) fn add(&mut self, point: Point) {
        let number = self.0.entry(point.stream).or_default();
        *number = point.number.max(*number);
    }

    pub(crate) fn join(&mut self, other: &Clock) {
        other.0.iter().for_each(|(&stream, &number)| self.add(Point { stream, number }));
    }
}

/// A range of device memory that an operation reads or writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) written: bool,
}

impl Range {
    /// Do both touch a byte, and does one of them write?
    pub(crate) fn conflicts(&self, other: &Range) -> bool {
        (self.written || other.written) && self.from < other.to && other.from < self.to
    }
}
