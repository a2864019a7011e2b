//! Scans: prefixes within a thread, across the lanes of a warp, across the block, across the cluster.
//!
//! Elements are numbered in the order of the scan. The number is split into levels by a mixed radix; each level is over
//! elements of a thread or over threads. An element of a level is the total of the level below. A level combines the
//! prefixes of its elements with the prefixes of all levels above.

use tilewright_layout::Layout;

use super::Lower;
use super::numbering::named;
use super::reduce::{Combined, Kept, PARTIAL_UNROLL, Part, Runs, load};
use crate::source::problem::Result;
use crate::thread::index::{Int, Ix};
use crate::thread::{Frag, Op, Scope, Unroll, Val};
use crate::tile::elements::ElementFacts;
use crate::tile::pair::Scanned;
use crate::tile::view::View;
use crate::values::affine::Coord;
use crate::values::scan::{self, Scan};

/// A function of an element's index along each leaf and its position in the order.
type AtEach<'f, Of> = dyn FnMut(&mut Of, &[Ix], Ix) -> Result<()> + 'f;

/// A level of more than one element.
#[derive(Clone, Copy)]
enum Level {
    /// This number of elements of a thread.
    Own(i64),
    /// A submode of the thread's number: extent and step.
    Threads(i64, i64),
    /// The rank of the block in a cluster of this number of blocks.
    Blocks(i64),
}

