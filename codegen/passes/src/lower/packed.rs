//! Conversions and products of whole fragments in registers, by instructions of the table that take several elements at
//! once.

use super::Lower;
use super::elementwise::refined;
use super::numbering::named;
use crate::isa;
use crate::isa::atom::{Atom, Effect, OperandName};
use crate::source::problem::Result;
use crate::thread::index::Ix;
use crate::thread::{AtomArg, Bin, Frag, Op, Unroll};
use crate::tile::pair::align;
use crate::tile::view::View;
use crate::tile::view::leaf::{Leaf, leaves};
use crate::tile::{Expr, Space};
use crate::values::elem::Elem;

/// A view in registers, and its leaves.
type Side = (View, Vec<Leaf>);

/// The row that has this effect on elements of a type, with `operands` operands.
fn arithmetic(effect: Effect, elem: Elem, operands: usize, arch: u32) -> Option<&'static Atom> {
    let computes = |row: &Atom| row.effect == effect && row.arch <= arch && row.operands.len() == operands;
    isa::all().find(|row| computes(row) && row.has(OperandName::D, elem))
}

/// The inputs that a function multiplies, and the input that it adds, or the inputs that it subtracts; `None` if it does anything
/// else.
fn terms(value: &Expr) -> Option<(Effect, Vec<u8>)> {
    let of = |args: &[&Expr]| -> Option<Vec<u8>> {
        args.iter().map(|arg| if let Expr::In(n) = arg { Some(*n) } else { None }).collect()
    };
    match value {
        Expr::Bin(Bin::Mul, x, y) => Some((Effect::Multiply, of(&[x, y])?)),
        Expr::Bin(Bin::Sub, x, y) => Some((Effect::Subtract, of(&[x, y])?)),
        Expr::Fma(args) => Some((Effect::Multiply, of(&args.each_ref())?)),
        _ => None,
    }
}

/// How many elements one instruction takes.
fn at_once(row: &'static Atom) -> i64 {
    row.tv(OperandName::D).and_then(|tv| tv.mode(1).ok()?.size().ok()).unwrap_or(1)
}

impl Lower<'_> {
    /// Converts elements in registers several at once, if they are in whole words of both arrays and an instruction
    /// converts them.
    pub(super) fn convert(&mut self, from: &View, to: &View) -> Result<bool> {
        let elem = |view: &View| self.program.tensor(view.tensor).elem;
        let Some(row) = isa::convert(elem(from), elem(to), self.kernel.arch) else { return Ok(false) };
        let pair = align(from, to)?;
        self.by_words(row, vec![pair.to, pair.from])
    }

    /// Multiplies or subtracts elements in registers several at once, if they are in whole words of all arrays, and an
    /// instruction computes such a function.
    pub(super) fn compute_words(&mut self, ins: &[View], to: &View, value: &Expr) -> Result<bool> {
        let Some((effect, terms)) = terms(value) else { return Ok(false) };
        let elem = self.program.tensor(to.tensor).elem;
        let Some(row) = arithmetic(effect, elem, terms.len() + 1, self.kernel.arch) else { return Ok(false) };
        let (ins, to) = refined(ins, to)?;
        // If source and target overlap, each element must be read at the position where it is written.
        let moved =
            |view: &View| view.tensor == to.tensor && (&view.layout, &view.base) != (&to.layout, &to.base);
        if ins.iter().any(moved) {
            return Ok(false);
        }
        let ins = terms.iter().map(|&n| ins[usize::from(n)].clone());
        self.by_words(row, [to.clone()].into_iter().chain(ins).collect())
    }

    /// Writes the first view from the others, whose leaves are the same, by an instruction for several elements at once;
    /// `false` if they are not in whole words.
    fn by_words(&mut self, row: &'static Atom, views: Vec<View>) -> Result<bool> {
        let words = |view: &View| self.program.tensor(view.tensor).space == Space::Registers { words: true };
        if !views.iter().all(words) {
            return Ok(false);
        }
        let mut sides: Vec<Side> = views.into_iter().map(|view| (view.clone(), leaves(&view))).collect();
        let mut run = self.run(&sides, at_once(row));
        if run.is_none() {
            // In the order of the target's registers.
            let mut step = |at: usize| self.apart(&sides, at).map_or(i64::MAX, |by| by[0]);
            let mut order: Vec<(i64, usize)> = (0..sides[0].1.len()).map(|at| (step(at), at)).collect();
            order.sort_unstable();
            for (_, leaves) in &mut sides {
                *leaves = order.iter().map(|(_, at)| leaves[*at]).collect();
            }
            run = self.run(&sides, at_once(row));
        }
        let Some((last, part)) = run else { return Ok(false) };
        let extent = |(at, leaf): (usize, &Leaf)| match at.cmp(&last) {
            std::cmp::Ordering::Less => 1,
            std::cmp::Ordering::Equal => leaf.extent / part,
            std::cmp::Ordering::Greater => leaf.extent,
        };
        let extents = named(sides[0].1.iter().enumerate().map(extent));
        self.loops(&extents, Unroll::Full, &mut |lower, at| {
            let mut first = at.to_vec();
            first[last] = lower.exprs().mul(at[last], part);
            let args = sides.iter().map(|(view, leaves)| {
                let at = lower.register_index(view, leaves, &first);
                let reg = lower.storage[view.tensor as usize];
                AtomArg::Frag(Frag { reg, at, len: at_once(row) as u32 })
            });
            let args = args.collect();
            lower.emit(Op::Atom { row, args, guard: None });
            Ok(())
        })?;
        Ok(true)
    }

    /// The end of runs of `count` elements, contiguous and aligned in all arrays: the leaf, and the number of its elements
    /// in one run.
    fn run(&mut self, sides: &[Side], count: i64) -> Option<(usize, i64)> {
        let (mut before, mut result) = (1, None);
        for (at, leaf) in sides[0].1.iter().enumerate() {
            let part = count / before;
            if result.is_some() {
                // Further leaves move by whole runs.
                let moves = |lower: &mut Self| {
                    lower.apart(sides, at).is_some_and(|by| by.iter().all(|by| by % count == 0))
                };
                if leaf.extent > 1 && !moves(self) {
                    return None;
                }
                continue;
            }
            if leaf.extent > 1 && self.apart(sides, at)?.iter().any(|by| *by != before) {
                return None;
            }
            if leaf.extent % part == 0 {
                result = Some((at, part));
            } else if part % leaf.extent == 0 {
                before *= leaf.extent;
            } else {
                return None;
            }
        }
        let start = |lower: &mut Self, (view, leaves): &Side| {
            let zeros = vec![lower.int(0); leaves.len()];
            let at = lower.register_index(view, leaves, &zeros);
            lower.exprs().get(at).multiple % count == 0
        };
        result.filter(|_| sides.iter().all(|side| start(self, side)))
    }

    /// How far apart elements are along a leaf in each array, if that is known.
    fn apart(&mut self, sides: &[Side], along: usize) -> Option<Vec<i64>> {
        let step = |(view, leaves): &Side| {
            let mut at: Vec<Ix> = vec![self.int(0); leaves.len()];
            let first = self.register_index(view, leaves, &at);
            at[along] = self.int(1);
            let next = self.register_index(view, leaves, &at);
            let apart = self.exprs().sub(next, first);
            self.exprs().constant(apart)
        };
        sides.iter().map(step).collect()
    }
}
