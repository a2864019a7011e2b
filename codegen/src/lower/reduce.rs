//! Reductions: within a thread, across the lanes of a warp, across the block.

use super::Lower;
use super::address::leaves;
use super::bounds::{Edge, identity, target_at};
use crate::elem::Elem;
use crate::problem::{Problem, Result};
use crate::thread::{Bin, Frag, Mem, Op, Scope, Shared, Space, Unroll, Val};
use crate::tile::{self, Across};
use crate::view::View;

/// Lanes of a warp.
const WARP: i64 = 32;

/// How many partial results are combined in a row.
const PARTIAL_UNROLL: u32 = 8;

impl Lower<'_> {
    pub(super) fn reduce(
        &mut self,
        from: &View,
        to: &View,
        with: Bin,
        across: Across,
        edges: &[Edge],
    ) -> Result<()> {
        let target = self.program.tensor(to.tensor);
        let source = self.program.tensor(from.tensor);
        self.at_site(&target.name, self.kernel.sites[self.scope.site as usize].span);
        let from_leaves = leaves(from);
        let registers = |space| matches!(space, tile::Space::Registers { .. });
        if !registers(source.space) || !registers(target.space) {
            return Err(Problem::new("a reduction needs both sides in registers")
                .help("copy them to registers first"));
        }
        let Some(nothing) = identity(with, target.elem) else {
            return Err(Problem::new(format!(
                "elements cannot be combined by {with:?}: the order would matter"
            )));
        };
        let (from_reg, to_reg) = (self.places[from.tensor as usize], self.places[to.tensor as usize]);
        let names = ["i", "j", "l", "m", "n", "o", "p", "q"];
        let extents: Vec<(String, i64)> =
            from_leaves.iter().enumerate().map(|(i, l)| (names[i % 8].to_owned(), l.extent)).collect();
        self.loops(&extents, Unroll::Full, &mut |lower, at| {
            let source_at = lower.register_index(from, &from_leaves, at);
            let kept = target_at(lower, from, to, at);
            let target_at = lower.register_index(to, &leaves(to), &kept);
            let mut element = lower.converted(Val::Reg(from_reg, source_at), source.elem, target.elem);
            let coordinates = lower.coordinates(from, &from_leaves, at);
            if let Some(inside) = lower.inside(edges, &coordinates) {
                let nothing = Val::lit(nothing, target.elem);
                element = Val::Guarded(inside, Box::new(element), Box::new(nothing));
            }
            let value = Val::Bin(with, Box::new(Val::Reg(to_reg, target_at)), Box::new(element));
            lower.emit(Op::Assign { reg: to_reg, at: target_at, value });
            Ok(())
        })?;
        match across {
            Across::Thread => Ok(()),
            Across::Warp(lanes) => {
                let (lanes, threads) = (i64::from(lanes), self.combined());
                if ![1, 2, 4, 8, 16, WARP].contains(&lanes) || threads % lanes != 0 {
                    return Err(Problem::new(format!(
                        "groups of {lanes} lanes cannot combine their elements: there are {threads} threads"
                    ))
                    .help("groups have 2, 4, 8, 16 or 32 lanes and divide the number of threads; across the block any number combines"));
                }
                self.across_lanes(to_reg, with, lanes)
            }
            Across::Block => self.across_block(to_reg, with, target.elem, &target.name),
            Across::Digits(digits) => self.across_digits(to_reg, with, target.elem, &target.name, digits),
        }
    }

    /// A butterfly: after it every lane of a group of `lanes` neighbours holds the result.
    fn across_lanes(&mut self, reg: u32, with: Bin, lanes: i64) -> Result<()> {
        self.butterfly(reg, with, lanes, 1)
    }

    /// The same over `lanes` lanes that are `step` apart.
    fn butterfly(&mut self, reg: u32, with: Bin, lanes: i64, step: i64) -> Result<()> {
        let len = i64::from(self.kernel.regs[reg as usize].len);
        let mut distance = lanes / 2 * step;
        while distance >= step {
            let by = self.int(distance);
            self.loops(&[("i".to_owned(), len)], Unroll::Full, &mut |lower, at| {
                let mine = Val::Reg(reg, at[0]);
                let other = Val::ShuffleXor(Box::new(mine.clone()), by);
                let value = Val::Bin(with, Box::new(mine), Box::new(other));
                lower.emit(Op::Assign { reg, at: at[0], value });
                Ok(())
            })?;
            distance /= 2;
        }
        Ok(())
    }

    /// The same where the last warp has fewer lanes: those that are missing count for nothing. Lane 0 of every warp holds
    /// the result: at each step it and its sources read from lanes that hold all that lies beyond them.
    fn gather_in_first_lane(&mut self, reg: u32, with: Bin, elem: Elem, threads: i64) -> Result<()> {
        let len = i64::from(self.kernel.regs[reg as usize].len);
        let nothing = identity(with, elem).unwrap_or_default();
        let name = String::from("other");
        let other = self.register(name, elem, 1, false);
        let thread = self.affine(&crate::affine::Coord::Thread(self.scope.by).into());
        let (threads, zero) = (self.int(threads), self.int(0));
        let mut distance = WARP / 2;
        while distance > 0 {
            let by = self.int(distance);
            let from = self.exprs().xor(thread, by);
            let there = self.exprs().lt(from, threads);
            self.loops(&[("i".to_owned(), len)], Unroll::Full, &mut |lower, at| {
                let mine = Val::Reg(reg, at[0]);
                // Every lane takes part in the shuffle, whatever becomes of its result.
                let shuffled = Val::ShuffleXor(Box::new(mine.clone()), by);
                lower.emit(Op::Assign { reg: other, at: zero, value: shuffled });
                let element =
                    Val::Guarded(there, Box::new(Val::Reg(other, zero)), Box::new(Val::lit(nothing, elem)));
                let value = Val::Bin(with, Box::new(mine), Box::new(element));
                lower.emit(Op::Assign { reg, at: at[0], value });
                Ok(())
            })?;
            distance /= 2;
        }
        Ok(())
    }

    /// Warps first, then their results through shared memory. Every thread combines them in the same order, so all hold
    /// the same number.
    fn across_block(&mut self, reg: u32, with: Bin, elem: Elem, name: &str) -> Result<()> {
        let threads = self.combined();
        match threads % WARP {
            0 => self.across_lanes(reg, with, WARP)?,
            _ => self.gather_in_first_lane(reg, with, elem, threads)?,
        }
        if threads == WARP {
            return Ok(());
        }
        self.through_shared(reg, with, elem, name, (threads + WARP - 1) / WARP)
    }

    /// Lanes of a warp first, then what is left of the digits through shared memory. Threads that are combined do so in the
    /// same order, so all hold the same number.
    fn across_digits(
        &mut self,
        reg: u32,
        with: Bin,
        elem: Elem,
        name: &str,
        digits: tile::Digits,
    ) -> Result<()> {
        let threads = self.combined();
        let whole = digits.all().last().map_or(1, |(extent, step)| i64::from(extent * step));
        if threads % whole != 0 {
            return Err(Problem::new(format!(
                "groups of {whole} threads cannot combine their elements: there are {threads}"
            ))
            .help("the largest digit's extent times its step divides the number of threads"));
        }
        let (mut compact, mut rest) = (1, Vec::new());
        for &(extent, step) in digits.all() {
            let (extent, step) = (i64::from(extent), i64::from(step));
            // What of it is a butterfly of whole warps.
            let mut lanes = 1;
            while threads % WARP == 0
                && step & (step - 1) == 0
                && 2 * lanes * step <= WARP
                && extent % (2 * lanes) == 0
            {
                lanes *= 2;
            }
            if lanes > 1 {
                self.butterfly(reg, with, lanes, step)?;
            }
            if step == 1 {
                compact = lanes;
            }
            if extent > lanes {
                rest.push((extent / lanes, step * lanes / compact));
            }
        }
        match rest.is_empty() {
            true => Ok(()),
            false => self.digits_through_shared(reg, with, elem, name, compact, &rest),
        }
    }

    /// Combines threads through shared memory. `compact` neighbours hold the same; `digits` are those of the number of such
    /// a neighbourhood.
    fn digits_through_shared(
        &mut self,
        reg: u32,
        with: Bin,
        elem: Elem,
        name: &str,
        compact: i64,
        digits: &[(i64, i64)],
    ) -> Result<()> {
        let len = i64::from(self.kernel.regs[reg as usize].len);
        let holders = (self.combined() + compact - 1) / compact;
        let array = self.scratch_array(&format!("{name}_of_threads"), elem, (holders * len) as u32);
        let thread = self.affine(&crate::affine::Coord::Thread(self.scope.by).into());
        self.meet_again();
        let (holder, zero) = (self.exprs().div(thread, compact), self.int(0));
        let place = |lower: &mut Self, at, holder| {
            let by = lower.int(holders);
            let row = lower.exprs().mul(at, by);
            let index = lower.exprs().add(holder, row);
            Mem { space: Space::Shared(array), index, peer: None }
        };
        let (store, ()) = self.nested(|lower| {
            lower.loops(&[("i".to_owned(), len)], Unroll::Full, &mut |lower, at| {
                let to = place(lower, at[0], holder);
                lower.emit(Op::Store { to, from: Frag { reg, at: at[0], len: 1 }, guard: None });
                Ok(())
            })
        })?;
        let lane = self.exprs().rem(thread, compact);
        let first = self.exprs().eq(lane, zero);
        match compact {
            1 => self.block.extend(store),
            _ => self.emit(Op::If { cond: first, then: store, other: Vec::new() }),
        }
        self.meet(self.scope.by);
        // The first of those that are combined: the digits are 0.
        let mut home = holder;
        for &(extent, step) in digits {
            let over = self.exprs().div(holder, step);
            let digit = self.exprs().rem(over, extent);
            let by = self.int(step);
            let part = self.exprs().mul(digit, by);
            home = self.exprs().sub(home, part);
        }
        let home = self.hold(home, &format!("{name}_first"));
        let load = |lower: &mut Self, to: Frag, from: Mem| {
            lower.emit(Op::Load { to, from, guard: None, fill: 0.0.into(), stays: None });
        };
        self.loops(&[("i".to_owned(), len)], Unroll::Full, &mut |lower, at| {
            let from = place(lower, at[0], home);
            load(lower, Frag { reg, at: at[0], len: 1 }, from);
            Ok(())
        })?;
        let count: i64 = digits.iter().map(|(extent, _)| extent).product();
        let partial = self.register(String::from("partial"), elem, 1, false);
        let var = self.var("w", false);
        let at = self.exprs().leaf(crate::index::Int::Var(var), 1, count - 1, 1, Scope::Block);
        let (mut other, mut below) = (home, 1);
        for &(extent, step) in digits {
            let over = self.exprs().div(at, below);
            let digit = self.exprs().rem(over, extent);
            let by = self.int(step);
            let part = self.exprs().mul(digit, by);
            other = self.exprs().add(other, part);
            below *= extent;
        }
        let (body, ()) = self.nested(|lower| {
            lower.loops(&[("i".to_owned(), len)], Unroll::Full, &mut |lower, at| {
                let from = place(lower, at[0], other);
                load(lower, Frag { reg: partial, at: zero, len: 1 }, from);
                let value = Val::Bin(with, Box::new(Val::Reg(reg, at[0])), Box::new(Val::Reg(partial, zero)));
                lower.emit(Op::Assign { reg, at: at[0], value });
                Ok(())
            })
        })?;
        let (from, to) = (self.int(1), self.int(count));
        self.emit(Op::For { var, from, to, step: 1, unroll: Unroll::By(PARTIAL_UNROLL), body });
        Ok(())
    }

    /// In a loop, others may still be reading the results of the iteration before.
    fn meet_again(&mut self) {
        if self.scope.loops > 0 {
            self.meet(self.scope.by);
        }
    }

    /// Threads of the group at hand.
    fn combined(&self) -> i64 {
        let group = &self.program.groups[self.scope.by as usize];
        i64::from(if group.threads > 0 { group.threads } else { self.program.threads() })
    }

    fn through_shared(&mut self, reg: u32, with: Bin, elem: Elem, name: &str, warps: i64) -> Result<()> {
        let len = i64::from(self.kernel.regs[reg as usize].len);
        // Each member of a family has a part for itself.
        let members = i64::from(self.program.groups[self.scope.by as usize].members.max(1));
        let array = self.scratch_array(&format!("{name}_of_warps"), elem, (warps * len * members) as u32);
        let (member, part) = (self.member(self.scope.by), self.int(warps * len));
        let begin = self.exprs().mul(member, part);
        let thread = self.affine(&crate::affine::Coord::Thread(self.scope.by).into());
        self.meet_again();
        let (lane, warp) = (self.exprs().rem(thread, WARP), self.exprs().div(thread, WARP));
        let place = |lower: &mut Self, at, warp| {
            let by = lower.int(warps);
            let row = lower.exprs().mul(at, by);
            let index = lower.exprs().add(warp, row);
            let index = lower.exprs().add(begin, index);
            Mem { space: Space::Shared(array), index, peer: None }
        };
        let zero = self.int(0);
        let first = self.exprs().eq(lane, zero);
        let (store, ()) = self.nested(|lower| {
            lower.loops(&[("i".to_owned(), len)], Unroll::Full, &mut |lower, at| {
                let to = place(lower, at[0], warp);
                lower.emit(Op::Store { to, from: Frag { reg, at: at[0], len: 1 }, guard: None });
                Ok(())
            })
        })?;
        self.emit(Op::If { cond: first, then: store, other: Vec::new() });
        self.meet(self.scope.by);
        let name = String::from("partial");
        let partial = self.register(name, elem, 1, false);
        self.loops(&[("i".to_owned(), len)], Unroll::Full, &mut |lower, at| {
            let from = place(lower, at[0], zero);
            lower.emit(Op::Load {
                to: Frag { reg, at: at[0], len: 1 },
                from,
                guard: None,
                fill: 0.0.into(),
                stays: None,
            });
            Ok(())
        })?;
        if warps == 1 {
            return Ok(());
        }
        let var = self.var("w", false);
        let other = self.exprs().leaf(crate::index::Int::Var(var), 1, warps - 1, 1, Scope::Block);
        let (body, ()) = self.nested(|lower| {
            lower.loops(&[("i".to_owned(), len)], Unroll::Full, &mut |lower, at| {
                let from = place(lower, at[0], other);
                lower.emit(Op::Load {
                    to: Frag { reg: partial, at: zero, len: 1 },
                    from,
                    guard: None,
                    fill: 0.0.into(),
                    stays: None,
                });
                let value = Val::Bin(with, Box::new(Val::Reg(reg, at[0])), Box::new(Val::Reg(partial, zero)));
                lower.emit(Op::Assign { reg, at: at[0], value });
                Ok(())
            })
        })?;
        let (from, to) = (self.int(1), self.int(warps));
        self.emit(Op::For { var, from, to, step: 1, unroll: Unroll::By(PARTIAL_UNROLL), body });
        Ok(())
    }

    /// An array in shared memory that no tensor of the program is.
    fn scratch_array(&mut self, name: &str, elem: Elem, len: u32) -> u32 {
        const ALIGN: u32 = 16;
        let offset = self.kernel.launch.shared_bytes.next_multiple_of(ALIGN);
        let note = format!("{len} results of warps");
        let array = Shared { name: name.to_owned(), elem, len, offset, align: ALIGN, note };
        self.kernel.launch.shared_bytes = offset + array.bytes();
        self.kernel.shared.push(array);
        self.kernel.shared.len() as u32 - 1
    }
}
