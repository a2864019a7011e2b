//! Functions of elements.

use super::Lower;
use super::address::leaves;
use super::transfer::align;
use crate::elem::Elem;
use crate::index::Ix;
use crate::problem::{Problem, Result};
use crate::thread::{Frag, Op, Unroll, Val};
use crate::tile::{Expr, Space};
use crate::view::View;

impl Lower<'_> {
    pub(super) fn map(&mut self, ins: &[View], to: &View, value: &Expr) -> Result<()> {
        let target = self.program.tensor(to.tensor);
        self.at_site(&target.name, self.kernel.sites[self.site as usize].span);
        let ins: Vec<View> = ins.iter().map(|view| Ok(align(view, to)?.from)).collect::<Result<_>>()?;
        let to_leaves = leaves(to);
        let in_memory = |space: Space| !matches!(space, Space::Registers { .. });
        let scratch: Vec<Option<u32>> = ins
            .iter()
            .map(|view| {
                let tensor = self.program.tensor(view.tensor);
                in_memory(tensor.space).then(|| {
                    let name = self.fresh(&format!("{}_value", view.name));
                    self.register(name, tensor.elem, 1, false)
                })
            })
            .collect();
        let out = if in_memory(target.space) {
            let name = self.fresh(&format!("{}_value", to.name));
            Some(self.register(name, target.elem, 1, false))
        } else {
            None
        };
        let names = ["i", "j", "l", "m", "n", "o", "p", "q"];
        let extents: Vec<(String, i64)> =
            to_leaves.iter().enumerate().map(|(i, l)| (names[i % 8].to_owned(), l.extent)).collect();
        self.loops(&extents, Unroll::Full, &mut |lower, at| {
            let zero = lower.int(0);
            let mut values = Vec::new();
            for (view, scratch) in ins.iter().zip(&scratch) {
                let all = leaves(view);
                let elem = lower.program.tensor(view.tensor).elem;
                let value = match scratch {
                    Some(reg) => {
                        let guard = lower.guard(view, &all, at);
                        let from = lower.place(view, &all, at);
                        lower.emit(Op::Load {
                            to: Frag { reg: *reg, at: zero, len: 1 },
                            from,
                            guard,
                            fill: 0.0,
                        });
                        Val::Reg(*reg, zero)
                    }
                    None => {
                        let index = lower.register_index(view, &all, at);
                        Val::Reg(lower.places[view.tensor as usize], index)
                    }
                };
                values.push((value, elem));
            }
            let value = lower.function(value, &ins, &values, at, target.elem)?;
            match out {
                Some(reg) => {
                    lower.emit(Op::Assign { reg, at: zero, value });
                    let guard = lower.guard(to, &to_leaves, at);
                    let place = lower.place(to, &to_leaves, at);
                    lower.emit(Op::Store { to: place, from: Frag { reg, at: zero, len: 1 }, guard });
                }
                None => {
                    let index = lower.register_index(to, &to_leaves, at);
                    let reg = lower.places[to.tensor as usize];
                    lower.emit(Op::Assign { reg, at: index, value });
                }
            }
            Ok(())
        })
    }

    /// A function's value, computed in the type of its result.
    fn function(
        &mut self,
        of: &Expr,
        ins: &[View],
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
                let view = ins.get(usize::from(*n)).ok_or_else(|| Problem::new("no such input"))?;
                let coordinates = self.coordinates(view, &leaves(view), at);
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

fn scalars(of: &Expr, found: &mut dyn FnMut(u32)) {
    match of {
        Expr::Scalar(id) => found(*id),
        Expr::In(_) | Expr::Lit(_) | Expr::Coord(..) => {}
        Expr::Un(_, x) | Expr::Cast(_, x) => scalars(x, found),
        Expr::Bin(_, x, y) | Expr::Cmp(_, x, y) => [x, y].into_iter().for_each(|x| scalars(x, found)),
        Expr::Fma(x) | Expr::Pick(x) => x.iter().for_each(|x| scalars(x, found)),
    }
}
