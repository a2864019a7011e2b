//! Reductions through shared memory: runs of threads store their elements, and threads combine the elements of several runs.

use super::super::Lower;
use super::{Combined, Part, WARP, load};
use crate::isa::WORD;
use crate::source::problem::Result;
use crate::thread::index::Ix;
use crate::thread::{Frag, Mem, Op, Scope, Shared, Space, Unroll, Val};
use crate::tile::ALIGN;
use crate::values::elem::Elem;

/// Unroll factor of a loop over many partial results.
pub(in super::super) const PARTIAL_UNROLL: u32 = 8;

/// How the loop over `count` partial results of a reduction is unrolled: entirely if there is at most one result for each
/// warp of a block, so that they are loaded by vectors.
fn unroll_partials(count: i64) -> Unroll {
    if count <= WARP { Unroll::Full } else { Unroll::By(PARTIAL_UNROLL) }
}

/// Runs of neighbouring threads that have the same elements, to be combined with other runs.
pub(in super::super) struct Runs<'a> {
    /// Threads of a run.
    pub(in super::super) threads: i64,
    /// The digits of a run's number in which combined runs differ: extent and step.
    pub(in super::super) submodes: &'a [(i64, i64)],
    /// The name of runs in the source.
    pub(in super::super) name: &'a str,
}

impl Runs<'_> {
    /// How many are combined.
    pub(in super::super) fn count(&self) -> i64 {
        self.submodes.iter().map(|(extent, _)| extent).product()
    }
}

/// Elements of runs in shared memory.
pub(in super::super) struct Kept {
    /// An array for each entry of the tuples.
    pub(in super::super) arrays: Vec<u32>,
    /// Where this group's elements begin.
    pub(in super::super) begin: Ix,
    /// How many runs there are.
    pub(in super::super) count: i64,
    /// The run of this thread.
    pub(in super::super) run: Ix,
    /// Does each begin a word, also of several narrow elements?
    pub(in super::super) in_words: bool,
}

