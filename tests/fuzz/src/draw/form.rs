//! Partitions of tiles over threads.

use super::scene::Scene;
use super::text::{list, nested_entries, tuple, with};

/// A partitioned tile.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Form {
    /// Elements of the tile along each mode.
    pub(super) tile: Vec<i64>,
    /// The thread layout: its name and the sizes of its modes.
    pub(super) threads: (String, Vec<i64>),
    /// Which modes of the thread layout partition the tile.
    pub(super) keep: Option<Vec<bool>>,
    /// Vector of a thread along each mode.
    pub(super) values: Vec<i64>,
    pub(super) ragged: bool,
}

impl Form {
    /// Threads along each mode of the tile.
    pub(super) fn counts(&self) -> Vec<i64> {
        let kept = |mode: &usize| self.keep.as_ref().is_none_or(|keep| keep[*mode]);
        (0..self.threads.1.len()).filter(kept).map(|mode| self.threads.1[mode]).collect()
    }

    /// Elements of a thread along each mode.
    pub(super) fn shape(&self) -> Vec<i64> {
        let counts = self.counts();
        let one = |(mode, tile): (usize, &i64)| {
            let values = self.values.get(mode).copied().unwrap_or(1);
            match counts.get(mode) {
                None => *tile,
                Some(count) => {
                    let groups = (tile + values - 1) / values;
                    (groups + count - 1) / count * values
                }
            }
        };
        self.tile.iter().enumerate().map(one).collect()
    }

    /// Does every element belong to one thread?
    pub(super) fn is_exclusive(&self) -> bool {
        self.counts().iter().product::<i64>() == self.threads.1.iter().product::<i64>()
    }

    /// `parallelize(tile, threads, thread.x, …)`
    pub(super) fn of(&self, tile: &str) -> String {
        let mut part = format!("parallelize({tile}, {}, thread.x)", self.threads.0);
        if let Some(keep) = &self.keep {
            let entries: Vec<&str> = keep.iter().map(|&kept| if kept { "1" } else { "_" }).collect();
            part = format!("parallelize({tile}, {}, thread.x, {})", self.threads.0, list(&entries));
        }
        if self.values.iter().any(|&n| n > 1) {
            part = with(part, "values", tuple(&self.values));
        }
        if self.ragged {
            part = with(part, "ragged", true);
        }
        part
    }
}

/// Limit of elements of one thread.
const MOST: i64 = 16;

impl Scene {
    /// A partition of any tile.
    pub(super) fn form(&mut self) -> Form {
        let rank = self.random.weighted(&[(3, 1), (6, 2), (1, 3)]);
        let partitioned = if rank == 1 { 1 } else { self.random.within(1, rank) as usize };
        let modes = self.split(self.threads, partitioned);
        let ragged = self.random.chance(14);
        let (mut tile, mut values, mut each) = (Vec::new(), Vec::new(), 1);
        for mode in 0..rank as usize {
            let count = modes.get(mode).copied().unwrap_or(1);
            let most = (MOST / each).max(1);
            let value = match modes.get(mode) {
                Some(_) if self.random.chance(45) => {
                    self.random.pick(&[1, 2, 4, 4, 8, 3, 16, 16, 16]).min(most)
                }
                _ => 1,
            };
            let groups = self.random.weighted(&[(5, 1), (3, 2), (1, 3), (1, 4)]).min((most / value).max(1));
            each *= value * groups;
            let whole = count * value * groups;
            let whole = if modes.get(mode).is_none() { self.random.within(1, most.min(8)) } else { whole };
            if modes.get(mode).is_none() {
                each = each / groups * whole;
            }
            tile.push(if ragged && modes.get(mode).is_some() {
                // Also a few elements for many threads.
                let least = if self.random.chance(30) { 1 } else { (whole / 2).max(1) };
                let most = if self.random.chance(20) { 1 } else { whole };
                self.random.within(least.min(most), most)
            } else {
                whole
            });
            values.push(value);
        }
        values.truncate(modes.len());
        let threads = self.thread_layout(&modes);
        Form { tile, threads: (threads, modes), keep: None, values, ragged }
    }

    /// Another partition of the same tile; `None` if there is none.
    pub(super) fn otherwise(&mut self, form: &Form) -> Option<Form> {
        for _ in 0..8 {
            let partitioned = self.random.within(1, form.tile.len().min(3) as i64) as usize;
            let mut modes = self.split(self.threads, partitioned);
            let keep = match modes.len() < 3 && self.random.chance(25) {
                true => {
                    // One mode over which the tile is replicated.
                    let at = self.random.below(modes.len() + 1);
                    let shared = self.random.pick(&[2, 4, 8, 16]);
                    let Some(most) = modes.iter().position(|n| n % shared == 0) else { continue };
                    modes[most] /= shared;
                    modes.insert(at, shared);
                    Some((0..modes.len()).map(|mode| mode != at).collect())
                }
                false => None,
            };
            let ragged = form.ragged || self.random.chance(10);
            let values: Vec<i64> = (0..partitioned)
                .map(|_| if self.random.chance(30) { self.random.pick(&[2, 4]) } else { 1 })
                .collect();
            let mut other =
                Form { tile: form.tile.clone(), threads: (String::new(), modes), keep, values, ragged };
            let counts = other.counts();
            let fits = |mode: usize| {
                let (tile, each) = (other.tile[mode], counts[mode] * other.values[mode]);
                tile % each == 0 || ragged
            };
            if (0..counts.len()).all(fits) && other.shape().iter().product::<i64>() <= 2 * MOST {
                other.threads.0 = self.thread_layout(&other.threads.1.clone());
                return Some(other);
            }
        }
        None
    }

    /// A random factorisation into this many factors.
    pub(super) fn split(&mut self, of: i64, parts: usize) -> Vec<i64> {
        let (mut rest, mut all) = (of, Vec::new());
        for _ in 1..parts {
            let divisors: Vec<i64> = (1..=rest).filter(|n| rest % n == 0).collect();
            let one = self.random.pick(&divisors);
            all.push(one);
            rest /= one;
        }
        all.push(rest);
        self.random.shuffled(&all)
    }

    /// A thread layout with these modes, some of them nested, its strides in any order.
    pub(super) fn thread_layout(&mut self, modes: &[i64]) -> String {
        let nested: Vec<Vec<i64>> = modes
            .iter()
            .map(|&mode| match mode % 2 == 0 && mode > 2 && self.random.chance(12) {
                true => self.split(mode, 2),
                false => vec![mode],
            })
            .collect();
        let leaves: Vec<(usize, usize)> =
            nested.iter().enumerate().flat_map(|(m, inner)| (0..inner.len()).map(move |l| (m, l))).collect();
        let order = if self.random.chance(60) { leaves.clone() } else { self.random.shuffled(&leaves) };
        let plain = order == leaves && nested.iter().all(|inner| inner.len() == 1);
        let mut strides: Vec<Vec<i64>> = nested.iter().map(|inner| vec![0; inner.len()]).collect();
        let mut next = 1;
        for (mode, leaf) in order {
            strides[mode][leaf] = next;
            next *= nested[mode][leaf];
        }
        let shape = nested_entries(&nested);
        let made = match plain && self.random.chance(80) {
            true => format!("layout!({shape})"),
            false => format!("layout!({shape} : {})", nested_entries(&strides)),
        };
        self.bind("t", made)
    }
}
