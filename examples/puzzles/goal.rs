//! The goal of a puzzle: a result. An explanation names the first wrong element, and the block and the thread that
//! should write it.

use std::collections::BTreeSet;

use tilewright::Layout;
use tilewright::layouts::Distribution;
use tilewright::sim::Outcome;

use super::check::{Check, coordinates};

/// What writes an element of a result.
pub(super) enum Writer<const R: usize> {
    /// The block that takes the element's tile, in an order of the kernel.
    Any,
    /// The block with the coordinates of the element's tile, of this shape.
    Block([i64; R]),
    /// A thread of this block: the distribution of the tile over threads.
    Thread([i64; R], Distribution),
}

impl<const R: usize> Writer<R> {
    /// Under a thread layout, with a number of neighbours for each thread along each mode.
    pub(super) fn thread(tile: [i64; R], threads: &Layout, values: [i64; R]) -> Writer<R> {
        let parts = Distribution::of_threads(&tile, threads, &values).expect("the layout divides the tile");
        Writer::Thread(tile, parts)
    }
}

/// A result: its name, its layout in memory, and what writes its elements.
pub(super) struct Goal<const R: usize> {
    pub(super) tensor: &'static str,
    pub(super) layout: Layout,
    pub(super) writer: Writer<R>,
}

impl<const R: usize> Goal<R> {
    /// Compares all elements with a function of their coordinates.
    pub(super) fn compare(&self, done: &Outcome, value: impl Fn([usize; R]) -> f32) -> Check {
        self.compare_within(1e-5, done, value)
    }

    /// Compares all elements, with a relative error of the expected elements.
    pub(super) fn compare_within(
        &self,
        error: f32,
        done: &Outcome,
        value: impl Fn([usize; R]) -> f32,
    ) -> Check {
        let results = done.get::<f32>(self.tensor)?;
        let elements = self.layout.offsets()?.map(|offset| results[offset as usize]);
        let close = |at, got: f32| (got - value(at)).abs() <= error * value(at).abs();
        let all: Vec<_> =
            coordinates(&self.layout).zip(elements).filter(|(at, got)| !close(*at, *got)).collect();
        let Some(&(at, got)) = all.first() else { return Ok(()) };
        let ranges: Vec<String> = (0..R).map(|mode| ranges(all.iter().map(|(at, _)| at[mode]))).collect();
        let (name, count) = (self.tensor, all.len());
        Err(format!(
            "`{name}` at {at} is {got:?}; {expected:?} is expected\n\
             {writer} should write it\n\
             {count} of {size} elements are wrong, at coordinates ({ranges})",
            at = tuple(&at),
            expected = value(at),
            writer = self.writer(at),
            size = self.layout.size()?,
            ranges = ranges.join("; "),
        )
        .into())
    }

    /// The block and the thread that should write an element.
    fn writer(&self, at: [usize; R]) -> String {
        let tile = match &self.writer {
            Writer::Any => return "one of the blocks".into(),
            Writer::Block(tile) | Writer::Thread(tile, ..) => tile.map(|extent| extent as usize),
        };
        let along = |mode: usize| if mode < R { at[mode] / tile[mode] } else { 0 };
        let block = format!("block {}", tuple(&[along(0), along(1), along(2)]));
        let Writer::Thread(_, parts) = &self.writer else {
            return format!("a thread of {block}");
        };
        let inner: Vec<i64> = (0..R).map(|mode| (at[mode] % tile[mode]) as i64).collect();
        let has = |thread: &i64| (0..parts.values()).any(|value| parts.coordinate(*thread, value) == inner);
        let thread = (0..parts.threads()).find(has).expect("each element of a tile has a thread");
        format!("thread {thread} of {block}")
    }
}

fn tuple(at: &[usize]) -> String {
    format!("({})", at.iter().map(usize::to_string).collect::<Vec<_>>().join(", "))
}

/// `0-63, 70`
fn ranges(all: impl Iterator<Item = usize>) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for at in all.collect::<BTreeSet<_>>() {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == at => *last = at,
            _ => runs.push((at, at)),
        }
    }
    let text = |&(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    let more = if runs.len() > 4 { ", …" } else { "" };
    runs.iter().take(4).map(text).collect::<Vec<_>>().join(", ") + more
}
