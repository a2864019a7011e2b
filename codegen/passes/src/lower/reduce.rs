//! Reductions: within a thread, across the lanes of a warp, across the block; [`super::cluster`] continues
//! across a cluster.

mod runs;

use super::Lower;
use super::numbering::{extents_of, named};
use crate::source::problem::Result;
use crate::thread::index::Ix;
use crate::thread::{Bin, Frag, Mem, Op, Unroll, Val, Vote};
use crate::tile::elements::ElementFacts;
use crate::tile::view::View;
use crate::tile::view::leaf::leaves;
use crate::tile::{Across, Expr};
use crate::values::elem::Elem;
use crate::values::number::Number;
use crate::values::typing::Types;

pub(super) use runs::{Kept, PARTIAL_UNROLL, Runs};

/// Lanes of a warp.
const WARP: i64 = 32;

/// The accumulators of a reduction, and the functions that combine tuples of elements, one for each entry.
pub(super) struct Combined<'a> {
    pub(super) parts: Vec<Part>,
    pub(super) functions: &'a [Expr],
}

impl Combined<'_> {
    /// The operation, if the elements are combined by one.
    pub(super) fn operation(&self) -> Option<Bin> {
        Expr::operation(self.functions)
    }

    /// Is each entry combined by an operation for which the order of its two elements makes no difference?
    fn commutes(&self) -> bool {
        let count = self.functions.len();
        let commutes = |(entry, function): (usize, &Expr)| match function {
            Expr::Bin(Bin::Add | Bin::Mul | Bin::And | Bin::Or | Bin::Xor, x, y) => {
                let pair = [entry, entry + count].map(|input| Expr::In(input as u8));
                [&**x, &**y] == [&pair[0], &pair[1]] || [&**x, &**y] == [&pair[1], &pair[0]]
            }
            _ => false,
        };
        self.functions.iter().enumerate().all(commutes)
    }
}

/// An entry of the tuples.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) reg: u32,
    pub(super) elem: Elem,
    /// The identity element.
    pub(super) neutral: Number,
    pub(super) name: String,
}