impl Lower<'_> {
    /// Combines runs of threads through shared memory.
    pub(in super::super) fn through_shared(&mut self, all: &Combined<'_>, runs: &Runs<'_>) -> Result<()> {
        let kept = self.store_of_runs(all, runs)?;
        let home = self.first_run(all, runs, kept.run);
        self.combine_runs(all, runs, &kept, home)
    }

    /// Combines elements of runs, from the first on.
    pub(in super::super) fn combine_runs(
        &mut self,
        all: &Combined<'_>,
        runs: &Runs<'_>,
        kept: &Kept,
        home: Ix,
    ) -> Result<()> {
        let len = self.results(all);
        let (count, zero) = (runs.count(), self.int(0));
        if self.by_one_instruction(all, runs) {
            return self.combine_by_one_instruction(all, kept, count, home);
        }
        if self.by_lanes(all, runs) {
            return self.combine_by_lanes(all, kept, count, home);
        }
        let partials: Vec<u32> =
            all.parts.iter().map(|part| self.register("partial".into(), part.elem, 1, false)).collect();
        self.load_run(all, kept, home, None)?;
        if count == 1 {
            return Ok(());
        }
        let var = self.var("w", false);
        let at = self.exprs().leaf(crate::thread::index::Int::Var(var), 1, count - 1, 1, Scope::Block);
        let other = self.run_at(runs, home, at);
        let (body, ()) = self.nested(|lower| {
            lower.over(len, &mut |lower, at| {
                for (&partial, &array) in partials.iter().zip(&kept.arrays) {
                    let from = lower.address_of_run(kept, array, at, other);
                    lower.emit(load(Frag { reg: partial, at: zero, len: 1 }, from));
                }
                lower.add(all, at, partials.iter().map(|&partial| Val::Reg(partial, zero)).collect())
            })
        })?;
        let (from, to) = (self.int(1), self.int(count));
        self.emit(Op::For { var, from, to, step: 1, unroll: unroll_partials(count), body });
        Ok(())
    }

    /// Loads the results of a run; the identity where the guard fails.
    fn load_run(&mut self, all: &Combined<'_>, kept: &Kept, run: Ix, guard: Option<Ix>) -> Result<()> {
        self.over(self.results(all), &mut |lower, at| {
            for (part, &array) in all.parts.iter().zip(&kept.arrays) {
                let from = lower.address_of_run(kept, array, at, run);
                let to = Frag { reg: part.reg, at, len: 1 };
                lower.emit(Op::Load { to, from, guard, fill: part.neutral, volatile_at: None });
            }
            Ok(())
        })
    }

    /// One instruction combines a run from each lane. That is quicker than to add eight or more of them one after the other.
    fn by_one_instruction(&self, all: &Combined<'_>, runs: &Runs<'_>) -> bool {
        let count = runs.count();
        self.of_warp(all).is_some()
            && *runs.submodes == [(count, 1)]
            && (8..=WARP).contains(&count)
            && self.combined() % WARP == 0
    }

    fn combine_by_one_instruction(
        &mut self,
        all: &Combined<'_>,
        kept: &Kept,
        count: i64,
        home: Ix,
    ) -> Result<()> {
        let thread = self.affine(&crate::values::affine::Coord::Thread(self.scope.by).into());
        let lane = self.exprs().rem(thread, WARP);
        let run = self.exprs().add(home, lane);
        let guard = (count < WARP).then(|| self.exprs().lt(lane, count));
        self.load_run(all, kept, run, guard)?;
        self.butterfly(all, WARP, 1)
    }

    /// Closures take longer than shuffles: each lane of a warp has one run, where every lane has one.
    fn by_lanes(&self, all: &Combined<'_>, runs: &Runs<'_>) -> bool {
        let count = runs.count();
        all.operation().is_none()
            && *runs.submodes == [(count, 1)]
            && count > 2
            && count <= WARP
            && count.count_ones() == 1
            && self.combined() % WARP == 0
    }

    fn combine_by_lanes(&mut self, all: &Combined<'_>, kept: &Kept, count: i64, home: Ix) -> Result<()> {
        let len = self.results(all);
        let thread = self.affine(&crate::values::affine::Coord::Thread(self.scope.by).into());
        let lane = self.exprs().rem(thread, count);
        let run = self.exprs().add(home, lane);
        self.load_run(all, kept, run, None)?;
        // The lower lane's elements come first in both lanes, so that all get the same number.
        let mut distance = 1;
        while distance < count {
            let (by, two) = (self.int(distance), self.int(2 * distance));
            let bit = self.exprs().remainder(thread, two);
            let low = self.exprs().lt(bit, by);
            self.over(len, &mut |lower, at| {
                let tuple = lower.tuple(all, at);
                let others = tuple.iter().map(|entry| entry.clone().butterfly(by)).collect();
                let others = lower.in_registers(all, "other", others);
                let next = lower.joined_in_order(all, low, &tuple, &others)?;
                lower.set(all, at, next);
                Ok(())
            })?;
            distance *= 2;
        }
        Ok(())
    }

    /// Stores the elements of each run in shared memory, and waits for them.
    pub(in super::super) fn store_of_runs(&mut self, all: &Combined<'_>, runs: &Runs<'_>) -> Result<Kept> {
        let len = self.results(all);
        let count = (self.combined() + runs.threads - 1) / runs.threads;
        // Each member of a family has its own part.
        let members = i64::from(self.program.groups[self.scope.by as usize].members.max(1));
        let array = |lower: &mut Self, part: &Part| {
            let name = format!("{}_of_{}", part.name, runs.name);
            lower.scratch_array(&name, part.elem, (count * len * members) as u32, "warps")
        };
        let arrays: Vec<u32> = all.parts.iter().map(|part| array(self, part)).collect();
        let member = self.member(self.scope.by);
        let begin = self.exprs().mul(member, count * len);
        let thread = self.affine(&crate::values::affine::Coord::Thread(self.scope.by).into());
        self.meet_before_overwriting();
        let run = self.exprs().div(thread, runs.threads);
        let kept = Kept { arrays, begin, count, run, in_words: false };
        let (store, ()) = self.nested(|lower| {
            lower.over(len, &mut |lower, at| {
                for (part, &array) in all.parts.iter().zip(&kept.arrays) {
                    let to = lower.address_of_run(&kept, array, at, run);
                    let from = Frag { reg: part.reg, at, len: 1 };
                    lower.emit(Op::Store { to, from, guard: None });
                }
                Ok(())
            })
        })?;
        let lane = self.exprs().rem(thread, runs.threads);
        let first = self.exprs().eq(lane, 0);
        match runs.threads {
            1 => self.block.extend(store),
            _ => self.emit(Op::If { cond: first.into(), then: store, other: Vec::new() }),
        }
        self.meet(self.scope.by);
        Ok(kept)
    }

    /// The first of the combined runs: its digits are 0.
    pub(in super::super) fn first_run(&mut self, all: &Combined<'_>, runs: &Runs<'_>, run: Ix) -> Ix {
        let mut home = run;
        for &(extent, step) in runs.submodes {
            let index = self.submode_of(run, extent, step);
            let part = self.exprs().mul(index, step);
            home = self.exprs().sub(home, part);
        }
        match self.kernel.exprs.constant(home) {
            Some(_) => home,
            None => self.name_here(home, &format!("{}_first", all.parts[0].name)),
        }
    }

    /// A submode of a number.
    pub(in super::super) fn submode_of(&mut self, number: Ix, extent: i64, step: i64) -> Ix {
        let over = self.exprs().div(number, step);
        self.exprs().rem(over, extent)
    }

    /// The address of one of a run's elements.
    pub(in super::super) fn address_of_run(&mut self, kept: &Kept, array: u32, at: Ix, run: Ix) -> Mem {
        let row = self.exprs().mul(at, kept.count);
        let index = self.exprs().add(run, row);
        let mut index = self.exprs().add(kept.begin, index);
        if kept.in_words {
            let apart = self.kernel.shared[array as usize].elem.elements_in(WORD).max(1);
            index = self.exprs().mul(index, i64::from(apart));
        }
        Mem { space: Space::Shared(array), index, peer: None }
    }

    /// The run with this number among the combined runs. The first is `home`.
    pub(in super::super) fn run_at(&mut self, runs: &Runs<'_>, home: Ix, at: Ix) -> Ix {
        let (mut run, mut below) = (home, 1);
        for &(extent, step) in runs.submodes {
            let submode = self.submode_of(at, extent, below);
            let part = self.exprs().mul(submode, step);
            run = self.exprs().add(run, part);
            below *= extent;
        }
        run
    }

    /// A scratch array in shared memory.
    pub(in super::super) fn scratch_array(&mut self, name: &str, elem: Elem, len: u32, of: &str) -> u32 {
        let offset = self.allocation.append(elem.bytes_of(len), ALIGN);
        let note = format!("{len} results of {of}");
        self.kernel.shared.push(Shared { name: name.to_owned(), elem, len, offset, align: ALIGN, note });
        self.kernel.shared.len() as u32 - 1
    }
}
