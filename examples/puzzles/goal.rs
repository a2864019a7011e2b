//! The goal of a puzzle: a result. An explanation names the first wrong element, and the block and the thread that
//! should write it.

use std::collections::BTreeSet;
use std::error::Error;

use tilewright::Layout;
use tilewright::layouts::Distribution;
use tilewright::sim::Outcome;

use super::check::{Check, coordinates};

/// A result: its name, its layout in memory, the tile of a block, and the thread layout if the kernel has one.
pub(super) struct Goal<const R: usize> {
    pub(super) tensor: &'static str,
    pub(super) layout: Layout,
    pub(super) tile: [i64; R],
    pub(super) threads: Option<Layout>,
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
            "`{name}` at {at} is {got}; {expected} is expected\n\
             {writer} should write it\n\
             {count} of {size} elements are wrong, at coordinates ({ranges})",
            at = tuple(&at),
            expected = value(at),
            writer = self.writer(at)?,
            size = self.layout.size()?,
            ranges = ranges.join("; "),
        )
        .into())
    }

    /// The block and the thread that should write an element.
    fn writer(&self, at: [usize; R]) -> Result<String, Box<dyn Error>> {
        let (mut block, mut inner) = ([0; 3], Vec::new());
        for (mode, (&at, &tile)) in at.iter().zip(&self.tile).enumerate() {
            block[mode] = at / tile as usize;
            inner.push((at % tile as usize) as i64);
        }
        let block = format!("block {}", tuple(&block));
        let Some(threads) = &self.threads else { return Ok(format!("a thread of {block}")) };
        let parts = Distribution::of_threads(&self.tile, threads, &[])?;
        let has = |thread: &i64| (0..parts.values()).any(|value| parts.coordinate(*thread, value) == inner);
        let thread = (0..parts.threads()).find(has).expect("each element of a tile has a thread");
        Ok(format!("thread {thread} of {block}"))
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
