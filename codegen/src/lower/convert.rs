//! Conversions of whole fragments in registers, by instructions of the table that convert several elements at once.

use super::Lower;
use super::address::{Leaf, leaves};
use crate::atom::{Atom, Effect};
use crate::atoms;
use crate::elem::Elem;
use crate::index::Ix;
use crate::pair::align;
use crate::problem::Result;
use crate::thread::{AtomArg, Frag, Op, Unroll};
use crate::tile::Space;
use crate::view::View;

/// The newest row that converts one type to another on an architecture.
fn row(from: Elem, to: Elem, arch: u32) -> Option<&'static Atom> {
    let converts = |row: &&Atom| {
        let is = |name: char, elem: Elem| row.operand(name).is_some_and(|of| of.elem == elem);
        let one_by_one = row.tv('a') == row.tv('d');
        row.effect == Effect::Convert && one_by_one && row.arch <= arch && is('a', from) && is('d', to)
    };
    atoms::all().filter(converts).max_by_key(|row| row.arch)
}

/// How many elements one instruction converts.
fn at_once(row: &'static Atom) -> i64 {
    row.tv('a').and_then(|tv| tv.mode(1).ok()?.size().ok()).unwrap_or(1)
}

impl Lower<'_> {
    /// Converts elements in registers several at once, if they lie in whole words of both arrays and an instruction
    /// converts them.
    pub(super) fn convert(&mut self, from: &View, to: &View) -> Result<bool> {
        let [source, target] = [from, to].map(|view| self.program.tensor(view.tensor));
        let words = [source, target].iter().all(|of| of.space == Space::Registers { words: true });
        let arch = self.kernel.arch;
        let Some(row) = row(source.elem, target.elem, arch).filter(|_| words) else { return Ok(false) };
        let pair = align(from, to)?;
        let sides = [(&pair.to, leaves(&pair.to)), (&pair.from, leaves(&pair.from))];
        let Some((last, part)) = self.run(&sides, at_once(row)) else { return Ok(false) };
        let names = ["i", "j", "l", "m", "n", "o", "p", "q"];
        let extent = |(at, leaf): (usize, &Leaf)| match at.cmp(&last) {
            std::cmp::Ordering::Less => 1,
            std::cmp::Ordering::Equal => leaf.extent / part,
            std::cmp::Ordering::Greater => leaf.extent,
        };
        let extents: Vec<(String, i64)> =
            sides[0].1.iter().enumerate().map(|of| (names[of.0 % 8].to_owned(), extent(of))).collect();
        self.loops(&extents, Unroll::Full, &mut |lower, at| {
            let mut first = at.to_vec();
            let by = lower.int(part);
            first[last] = lower.exprs().mul(at[last], by);
            let args = sides.iter().map(|(view, leaves)| {
                let at = lower.register_index(view, leaves, &first);
                let reg = lower.places[view.tensor as usize];
                AtomArg::Frag(Frag { reg, at, len: at_once(row) as u32 })
            });
            let args = args.collect();
            lower.emit(Op::Atom { row, args, guard: None });
            Ok(())
        })?;
        Ok(true)
    }

    /// Where runs of so many elements, contiguous and aligned in all arrays, end: the leaf, and how many elements of it are
    /// part of one.
    fn run(&mut self, sides: &[(&View, Vec<Leaf>); 2], count: i64) -> Option<(usize, i64)> {
        let (mut before, mut found) = (1, None);
        for (at, leaf) in sides[0].1.iter().enumerate() {
            let part = count / before;
            if found.is_some() {
                // Further leaves move by whole runs.
                let moves = |lower: &mut Self| {
                    lower.apart(sides, at).is_some_and(|by| by.iter().all(|by| by % count == 0))
                };
                if leaf.extent > 1 && !moves(self) {
                    return None;
                }
                continue;
            }
            if leaf.extent > 1 && self.apart(sides, at)? != [before; 2] {
                return None;
            }
            if leaf.extent % part == 0 {
                found = Some((at, part));
            } else if part % leaf.extent == 0 {
                before *= leaf.extent;
            } else {
                return None;
            }
        }
        let start = |lower: &mut Self, (view, leaves): &(&View, Vec<Leaf>)| {
            let zeros = vec![lower.int(0); leaves.len()];
            let at = lower.register_index(view, leaves, &zeros);
            lower.exprs().get(at).multiple % count == 0
        };
        found.filter(|_| sides.iter().all(|side| start(self, side)))
    }

    /// How far apart elements are along a leaf in each array, if that is known.
    fn apart(&mut self, sides: &[(&View, Vec<Leaf>); 2], along: usize) -> Option<[i64; 2]> {
        let mut steps = [0; 2];
        for (step, (view, leaves)) in steps.iter_mut().zip(sides) {
            let mut at: Vec<Ix> = vec![self.int(0); leaves.len()];
            let first = self.register_index(view, leaves, &at);
            at[along] = self.int(1);
            let next = self.register_index(view, leaves, &at);
            let apart = self.exprs().sub(next, first);
            *step = self.exprs().constant(apart)?;
        }
        Some(steps)
    }
}
