//! Scans: elements sorted by their numbers in the order of the scan, and combined one after another.

use std::collections::BTreeMap;

use tilewright_codegen::Elem;
use tilewright_codegen::scan::{Level, Scan};
use tilewright_codegen::view::View;

use super::memory::{Cell, Outside};
use super::order::Step;
use super::statement::{Writes, either};
use super::view::{Begin, Shown};
use super::{Cluster, Num, Result, Undefined};

/// An element: its thread's position in the group, its coordinates, its tuple.
type Ranked = (usize, Vec<i64>, Vec<Cell>);

impl Cluster<'_> {
    pub(super) fn scan(&self, step: &Step<'_>, (from, to): (&[View], &[View]), how: &Scan) -> Result<Writes> {
        let elems: Vec<Elem> = to.iter().map(|view| self.elem(view)).collect();
        let from: Vec<Shown<'_>> = from.iter().map(|view| self.show(view)).collect::<Result<_>>()?;
        let to: Vec<Shown<'_>> = to.iter().map(|view| self.show(view)).collect::<Result<_>>()?;
        let threads = self.threads(step);
        let starts = |all: &[Shown<'_>], thread: i64| -> Result<Vec<Begin>> {
            all.iter().map(|shown| self.begin(shown, &step.at, thread)).collect()
        };
        // By what elements have in common, and by their numbers, slowest submode first.
        let mut groups: BTreeMap<(u32, Vec<i64>), BTreeMap<Vec<i64>, Ranked>> = BTreeMap::new();
        for (slot, &thread) in threads.iter().enumerate() {
            let begins = starts(&from, thread)?;
            for at in 0..from[0].count() {
                let at = from[0].coordinates_of(at);
                let cells = from.iter().zip(&begins);
                let cells = cells.map(|(shown, begin)| self.written(shown, begin, &at, Num::UNKNOWN));
                let cells: Vec<Cell> = cells.collect::<Result<_>>()?;
                let (mut rest, mut first, mut number) = (at.clone(), slot as u32, Vec::new());
                for level in &how.levels {
                    number.push(match *level {
                        Level::Own { mode, extent } => {
                            let index = &mut rest[usize::from(mode)];
                            let coordinate = *index % extent;
                            *index /= extent;
                            coordinate
                        }
                        Level::Threads(across) => {
                            let of = across.first(slot as u32);
                            first = across.first(first);
                            (0..slot).filter(|other| across.first(*other as u32) == of).count() as i64
                        }
                        Level::Blocks(_) => return Err(Undefined("a scan over a cluster".into())),
                    });
                }
                number.reverse();
                groups.entry((first, rest)).or_default().insert(number, (slot, at, cells));
            }
        }
        let identity = how.identity.iter().zip(&elems).map(|(n, elem)| Num::literal(*n, *elem));
        let identity: Vec<Num> = identity.collect();
        let mut writes = Writes::new();
        for group in groups.into_values() {
            let mut sum = identity.clone();
            for (slot, at, cells) in group.into_values() {
                let thread = threads[slot];
                let out_of_bounds = cells
                    .iter()
                    .fold(Outside::No, |out_of_bounds, cell| either(out_of_bounds, cell.out_of_bounds));
                let tuple: Vec<Num> = cells.iter().map(|cell| cell.num).collect();
                let next = match out_of_bounds {
                    Outside::Yes => sum.clone(),
                    Outside::Perhaps if tuple != identity => vec![Num::UNKNOWN; elems.len()],
                    _ => self.combined(step, thread, &how.with, [&sum, &tuple], &elems)?,
                };
                let own = if how.exclusive { sum } else { next.clone() };
                sum = next;
                for ((shown, begin), num) in to.iter().zip(starts(&to, thread)?).zip(own) {
                    // Another order would round differently, and elements out of bounds are unspecified.
                    let known = num.is_exact() && out_of_bounds == Outside::No;
                    let num = if known { num } else { Num::UNKNOWN };
                    self.put(shown, &begin, &at, Cell { num, out_of_bounds }, &mut writes)?;
                }
            }
        }
        Ok(writes)
    }
}