impl Lower<'_> {
    pub(super) fn scan(
        &mut self,
        &Scanned { from, to, carry }: &Scanned<'_>,
        how: &Scan,
        known: &ElementFacts,
    ) -> Result<()> {
        let program = self.program;
        let tensor = |view: &View| program.tensor(view.tensor);
        self.at_tensor(&tensor(&to[0]).name);
        let typed = self.typed(to, &how.with)?;
        let all = Combined { parts: self.parts(to, &how.identity), functions: &typed };
        let levels = self.levels_of(how);
        let order = Order::new(&from[0], &how.modes());
        let (count, together) = (order.count(), order.rest());
        let values = self.room(&all, "scanned", count);
        self.each_of(&order, &mut |lower, at, position| {
            let elements = lower.masked_elements(&all, known, from, at);
            lower.set(&values, position, elements);
            Ok(())
        })?;
        let state = match carry {
            [] => None,
            _ => Some(self.room(&all, "carry", together)),
        };
        if let Some(state) = &state {
            self.carried(&order, &from[0], carry, state, false)?;
        }
        let done = self.prefixes(&values, &levels, state.as_ref(), !how.exclusive)?;
        self.each_of(&order, &mut |lower, at, position| {
            let elements = lower.tuple_or_identity(&all, done.as_deref(), position);
            for (view, value) in to.iter().zip(elements) {
                let kept = lower.target_at(&from[0], view, at)?;
                let (reg, at) = lower.own_element(view, &kept);
                lower.emit(Op::Assign { reg, at, value });
            }
            Ok(())
        })?;
        match &state {
            Some(state) => self.carried(&order, &from[0], carry, state, true),
            None => Ok(()),
        }
    }

    /// The levels of more than one element.
    fn levels_of(&self, how: &Scan) -> Vec<Level> {
        let mut levels = Vec::new();
        for level in &how.levels {
            match *level {
                scan::Level::Own { extent, .. } => levels.push(Level::Own(extent)),
                scan::Level::Threads(across) => {
                    let submodes = across.submodes(self.combined());
                    levels.extend(submodes.into_iter().map(|(extent, step)| Level::Threads(extent, step)));
                }
                scan::Level::Blocks(blocks) => levels.push(Level::Blocks(blocks.into())),
            }
        }
        levels.retain(|level| !matches!(level, Level::Own(1) | Level::Threads(1, _) | Level::Blocks(1)));
        levels
    }

    /// Loops over the elements of a view.
    fn each_of(&mut self, order: &Order, body: &mut AtEach<'_, Self>) -> Result<()> {
        let extents = named(order.leaves.iter().map(|leaf| leaf.0));
        self.loops(&extents, Unroll::Full, &mut |lower, at| {
            let mut position = lower.int(0);
            for (&index, &(_, step)) in at.iter().zip(&order.leaves) {
                let term = lower.exprs().mul(index, step);
                position = lower.exprs().add(position, term);
            }
            body(lower, at, position)
        })
    }

    /// Loads the carry, or stores it.
    fn carried(
        &mut self,
        order: &Order,
        from: &View,
        carry: &[View],
        state: &Combined<'_>,
        stores: bool,
    ) -> Result<()> {
        self.each_of(&order.only_rest(), &mut |lower, at, position| {
            for (view, part) in carry.iter().zip(&state.parts) {
                let kept = lower.target_at(from, view, at)?;
                let (outer, own) = (lower.own_element(view, &kept), (part.reg, position));
                let (to, from) = if stores { (outer, own) } else { (own, outer) };
                lower.emit(Op::Assign { reg: to.0, at: to.1, value: Val::Reg(from.0, from.1) });
            }
            Ok(())
        })
    }

    /// For each element, the combination of all elements before it, and of itself if the scan is inclusive;
    /// `None` if that is the identity. The first level is the level of neighbours in `values`, which are
    /// overwritten. The carry is combined first, and becomes the combination of all elements.
    fn prefixes(
        &mut self,
        values: &Combined<'_>,
        levels: &[Level],
        carry: Option<&Combined<'_>>,
        inclusive: bool,
    ) -> Result<Option<Vec<Part>>> {
        let len = self.results(values);
        let Some((level, above)) = levels.split_first() else {
            let Some(carry) = carry else {
                return Ok(inclusive.then(|| values.parts.clone()));
            };
            let done = self.room(values, "before", len);
            self.over(len, &mut |lower, at| {
                let next = lower.joined(values, &lower.tuple(carry, at), &lower.tuple(values, at))?;
                let next = lower.in_registers(values, "after", next);
                let own = if inclusive { next.clone() } else { lower.tuple(carry, at) };
                lower.set(&done, at, own);
                lower.set(carry, at, next);
                Ok(())
            })?;
            return Ok(Some(done.parts));
        };
        match *level {
            Level::Own(extent) => self.own_level(values, extent, above, carry, inclusive).map(Some),
            Level::Threads(..) | Level::Blocks(_) => {
                let done = self.room(values, "before", len);
                self.over(len, &mut |lower, at| {
                    let first = lower.tuple_or_identity(values, inclusive.then_some(&values.parts), at);
                    lower.set(&done, at, first);
                    Ok(())
                })?;
                match *level {
                    Level::Threads(extent, step) => self.over_threads(values, &done, extent, step)?,
                    Level::Blocks(blocks) => {
                        let (kept, submodes) =
                            (self.results_of_blocks(values, blocks, false)?, [(blocks, 1)]);
                        self.over_kept(values, &done, &self.blocks_of_cluster(&submodes), &kept)?;
                    }
                    Level::Own(_) => {}
                }
                if let Some(before) = self.prefixes(values, above, carry, false)? {
                    self.over(len, &mut |lower, at| {
                        let before = lower.tuple_or_identity(values, Some(&before), at);
                        let next = lower.joined(values, &before, &lower.tuple(&done, at))?;
                        lower.set(&done, at, next);
                        Ok(())
                    })?;
                }
                Ok(Some(done.parts))
            }
        }
    }

    /// A level over elements of a thread.
    fn own_level(
        &mut self,
        values: &Combined<'_>,
        extent: i64,
        above: &[Level],
        carry: Option<&Combined<'_>>,
        inclusive: bool,
    ) -> Result<Vec<Part>> {
        let len = self.results(values);
        let rows = len / extent;
        let grid = named([extent - 1, rows]);
        self.loops(&grid, Unroll::Full, &mut |lower, at| {
            let [here, next] = lower.neighbours(at, extent);
            let value = lower.joined(values, &lower.tuple(values, here), &lower.tuple(values, next))?;
            lower.set(values, next, value);
            Ok(())
        })?;
        // Without levels above and without a carry, nobody needs the totals.
        let before = if above.is_empty() && carry.is_none() {
            None
        } else {
            let totals = self.room(values, "total", rows);
            self.over(rows, &mut |lower, at| {
                let [_, last] = lower.neighbours_of(extent - 2, at, extent);
                let last = lower.tuple(values, last);
                lower.set(&totals, at, last);
                Ok(())
            })?;
            self.prefixes(&totals, above, carry, false)?
        };
        let before = before.as_deref();
        if inclusive && before.is_none() {
            return Ok(values.parts.clone());
        }
        let done = self.room(values, "before", len);
        self.over(rows, &mut |lower, at| {
            let [first, _] = lower.neighbours_of(0, at, extent);
            let start = lower.tuple_or_identity(values, before, at);
            let start = match inclusive {
                true => lower.joined(values, &start, &lower.tuple(values, first))?,
                false => start,
            };
            lower.set(&done, first, start);
            Ok(())
        })?;
        self.loops(&grid, Unroll::Full, &mut |lower, at| {
            let [here, next] = lower.neighbours(at, extent);
            let own = lower.tuple(values, if inclusive { next } else { here });
            let value = match before {
                None => own,
                Some(_) => {
                    let start = lower.tuple_or_identity(values, before, at[1]);
                    lower.joined(values, &start, &own)?
                }
            };
            lower.set(&done, next, value);
            Ok(())
        })?;
        Ok(done.parts)
    }

    /// A level over threads: `done`, which begins as the identity or as `values`, gets the combination of
    /// earlier threads, and `values` become the combination over all threads.
    fn over_threads(
        &mut self,
        values: &Combined<'_>,
        done: &Combined<'_>,
        extent: i64,
        step: i64,
    ) -> Result<()> {
        let lanes = self.lanes(extent, step);
        let mut distance = step;
        while distance < lanes * step {
            self.exchange(values, done, distance)?;
            distance *= 2;
        }
        if extent == lanes {
            return Ok(());
        }
        // Lanes of a run have the same total.
        let threads = if step == 1 { lanes } else { 1 };
        let submodes = [(extent / lanes, step * lanes / threads)];
        self.over_runs(values, done, &Runs { threads, submodes: &submodes, name: "threads" })
    }

    /// One step of a scan over lanes, by a butterfly: groups of `distance` lanes are joined in pairs. Of each
    /// pair the upper group continues the lower one.
    fn exchange(&mut self, values: &Combined<'_>, done: &Combined<'_>, distance: i64) -> Result<()> {
        let thread = self.affine(&Coord::Thread(self.scope.by).into());
        let upper = self.submode_of(thread, 2, distance);
        let by = self.int(distance);
        self.over(self.results(values), &mut |lower, at| {
            let shuffled = |value: Val| value.butterfly(by);
            let others = lower.tuple(values, at).into_iter().map(shuffled).collect();
            let others = lower.in_registers(values, "other", others);
            let own = lower.tuple(values, at);
            let continued = lower.joined(values, &others, &lower.tuple(done, at))?;
            let pick = |(x, y): (Val, Val)| Val::guarded(upper, x, y);
            let continued = continued.into_iter().zip(lower.tuple(done, at)).map(pick).collect();
            lower.set(done, at, continued);
            let total = lower.joined_in_order(values, upper, &others, &own)?;
            lower.set(values, at, total);
            Ok(())
        })
    }

    /// A level over runs of threads, through shared memory: each thread combines the totals of all runs in
    /// order, and keeps the prefix before its own run.
    fn over_runs(&mut self, values: &Combined<'_>, done: &Combined<'_>, runs: &Runs<'_>) -> Result<()> {
        let kept = self.store_of_runs(values, runs)?;
        self.over_kept(values, done, runs, &kept)
    }

    fn over_kept(
        &mut self,
        values: &Combined<'_>,
        done: &Combined<'_>,
        runs: &Runs<'_>,
        kept: &Kept,
    ) -> Result<()> {
        let len = self.results(values);
        let home = self.first_run(values, runs, kept.run);
        let (extent, step) = runs.submodes[0];
        let own = self.submode_of(kept.run, extent, step);
        let preceding = self.room(values, "preceding", len);
        let next = self.room(values, "next_total", 1);
        let zero = self.int(0);
        self.over(len, &mut |lower, at| {
            for (part, &array) in values.parts.iter().zip(&kept.arrays) {
                let from = lower.address_of_run(kept, array, at, home);
                lower.emit(load(Frag { reg: part.reg, at, len: 1 }, from));
            }
            let identity = lower.tuple_or_identity(values, None, at);
            lower.set(&preceding, at, identity);
            Ok(())
        })?;
        let var = self.var("w", false);
        let run = self.exprs().leaf(Int::Var(var), 1, runs.count() - 1, 1, Scope::Block);
        let other = self.run_at(runs, home, run);
        let here = self.exprs().eq(run, own);
        let (body, ()) = self.nested(|lower| {
            lower.over(len, &mut |lower, at| {
                let pick = |(x, y): (Val, Val)| Val::guarded(here, x, y);
                let kept_so_far = lower.tuple(values, at).into_iter().zip(lower.tuple(&preceding, at));
                let kept_so_far = kept_so_far.map(pick).collect();
                lower.set(&preceding, at, kept_so_far);
                for (part, &array) in next.parts.iter().zip(&kept.arrays) {
                    let from = lower.address_of_run(kept, array, at, other);
                    lower.emit(load(Frag { reg: part.reg, at: zero, len: 1 }, from));
                }
                let total = lower.joined(values, &lower.tuple(values, at), &lower.tuple(&next, zero))?;
                lower.set(values, at, total);
                Ok(())
            })
        })?;
        let (from, to) = (self.int(1), self.int(runs.count()));
        // The elements of a scan are in registers meanwhile, which an unrolled loop would take more of.
        self.emit(Op::For { var, from, to, step: 1, unroll: Unroll::By(PARTIAL_UNROLL), body });
        self.over(len, &mut |lower, at| {
            let value = lower.joined(values, &lower.tuple(&preceding, at), &lower.tuple(done, at))?;
            lower.set(done, at, value);
            Ok(())
        })
    }

    /// Registers for `len` tuples.
    fn room<'a>(&mut self, all: &Combined<'a>, name: &str, len: i64) -> Combined<'a> {
        let parts = all.parts.iter().map(|part| {
            let reg = self.register(format!("{}_{name}", part.name), part.elem, len as u32, false);
            Part { reg, ..part.clone() }
        });
        Combined { parts: parts.collect(), functions: all.functions }
    }

    /// The tuple at an index, or the identity.
    fn tuple_or_identity(&self, all: &Combined<'_>, of: Option<&[Part]>, at: Ix) -> Vec<Val> {
        match of {
            Some(parts) => parts.iter().map(|part| Val::Reg(part.reg, at)).collect(),
            None => all.parts.iter().map(|part| Val::Lit(part.neutral, part.elem)).collect(),
        }
    }

    /// An element of a row, and the one after it.
    fn neighbours(&mut self, at: &[Ix], extent: i64) -> [Ix; 2] {
        let row = self.exprs().mul(at[1], extent);
        let here = self.exprs().add(row, at[0]);
        [here, self.exprs().add(here, 1)]
    }

    fn neighbours_of(&mut self, element: i64, row: Ix, extent: i64) -> [Ix; 2] {
        let element = self.int(element);
        self.neighbours(&[element, row], extent)
    }
}

