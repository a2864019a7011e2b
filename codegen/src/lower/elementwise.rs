//! Functions of elements.

use super::Lower;
use super::address::{Leaf, leaves};
use super::transfer::align;
use crate::elem::Elem;
use crate::index::Ix;
use crate::problem::{Problem, Result};
use crate::thread::{Frag, Op, Unroll, Val};
use crate::tile::{Expr, Space};
use crate::view::View;

/// A side of a function: a view whose leaves are those of all other sides.
struct Side {
    view: View,
    leaves: Vec<Leaf>,
    /// Where its elements wait on their way from or to memory, and how many move at once.
    memory: Option<(u32, i64)>,
}

impl Side {
    /// Is it the same element all along this leaf?
    fn still(&self, which: usize) -> bool {
        self.leaves.get(which).is_some_and(|leaf| leaf.step == 0)
    }
}

impl Lower<'_> {
    /// A function of elements. Memory is read and written along one leaf, as many elements at once as each side allows.
    pub(super) fn map(&mut self, ins: &[View], to: &View, value: &Expr) -> Result<()> {
        let target = self.program.tensor(to.tensor);
        self.at_site(&target.name, self.kernel.sites[self.scope.site as usize].span);
        let (ins, to) = refined(ins, to)?;
        let mut sides: Vec<Side> = ins
            .into_iter()
            .chain([to])
            .map(|view| Side { leaves: leaves(&view), view, memory: None })
            .collect();
        let (which, widths) = self.widths(&sides);
        let wide = widths.iter().copied().max().unwrap_or(1);
        for (side, width) in sides.iter_mut().zip(widths) {
            let tensor = self.program.tensor(side.view.tensor);
            if !matches!(tensor.space, Space::Registers { .. }) {
                let name = format!("{}_value", side.view.name);
                side.memory = Some((self.register(name, tensor.elem, wide as u32, false), width));
            }
        }
        let Some(to) = sides.pop() else { return Ok(()) };
        let ins = sides;
        // Elements that are read at another place than they are written would be overwritten too early.
        let moved = |side: &Side| {
            side.view.tensor == to.view.tensor
                && (side.view.layout != to.view.layout || side.view.base != to.view.base)
        };
        let count: i64 = to.leaves.iter().map(|leaf| leaf.extent).product();
        let aside = match to.memory {
            None if ins.iter().any(moved) => {
                let name = format!("{}_next", to.view.name);
                Some(self.register(name, target.elem, count as u32, false))
            }
            _ => None,
        };
        let names = ["i", "j", "l", "m", "n", "o", "p", "q"];
        let extents: Vec<(String, i64)> = to
            .leaves
            .iter()
            .enumerate()
            .map(|(i, l)| (names[i % 8].to_owned(), if i == which { l.extent / wide } else { l.extent }))
            .collect();
        self.loops(&extents, Unroll::Full, &mut |lower, at| {
            let mut first = at.to_vec();
            if let Some(at) = first.get_mut(which) {
                let by = lower.int(wide);
                *at = lower.exprs().mul(*at, by);
            }
            for side in &ins {
                lower.transfers(side, which, wide, &first, true);
            }
            lower.loops(&[("e".to_owned(), wide)], Unroll::Full, &mut |lower, e| {
                let mut at = first.clone();
                if let Some(at) = at.get_mut(which) {
                    *at = lower.exprs().add(*at, e[0]);
                }
                let mut values = Vec::new();
                for side in &ins {
                    let (reg, index) = match side.memory {
                        Some((reg, _)) if side.still(which) => (reg, lower.int(0)),
                        Some((reg, _)) => (reg, e[0]),
                        None => {
                            let index = lower.register_index(&side.view, &side.leaves, &at);
                            (lower.places[side.view.tensor as usize], index)
                        }
                    };
                    values.push((Val::Reg(reg, index), lower.program.tensor(side.view.tensor).elem));
                }
                let elem = common(target.elem, values.iter().map(|(_, elem)| *elem));
                let value = lower.function(value, &ins, &values, &at, elem)?;
                let value = lower.converted(value, elem, target.elem);
                let (reg, index) = match (to.memory, aside) {
                    (Some((reg, _)), _) => (reg, e[0]),
                    (None, Some(reg)) => (reg, lower.flat(&to.leaves, &at)),
                    (None, None) => {
                        let index = lower.register_index(&to.view, &to.leaves, &at);
                        (lower.places[to.view.tensor as usize], index)
                    }
                };
                lower.emit(Op::Assign { reg, at: index, value });
                Ok(())
            })?;
            lower.transfers(&to, which, wide, &first, false);
            Ok(())
        })?;
        let Some(aside) = aside else { return Ok(()) };
        let extents: Vec<(String, i64)> =
            to.leaves.iter().enumerate().map(|(i, l)| (names[i % 8].to_owned(), l.extent)).collect();
        self.loops(&extents, Unroll::Full, &mut |lower, at| {
            let from = lower.flat(&to.leaves, at);
            let index = lower.register_index(&to.view, &to.leaves, at);
            let reg = lower.places[to.view.tensor as usize];
            lower.emit(Op::Assign { reg, at: index, value: Val::Reg(aside, from) });
            Ok(())
        })
    }

    /// The leaf along which memory is read and written, and how many elements each side moves at once: as few accesses as
    /// can be.
    fn widths(&mut self, sides: &[Side]) -> (usize, Vec<i64>) {
        let before = self.kernel.needs.clone();
        let none = (0, vec![1; sides.len()], before.clone());
        let mut best = none;
        let count = sides.first().map_or(0, |side| side.leaves.len());
        for which in 0..count {
            self.kernel.needs.clone_from(&before);
            let widths: Vec<i64> = sides
                .iter()
                .map(|side| {
                    let tensor = self.program.tensor(side.view.tensor);
                    let leaf = side.leaves[which];
                    match tensor.space {
                        Space::Registers { .. } => 1,
                        _ if leaf.step != 1 || leaf.extent == 1 => 1,
                        _ => {
                            let most = i64::from(16 / tensor.elem.bytes());
                            self.width(&side.view, &side.leaves, which, most)
                        }
                    }
                })
                .collect();
            let accesses = |widths: &[i64]| widths.iter().map(|width| 16 / width).sum::<i64>();
            if accesses(&widths) < accesses(&best.1) {
                best = (which, widths, self.kernel.needs.clone());
            }
        }
        self.kernel.needs = best.2;
        (best.0, best.1)
    }

    /// Moves `wide` elements of a side from memory, or to it.
    fn transfers(&mut self, side: &Side, which: usize, wide: i64, first: &[Ix], reads: bool) {
        let Some((reg, width)) = side.memory else { return };
        // One element for all is moved once.
        let wide = if side.still(which) { 1 } else { wide };
        for n in (0..wide).step_by(width as usize) {
            let mut at = first.to_vec();
            let n = self.int(n);
            if let Some(at) = at.get_mut(which) {
                *at = self.exprs().add(*at, n);
            }
            let guard = self.guard(&side.view, &side.leaves, &at);
            let place = self.place(&side.view, &side.leaves, &at);
            let frag = Frag { reg, at: n, len: width as u32 };
            self.emit(match reads {
                true => Op::Load { to: frag, from: place, guard, fill: 0.0, stays: None },
                false => Op::Store { to: place, from: frag, guard },
            });
        }
    }

    /// A function's value, computed in the type of its result.
    fn function(
        &mut self,
        of: &Expr,
        ins: &[Side],
        values: &[(Val, Elem)],
        at: &[Ix],
        elem: Elem,
    ) -> Result<Val> {
        let mut inner = |e: &Expr, elem: Elem| self.function(e, ins, values, at, elem).map(Box::new);
        Ok(match of {
            Expr::In(n) => {
                let (value, from) = &values[usize::from(*n)];
                self.converted(value.clone(), *from, elem)
            }
            Expr::Lit(x) => Val::Lit(*x, elem),
            Expr::Scalar(id) => {
                let scalar = &self.program.scalars[*id as usize];
                let place =
                    self.program.args.iter().position(|a| *a == crate::tile::Arg::Scalar(*id)).unwrap_or(0);
                self.converted(Val::Param(place as u32), scalar.elem, elem)
            }
            Expr::Coord(n, mode) => {
                let side = ins.get(usize::from(*n)).ok_or_else(|| Problem::new("no such input"))?;
                let coordinates = self.coordinates(&side.view, &side.leaves, at);
                Val::Int(coordinates[usize::from(*mode)], elem)
            }
            Expr::Un(f, x) => Val::Un(*f, inner(x, elem)?),
            Expr::Bin(f, x, y) => Val::Bin(*f, inner(x, elem)?, inner(y, elem)?),
            Expr::Fma(x) => {
                Val::Fma(Box::new([*inner(&x[0], elem)?, *inner(&x[1], elem)?, *inner(&x[2], elem)?]))
            }
            Expr::Cmp(f, x, y) => Val::Cmp(*f, inner(x, elem)?, inner(y, elem)?),
            Expr::Pick(x) => {
                Val::Pick(Box::new([*inner(&x[0], elem)?, *inner(&x[1], elem)?, *inner(&x[2], elem)?]))
            }
            Expr::Cast(to, x) => {
                let value = inner(x, *to)?;
                self.converted(Val::Cast(*to, value), *to, elem)
            }
        })
    }

    /// A function of scalar arguments alone, in their type.
    pub(super) fn uniform(&mut self, of: &Expr) -> Result<Val> {
        let mut elem = None;
        let program = self.program;
        scalars(of, &mut |id| elem = elem.or(Some(program.scalars[id as usize].elem)));
        self.function(of, &[], &[], &[], elem.unwrap_or(Elem::F32))
    }
}