impl Lower<'_> {
    /// Reduces tuples by functions.
    pub(super) fn fold(
        &mut self,
        from: &[View],
        to: &[View],
        with: &[Expr],
        neutral: &[Number],
        across: Across,
        known: &ElementFacts,
    ) -> Result<()> {
        self.at_tensor(&self.program.tensor(to[0].tensor).name);
        let typed = self.typed(to, with)?;
        let all = Combined { parts: self.parts(to, neutral), functions: &typed };
        self.loops(&named(extents_of(&leaves(&from[0]))), Unroll::Full, &mut |lower, at| {
            let kept = lower.target_at(&from[0], &to[0], at)?;
            let slot = lower.register_index(&to[0], &leaves(&to[0]), &kept);
            let elements = lower.masked_elements(&all, known, from, at);
            lower.add(&all, slot, elements)
        })?;
        let submodes = across.submodes(self.combined());
        match (across, &submodes[..]) {
            (_, []) => Ok(()),
            (Across::Warp(_), &[(lanes, _), ..]) => self.butterfly(&all, lanes, 1),
            (Across::Block, _) => self.across_block(&all),
            (Across::Cluster(blocks), _) => {
                self.across_block(&all)?;
                // Its warps have met to combine their results.
                self.across_blocks(&all, blocks.into(), self.combined() > WARP)
            }
            (Across::Blocks(1), _) => Ok(()),
            (Across::Blocks(blocks), _) => self.across_blocks(&all, blocks.into(), false),
            (Across::Thread | Across::Submodes(_), _) => self.across_digits(&all, &submodes),
        }
    }

    /// Functions of two tuples, in the types of their entries.
    pub(super) fn typed(&self, to: &[View], with: &[Expr]) -> Result<Vec<Expr>> {
        let elems: Vec<Elem> =
            to.iter().chain(to).map(|view| self.program.tensor(view.tensor).elem).collect();
        let types = Types { ins: &elems, scalars: &self.program.scalars };
        with.iter().zip(&elems).map(|(value, elem)| types.typed(value, *elem)).collect()
    }

    /// The entries of tuples.
    pub(super) fn parts(&self, to: &[View], neutral: &[Number]) -> Vec<Part> {
        let part = |(view, &neutral): (&View, &Number)| {
            let tensor = self.program.tensor(view.tensor);
            let reg = self.storage[view.tensor as usize];
            Part { reg, elem: tensor.elem, neutral, name: tensor.name.clone() }
        };
        to.iter().zip(neutral).map(part).collect()
    }

    /// The elements of views at an index, in the types of the accumulators. Out-of-bounds elements become the identity,
    /// unless the author claims that they are.
    pub(super) fn masked_elements(
        &mut self,
        all: &Combined<'_>,
        known: &ElementFacts,
        from: &[View],
        at: &[Ix],
    ) -> Vec<Val> {
        let mut elements = Vec::new();
        for (view, part) in from.iter().zip(&all.parts) {
            let (reg, index) = self.own_element(view, at);
            let elem = self.program.tensor(view.tensor).elem;
            elements.push(self.converted(Val::Reg(reg, index), elem, part.elem));
        }
        for (((element, part), view), edges) in elements.iter().zip(&all.parts).zip(from).zip(&known.claims) {
            self.claim(element, edges, view, at, part.neutral);
        }
        let coordinates = self.coordinates(&from[0], &leaves(&from[0]), at);
        let Some(inside) = self.inside(&known.masks, &coordinates) else { return elements };
        let mask = |(element, part): (Val, &Part)| {
            let neutral = Val::Lit(part.neutral, part.elem);
            Val::guarded(inside, element, neutral)
        };
        elements.into_iter().zip(&all.parts).map(mask).collect()
    }

    /// Combines the accumulators at an index with other elements.
    fn add(&mut self, all: &Combined<'_>, at: Ix, others: Vec<Val>) -> Result<()> {
        let others = match all.operation() {
            Some(_) => others,
            None => self.in_registers(all, "other", others),
        };
        let next = self.joined(all, &self.tuple(all, at), &others)?;
        self.set(all, at, next);
        Ok(())
    }

    /// Values in registers, because a function may read them several times.
    pub(super) fn in_registers(&mut self, all: &Combined<'_>, name: &str, values: Vec<Val>) -> Vec<Val> {
        let zero = self.int(0);
        let keep = |(part, value): (&Part, Val)| match value {
            plain @ Val::Reg(..) => plain,
            value => {
                let reg = self.register(format!("{}_{name}", part.name), part.elem, 1, false);
                self.emit(Op::Assign { reg, at: zero, value });
                Val::Reg(reg, zero)
            }
        };
        all.parts.iter().zip(values).map(keep).collect()
    }

    /// Two tuples combined. The functions of a tuple are computed before any of its entries can change.
    pub(super) fn joined(&mut self, all: &Combined<'_>, left: &[Val], right: &[Val]) -> Result<Vec<Val>> {
        let elems = all.parts.iter().chain(&all.parts).map(|part| part.elem);
        let values: Vec<(Val, Elem)> = left.iter().chain(right).cloned().zip(elems).collect();
        let mut next = Vec::new();
        for (part, function) in all.parts.iter().zip(all.functions) {
            let value = self.of_values(function, &values)?;
            next.push(match all.parts.len() {
                1 => value,
                _ => {
                    let (reg, at) =
                        (self.register(format!("{}_next", part.name), part.elem, 1, false), self.int(0));
                    self.emit(Op::Assign { reg, at, value });
                    Val::Reg(reg, at)
                }
            });
        }
        Ok(next)
    }

    /// Two tuples combined, in this order where a condition is true, elsewhere in the other order. The order is left
    /// out where it makes no difference.
    pub(super) fn joined_in_order(
        &mut self,
        all: &Combined<'_>,
        cond: Ix,
        left: &[Val],
        right: &[Val],
    ) -> Result<Vec<Val>> {
        if all.commutes() {
            return self.joined(all, right, left);
        }
        let pick = |(x, y): (&Val, &Val)| Val::guarded(cond, x.clone(), y.clone());
        let (first, second) =
            (left.iter().zip(right).map(pick).collect(), right.iter().zip(left).map(pick).collect());
        let first = self.in_registers(all, "first", first);
        let second = self.in_registers(all, "second", second);
        self.joined(all, &first, &second)
    }

    /// A loop over registers.
    pub(super) fn over(&mut self, len: i64, body: &mut dyn FnMut(&mut Self, Ix) -> Result<()>) -> Result<()> {
        self.loops(&named([len]), Unroll::Full, &mut |lower, at| body(lower, at[0]))
    }

    /// The tuple at an index.
    pub(super) fn tuple(&self, all: &Combined<'_>, at: Ix) -> Vec<Val> {
        all.parts.iter().map(|part| Val::Reg(part.reg, at)).collect()
    }

    /// Sets the tuple at an index.
    pub(super) fn set(&mut self, to: &Combined<'_>, at: Ix, values: Vec<Val>) {
        for (part, value) in to.parts.iter().zip(values) {
            self.emit(Op::Assign { reg: part.reg, at, value });
        }
    }

    /// How many results a thread has.
    pub(super) fn results(&self, all: &Combined<'_>) -> i64 {
        i64::from(self.kernel.regs[all.parts[0].reg as usize].len)
    }

    /// A butterfly shuffle: after it every lane of a group of `lanes` lanes, which are `step` apart, has the result.
    fn butterfly(&mut self, all: &Combined<'_>, lanes: i64, step: i64) -> Result<()> {
        let len = self.results(all);
        if let (WARP, Some(with)) = (lanes, self.of_warp(all)) {
            return self.over(len, &mut |lower, at| {
                let reg = all.parts[0].reg;
                let value = Val::Vote(Vote::All(with), Box::new(Val::Reg(reg, at)));
                lower.emit(Op::Assign { reg, at, value });
                Ok(())
            });
        }
        let mut distance = lanes / 2 * step;
        while distance >= step {
            let by = self.int(distance);
            self.over(len, &mut |lower, at| {
                let other = |part: &Part| Val::Reg(part.reg, at).butterfly(by);
                lower.add(all, at, all.parts.iter().map(other).collect())
            })?;
            distance /= 2;
        }
        Ok(())
    }

    /// The operation, where one instruction combines the elements of all lanes.
    fn of_warp(&self, all: &Combined<'_>) -> Option<Bin> {
        let [Part { elem: Elem::I32 | Elem::U32, .. }] = all.parts[..] else { return None };
        let with = all.operation().filter(|_| self.kernel.arch >= 80)?;
        matches!(with, Bin::Add | Bin::Min | Bin::Max).then_some(with)
    }

    /// A reduction with a partial last warp: missing lanes contribute the identity. Lane 0 of every warp
    /// gets the result: at each step it and its sources read from lanes that have combined all lanes above
    /// them.
    fn gather_in_first_lane(&mut self, all: &Combined<'_>, threads: i64) -> Result<()> {
        let len = self.results(all);
        let others: Vec<u32> =
            all.parts.iter().map(|part| self.register("other".into(), part.elem, 1, false)).collect();
        let thread = self.affine(&crate::values::affine::Coord::Thread(self.scope.by).into());
        let (threads, zero) = (self.int(threads), self.int(0));
        let mut distance = WARP / 2;
        while distance > 0 {
            let by = self.int(distance);
            let from = self.exprs().xor(thread, by);
            let there = self.exprs().lt(from, threads);
            self.over(len, &mut |lower, at| {
                let mut elements = Vec::new();
                for (part, &other) in all.parts.iter().zip(&others) {
                    // Every lane takes part in the shuffle, even if its result is masked.
                    let shuffled = Val::Reg(part.reg, at).butterfly(by);
                    lower.emit(Op::Assign { reg: other, at: zero, value: shuffled });
                    let neutral = Val::Lit(part.neutral, part.elem);
                    elements.push(Val::guarded(there, Val::Reg(other, zero), neutral));
                }
                lower.add(all, at, elements)
            })?;
            distance /= 2;
        }
        Ok(())
    }

    /// Warps first, then their results through shared memory. Every thread combines them in the same order,
    /// so all get the same number.
    fn across_block(&mut self, all: &Combined<'_>) -> Result<()> {
        let threads = self.combined();
        match threads % WARP {
            0 => self.butterfly(all, WARP, 1)?,
            _ => self.gather_in_first_lane(all, threads)?,
        }
        if threads == WARP {
            return Ok(());
        }
        let warps = (threads + WARP - 1) / WARP;
        self.through_shared(all, &Runs { threads: WARP, submodes: &[(warps, 1)], name: "warps" })
    }

    /// Lanes of a warp first, then the remaining digits through shared memory. Threads that are combined use
    /// the same order, so all get the same number.
    fn across_digits(&mut self, all: &Combined<'_>, submodes: &[(i64, i64)]) -> Result<()> {
        let (mut compact, mut rest) = (1, Vec::new());
        for &(extent, step) in submodes {
            let lanes = self.lanes(extent, step);
            if lanes > 1 {
                self.butterfly(all, lanes, step)?;
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
            false => self.through_shared(all, &Runs { threads: compact, submodes: &rest, name: "threads" }),
        }
    }

    /// In a loop, other threads may still be reading the results of the previous iteration.
    fn meet_before_overwriting(&mut self) {
        if self.scope.loops > 0 {
            self.meet(self.scope.by);
        }
    }

    /// Threads of the current group.
    pub(super) fn combined(&self) -> i64 {
        self.program.combined(self.scope.by)
    }

    /// The factor of a submode of threads that shuffles within full warps combine.
    pub(super) fn lanes(&self, extent: i64, step: i64) -> i64 {
        let threads = self.combined();
        let mut lanes = 1;
        while threads % WARP == 0
            && step & (step - 1) == 0
            && 2 * lanes * step <= WARP
            && extent % (2 * lanes) == 0
        {
            lanes *= 2;
        }
        lanes
    }
}

pub(super) fn load(to: Frag, from: Mem) -> Op {
    Op::Load { to, from, guard: None, fill: 0.0.into(), volatile_at: None }
}