/// The order of the elements of a thread: scanned modes first.
struct Order {
    /// For each leaf of the view its extent, and its stride in the order.
    leaves: Vec<(i64, i64)>,
    /// Elements that are scanned together.
    scanned: i64,
}

impl Order {
    fn new(view: &View, scanned: &[usize]) -> Order {
        let modes: Vec<Layout> = view.layout.modes().collect();
        let rest = (0..modes.len()).filter(|mode| !scanned.contains(mode));
        let extents = |mode: usize| -> Vec<i64> {
            modes[mode].leaves().map(|(extent, _)| extent.int().unwrap_or(1)).collect()
        };
        let (mut leaves, mut step) = (vec![Vec::new(); modes.len()], 1);
        let mut all = 1;
        for mode in scanned.iter().copied().chain(rest) {
            for extent in extents(mode) {
                leaves[mode].push((extent, step));
                step *= extent;
            }
            if scanned.contains(&mode) {
                all = step;
            }
        }
        Order { leaves: leaves.concat(), scanned: all }
    }

    fn count(&self) -> i64 {
        self.leaves.iter().map(|(extent, _)| extent).product()
    }

    /// Elements of the modes that are not scanned.
    fn rest(&self) -> i64 {
        self.count() / self.scanned
    }

    /// The order of the elements that are not scanned.
    fn only_rest(&self) -> Order {
        let leaves = self.leaves.iter().map(|&(extent, step)| match step < self.scanned {
            true => (1, 0),
            false => (extent, step / self.scanned),
        });
        Order { leaves: leaves.collect(), scanned: 1 }
    }
}