/// Views of the same shape, refined until all have the same leaves.
fn refined(ins: &[View], to: &View) -> Result<(Vec<View>, View)> {
    let mut to = to.clone();
    for view in ins {
        to = align(view, &to)?.to;
    }
    let ins = ins.iter().map(|view| Ok(align(view, &to)?.from)).collect::<Result<_>>()?;
    Ok((ins, to))
}

fn scalars(of: &Expr, found: &mut dyn FnMut(u32)) {
    match of {
        Expr::Scalar(id) => found(*id),
        Expr::In(_) | Expr::Lit(_) | Expr::Coord(..) => {}
        Expr::Un(_, x) | Expr::Cast(_, x) => scalars(x, found),
        Expr::Bin(_, x, y) | Expr::Cmp(_, x, y) => [x, y].into_iter().for_each(|x| scalars(x, found)),
        Expr::Fma(x) | Expr::Pick(x) => x.iter().for_each(|x| scalars(x, found)),
    }
}

/// The type in which a function is computed whose results are `to`: the widest, so that only results are rounded.
fn common(to: Elem, ins: impl Iterator<Item = Elem>) -> Elem {
    ins.fold(to, |one, other| match (one.is_float(), other.is_float()) {
        (true, false) => one,
        (false, true) => other,
        _ if one == other => one,
        _ if one.bytes() == other.bytes() && one.is_float() => Elem::F32,
        _ if one.bytes() >= other.bytes() => one,
        _ => other,
    })
}
